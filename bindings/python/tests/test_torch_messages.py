"""Promises of messages over dfccl: in any order, and received from any rank. Skipped without
torch."""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
import unittest

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl
import dfccl.torch
from dfccl.torch import types
from support import Case, meeting_place, on_processes

LARGE = 1 << 18  # more elements than the slots of a link hold, so a send waits for its receive


def join(rank: int, size: int, place: str, **options) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "dfccl", rank=rank, world_size=size, init_method=f"file://{place}", **options
    )


def of(rank: int, message: int = 0, count: int = 5) -> torch.Tensor:
    return torch.full((count,), 100.0 * rank + message)


def from_any(tag: int = 0, count: int = 5, group=None) -> tuple[int, float]:
    """The source and the value of a message, of which all elements are equal."""
    tensor = torch.empty(count)
    source = dist.recv(tensor, tag=tag, group=group)
    assert (tensor == tensor[0]).all(), tensor
    return source, float(tensor[0])


def _messages(rank: int, size: int, place: str) -> None:
    join(rank, size, place)
    others = [other for other in range(size) if other != rank]
    # sizes in opposite orders with blocking receives; one send waits for its receive
    sends = [dist.isend(of(rank, 0, count), other) for other in others for count in (3, LARGE, 7)]
    for other in others:
        for count in (7, LARGE, 3):
            tensor = torch.empty(count)
            dist.recv(tensor, other)
            assert torch.equal(tensor, of(other, 0, count))
    for send in sends:
        send.wait()
    kinds = {key[-1] for key in dist.group.WORLD._collectives if key[-2] is not None}
    assert kinds == {"send_recv"}, kinds  # a group of two uses no broadcast
    columns = torch.zeros(
        4, 4, dtype=torch.complex64
    )  # a tensor that is not contiguous, of a type that is moved as another one
    if rank == 0:
        dist.send(torch.full((4,), 1 + 2j), 1)
    if rank == 1:
        dist.recv(columns[:, 2], 0)
        assert (columns[:, 2] == 1 + 2j).all() and columns.sum() == 4 + 8j
    dist.barrier()
    assert (
        dist.group.WORLD._anywhere is None and not dist.group.WORLD._askers.ranks
    )  # no rank has asked, so no rank counts
    dist.destroy_process_group()


def _any(rank: int, size: int, place: str) -> None:
    join(rank, size, place)
    others = [other for other in range(size) if other != rank]
    # The first receive from any rank comes after some messages and before others.
    if rank == 0:
        time.sleep(0.2)
        found = [from_any() for _ in range(4 * (size - 1))]
        assert sorted(found) == [
            (other, 100.0 * other + message) for other in others for message in range(4)
        ], found
        for other in others:  # messages of one rank arrive in their order
            assert [value for source, value in found if source == other] == [
                100.0 * other + message for message in range(4)
            ]
    else:
        for message in range(4):
            dist.send(of(rank, message), 0)
            time.sleep(0.3 * (message == 1))
    # Receives from a named rank take their messages, and receives from any rank take the others, in
    # any order of the calls.
    dist.barrier()
    if rank in (1, 2):
        for message in range(2 * (3 - rank)):
            dist.send(of(rank, message), 0)
    elif rank == 0:
        boxes = [torch.empty(5) for _ in range(2)]
        works = [dist.irecv(box) for box in boxes]
        named = [torch.empty(5) for _ in range(2)]
        for tensor in named:
            dist.recv(tensor, 1)
        for work in works:
            work.wait()
        found = [(work._source_rank(), float(box[0])) for work, box in zip(works, boxes)]
        found += [(1, float(tensor[0])) for tensor in named] + [from_any(), from_any()]
        assert sorted(found) == [(1, 100), (1, 101), (1, 102), (1, 103), (2, 200), (2, 201)], found
    # Tags and sizes distinguish messages, and a message to another rank is not received here.
    if rank == size - 1:
        sends = [
            dist.isend(of(rank, 7), 0, tag=7),
            dist.isend(of(rank, 8, 9), 0, tag=8),
            dist.isend(of(rank, 9), 1, tag=7),
        ]
        for send in sends:
            send.wait()
    elif rank == 0:
        assert from_any(tag=8, count=9) == (size - 1, 100.0 * (size - 1) + 8)
        assert from_any(tag=7) == (size - 1, 100.0 * (size - 1) + 7)
    elif rank == 1:
        assert from_any(tag=7) == (size - 1, 100.0 * (size - 1) + 9)
    # All ranks receive from any rank while their own sends wait for their receivers.
    dist.barrier()
    boxes = [torch.empty(LARGE) for _ in others]
    works = [dist.irecv(box) for box in boxes]
    for other in others:
        dist.send(of(rank, 1, LARGE), other)
    for work in works:
        work.wait()
    assert sorted(float(box[0]) for box in boxes) == [100.0 * other + 1 for other in others]
    dist.barrier()
    # A future, a name, and a group whose ranks have another order.
    if rank == 0:
        with dfccl.torch.name("a"):
            work = dist.group.WORLD.recv_anysource([torch.empty(5)], 0)
        (value,) = work.get_future().wait()
        assert torch.equal(value, of(1, 2)) and work.is_completed() and work._source_rank() == 1, (
            value
        )
        assert from_any() == (1, 101.0)
    elif rank == 1:
        without = dist.isend(of(1, 1), 0)
        with dfccl.torch.name("a"):
            dist.send(of(1, 2), 0)
        without.wait()
    dist.barrier()
    pair = dist.new_group([size - 1, 0])
    if rank == 0:
        assert from_any(group=pair) == (size - 1, 100.0 * (size - 1) + 3)
    elif rank == size - 1:
        dist.send(of(rank, 3), 0, group=pair)
    dist.destroy_process_group()


