"""Promises of errors: they name the type of the program's tensors and the time that was waited, and
the end of another rank is described as it was. Skipped without torch."""

from __future__ import annotations

import datetime
import os
import signal
import sys
import traceback
import unittest
from collections.abc import Callable
from typing import Any

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl
import dfccl.torch
from support import Case, meeting_place, on_processes
from torch_cases import on_ranks

SHORT = datetime.timedelta(seconds=0.2)
# Each type, and the type by which messages name it.
TYPES = {
    torch.float32: "float32",
    torch.bfloat16: "bfloat16",
    torch.float64: "float64",
    torch.int64: "int64",
    torch.complex64: "float32",
    torch.complex128: "float64",
}


def _moves(group: Any, dtype: torch.dtype) -> list[tuple[str, Callable[[], Any]]]:
    """One late call of each operation that moves tensors."""

    def make(count: int) -> torch.Tensor:
        return torch.zeros(count, dtype=dtype)

    return [
        ("broadcast", lambda: group.broadcast(make(5), 0, SHORT)),
        ("all_gather", lambda: group.allgather([make(5), make(5)], make(5), SHORT)),
        ("all_gather", lambda: group.allgather([make(5), make(6)], make(5), SHORT)),
        ("gather", lambda: group.gather([make(5), make(5)], make(5), 0, SHORT)),
        ("scatter", lambda: group.scatter(make(5), [make(5), make(5)], 0, SHORT)),
        ("all_to_all", lambda: group.all_to_all_single(make(6), make(6), [], [], SHORT)),
        ("all_to_all", lambda: group.alltoall([make(5), make(5)], [make(5), make(5)], SHORT)),
        ("recv", lambda: group.recv([make(5)], 1, 0)),
    ]


def _late_calls(rank: int, group: Any) -> None:
    own = dist.new_group([0, 1], timeout=SHORT)
    if rank == 0:
        for dtype, name in TYPES.items():
            for what, call in _moves(own, dtype):
                work = call()
                try:
                    work.wait()
                except dfccl.Timeout as error:
                    text = str(error)
                    shown = traceback.format_exception_only(error)[0]
                else:
                    raise AssertionError(f"{what} of {dtype} is not late")
                assert shown.startswith("dfccl.errors.Timeout: "), shown
                assert text.startswith(what), text
                assert f"torch.{name}[" in text and f" {name}, group of 2" in text, text
                others = set(TYPES.values()) - {name}
                assert not any(f" {other}," in text for other in others), (name, text)
                assert "after 0.2 s" in text and "registered by rank 1" in text, text
    dist.barrier()
    dist.destroy_process_group(own)


def _late_futures(rank: int, group: Any) -> None:
    """A future, whose work nobody waits for, has the limit of the call in its error."""
    own = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=0.7))
    if rank == 0:
        one = torch.ones(3)
        for work, limit in (
            (own.allreduce(one, timeout=SHORT), 0.2),
            (dist.all_reduce(torch.ones(4), group=own, async_op=True), 0.7),
            (own.recv([torch.ones(5)], 1, 0), 0.7),
            (own.recv_anysource([torch.ones(5)], 0), 0.7),
            (own.barrier(timeout=SHORT), 0.2),
        ):
            try:
                work.get_future().wait()
            except RuntimeError as error:
                assert f"after {limit} s" in str(error) and "after 0 s" not in str(error), error
            else:
                raise AssertionError("not late")
    dist.barrier()
    dist.destroy_process_group(own)


def _complex_meets_real(rank: int, group: Any) -> None:
    """torch.distributed passes complex tensors as real ones, and functional collectives do not."""
    tensor = torch.tensor([1 + 2j, 3 - 4j]) * (rank + 1)
    if rank == 0:
        dist.broadcast(tensor, 0)
        dist.send(tensor, 1)
    else:
        group.broadcast(tensor, 0).wait()
        assert torch.equal(tensor, torch.tensor([1 + 2j, 3 - 4j])), tensor
        tensor.zero_()
        group.recv([tensor], 0, 0).wait()
        assert torch.equal(tensor, torch.tensor([1 + 2j, 3 - 4j])), tensor
    wide = torch.tensor([1 + 2j], dtype=torch.complex128) * (rank + 1)
    parts = [torch.zeros(1, dtype=torch.complex128) for _ in range(2)]
    group.allgather(parts, wide).wait()
    assert parts[0] == 1 + 2j and parts[1] == 2 + 4j, parts


def _end(how: str) -> None:
    if how == "raises":
        raise ValueError("the loss is not finite")
    if how == "has outstanding runs":
        dist.all_reduce(torch.ones(9), async_op=True)
        sys.exit(0)
    if how == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "aborts":
        dist.group.WORLD.abort()


# The words that the other rank's error has.
ENDS = {
    "raises": ["rank 1", "left the job"],
    "has outstanding runs": ["rank 1", "the program has ended while runs were outstanding"],
    "is killed": ["rank 1 died"],
    "aborts": ["rank 1", "it has aborted the process group"],
}


def _one_ends(rank: int, size: int, place: str, how: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("dfccl", rank=rank, world_size=size, init_method=f"file://{place}")
    dist.all_reduce(torch.ones(3))  # also registers it
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.set("rank 0 is through", "1")
    else:  # the end would reach rank 0 in its first call otherwise
        store.wait(["rank 0 is through"])
        _end(how)
    try:
        dist.all_reduce(torch.ones(3))
    except dfccl.Error as error:
        assert rank == 1 or all(word in str(error) for word in ENDS[how]), error
        assert "dfcclAbort" not in str(error), error
    else:
        raise AssertionError("the other rank has not come")


class Errors(Case):
    def test_late_calls_and_futures(self):
        self.assertEqual(on_ranks([_late_calls, _late_futures, _complex_meets_real]), [0, 0])

    def test_the_end_of_another_rank(self):
        for how in ENDS:
            with self.subTest(how):
                self.assertEqual(on_processes(_one_ends, 2, meeting_place(), how)[0], 0)


if __name__ == "__main__":
    unittest.main()