def _nobody(rank: int, size: int, place: str) -> None:
    join(rank, size, place, timeout=datetime.timedelta(seconds=60))
    late = dist.new_group(timeout=datetime.timedelta(seconds=1))
    if rank == 0:
        for wait in (
            lambda: dist.recv(torch.empty(3), group=late),
            lambda: late.recv_anysource([torch.empty(3)], 0).get_future().wait(),
        ):
            try:
                wait()
            except RuntimeError as error:
                assert (
                    "from any rank to rank 0" in str(error)
                    and "float32[3]" in str(error)
                    and "rank 1" in str(error)
                ), error
            else:
                raise AssertionError("nobody has sent anything")
        try:
            dist.recv(torch.empty(0))
        except dfccl.InvalidArgument as error:
            assert "no elements" in str(error)
        else:
            raise AssertionError("a message of no elements is not sent")
    dist.barrier()
    if rank == 1:  # a receive that has timed out continues
        dist.send(of(1, 4, 3), 0, group=late)
        dist.send(of(1, 5, 3), 0, group=late)
    dist.barrier()
    given_up = dist.group.WORLD.recv_anysource([torch.empty(4)], 0)
    future = given_up.get_future()
    dist.barrier()
    dist.destroy_process_group()
    for wait in (given_up.wait, future.wait):
        try:
            wait()
        except RuntimeError as error:
            assert "given up" in str(error), error
        else:
            raise AssertionError("its group is gone")


def _while_registering(rank: int, size: int, place: str) -> None:
    """A receive from a named rank that is still being registered holds up no receive from any
    rank."""
    join(rank, size, place)
    group = dist.group.WORLD
    if rank == 0:
        assert from_any() == (1, 100.0)
        work = dist.irecv(torch.empty(5))
        named = threading.Thread(target=lambda: dist.recv(torch.empty(6), 1))
        with group._register_lock:
            named.start()
            time.sleep(0.2)
            dist.barrier()
            end = time.monotonic() + 20
            while not work._found.is_set() and time.monotonic() < end:
                time.sleep(0.01)
            assert work._found.is_set(), "it waits for the registration of the other receive"
        work.wait()
        named.join()
    else:
        dist.send(of(1), 0)
        dist.barrier()
        dist.send(of(1), 0)
        dist.send(of(1, 0, 6), 0)
    dist.destroy_process_group()


def _failure(rank: int, size: int, place: str) -> None:
    """A hook that is called because a receive from any rank has failed may wait for other threads
    that receive."""
    join(rank, size, place)
    group, ended = dist.group.WORLD, []

    def receive() -> None:
        with contextlib.suppress(dfccl.Error):
            dist.irecv(torch.empty(5))

    def hook() -> None:
        group.unregister_abort_hook(1)  # the other thread's failure calls hooks, too
        thread = threading.Thread(target=receive, daemon=True)
        thread.start()
        thread.join(10)
        ended.append(not thread.is_alive())

    if rank == 0:
        assert from_any() == (1, 100.0)
        dist.barrier()
        group.register_abort_hook(1, hook)
        group._context.abort()
        with contextlib.suppress(dfccl.Error):
            dist.recv(torch.empty(5))
        assert ended == [True], ended
    else:
        dist.send(of(1), 0)
        sent = dist.isend(of(1), 0)  # its number is in the store, so the receive is submitted
        with contextlib.suppress(dfccl.Error):
            dist.barrier()
            sent.wait()
    with contextlib.suppress(dfccl.Error):
        dist.destroy_process_group()


class Types(unittest.TestCase):
    def test_moves_name_the_type_of_the_tensor(self):
        for dtype, type in types.types.items():
            self.assertEqual(types.element(torch.zeros(1, dtype=dtype)), (dtype, type, 1))
        for dtype, real in (
            (torch.complex64, torch.float32),
            (torch.complex128, torch.float64),
            (torch.complex32, torch.float16),
        ):
            self.assertEqual(
                types.element(torch.zeros(1, dtype=dtype)), (real, types.types[real], 2)
            )
        element = types.element(torch.zeros(1, dtype=torch.bool))
        self.assertEqual((element[0], element[1].name, element[2]), (torch.bool, "uint8", 1))


class Messages(Case):
    def _on(self, function, size: int) -> None:
        self.assertEqual(on_processes(function, size, meeting_place()), [0] * size)

    def test_in_any_order(self):
        self._on(_messages, 2)
        self._on(_messages, 3)

    def test_from_any_rank(self):
        self._on(_any, 3)

    def test_beside_a_registration(self):
        self._on(_while_registering, 2)

    def test_hooks_of_a_failure(self):
        self._on(_failure, 2)

    def test_from_nobody(self):
        self._on(_nobody, 2)


if __name__ == "__main__":
    unittest.main()
