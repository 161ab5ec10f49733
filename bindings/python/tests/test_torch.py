"""Promises of torch.distributed over dfccl: the results of each operation are those of Gloo; names,
futures, jobs, and the end of groups work. Skipped without torch."""

from __future__ import annotations

import datetime
import functools
import os
import pathlib
import random
import threading
import unittest
import unittest.mock

try:
    import torch
    import torch.distributed as dist
    from torch._subclasses import FakeTensorMode
    from torch.distributed import ReduceOp
    from torch.nn.parallel import DistributedDataParallel
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl
import dfccl.torch
from support import INNER_SECONDS, Case, meeting_place, on_processes


def join(rank: int, size: int, place: str, **options) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "dfccl", rank=rank, world_size=size, init_method=f"file://{place}", **options
    )


def same(call, make, gloo) -> None:
    """Checks that call(group, tensors) has the same results, bit for bit, over dfccl and over
    Gloo."""
    ours, theirs = make(), make()
    call(None, ours)
    call(gloo, theirs)
    for mine, other in zip(ours, theirs):
        assert torch.equal(mine, other), (mine, other)


def _operations(rank: int, size: int, place: str) -> None:
    join(rank, size, place)
    gloo = dist.new_group(backend="gloo")
    types = [
        torch.uint8,
        torch.int8,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.bfloat16,
    ]
    seeds = iter(range(10**6))

    def values(dtype, *shape):
        chance = torch.Generator().manual_seed(1000 * next(seeds) + rank)
        return torch.randint(0, 5, shape, generator=chance).to(dtype)

    def made(*tensors):
        return lambda: [tensor.clone() for tensor in tensors]

    for dtype in types:
        for op in (ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX):
            same(
                lambda group, t: dist.all_reduce(t[0], op, group=group),
                made(values(dtype, 3, 5)),
                gloo,
            )
        same(
            lambda group, t: dist.broadcast(t[0], size - 1, group=group),
            made(values(dtype, 7)),
            gloo,
        )
        same(
            lambda group, t: dist.all_gather(t[1:], t[0], group=group),
            made(*[values(dtype, 4)] * (size + 1)),
            gloo,
        )
        same(
            lambda group, t: dist.all_gather_into_tensor(t[1], t[0], group=group),
            made(values(dtype, 4), values(dtype, 4 * size)),
            gloo,
        )
        same(
            lambda group, t: dist.gather(t[0], t[1:] if rank == 1 else None, 1, group=group),
            made(*[values(dtype, 4)] * (size + 1)),
            gloo,
        )
        same(
            lambda group, t: dist.scatter(t[0], t[1:] if rank == 1 else None, 1, group=group),
            made(*[values(dtype, 2, 2)] * (size + 1)),
            gloo,
        )
        same(
            lambda group, t: dist.all_to_all_single(t[0], t[1], group=group),
            made(values(dtype, 2 * size), values(dtype, 2 * size)),
            gloo,
        )
        same(
            lambda group, t: dist.reduce(t[0], 1, group=group) or (rank != 1 and t[0].zero_()),
            made(values(dtype, 6)),
            gloo,
        )
    for dtype in (torch.int32, torch.float32):
        same(
            lambda group, t: dist.reduce_scatter_tensor(t[0], t[1], group=group),
            made(values(dtype, 3), values(dtype, 3 * size)),
            gloo,
        )
        same(
            lambda group, t: dist.reduce_scatter(t[0], t[1:], group=group),
            made(values(dtype, 3), *[values(dtype, 3)] * size),
            gloo,
        )
    for op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        same(
            lambda group, t: dist.all_reduce(t[0], op, group=group),
            made(values(torch.int64, 9)),
            gloo,
        )
    # Types that are moved, with tensors that are not contiguous
    for dtype in (torch.bool, torch.complex64, torch.float32):
        same(lambda group, t: dist.broadcast(t[0], 0, group=group), made(values(dtype, 4, 4)), gloo)
    for op in (
        ReduceOp.BAND,
        ReduceOp.BOR,
        ReduceOp.BXOR,
    ):  # Gloo lacks these, so the results are compared with torch
        for dtype in (torch.uint8, torch.int16, torch.bool):
            mine = [torch.tensor([rank + at, 3 * rank, at, 7]).to(dtype) for at in range(size)]
            bits = {
                ReduceOp.BAND: torch.bitwise_and,
                ReduceOp.BOR: torch.bitwise_or,
                ReduceOp.BXOR: torch.bitwise_xor,
            }
            for at, whole in enumerate(mine):
                others = [
                    torch.tensor([other + at, 3 * other, at, 7]).to(dtype) for other in range(size)
                ]
                wanted, reduced = functools.reduce(bits[op], others), whole.clone()
                dist.reduce(reduced, at, op)
                assert rank != at or torch.equal(reduced, wanted), (op, dtype, reduced, wanted)
                if rank == at:
                    scattered_wanted = wanted
            scattered = torch.empty_like(mine[0])
            dist.reduce_scatter(scattered, mine, op)
            assert torch.equal(scattered, scattered_wanted), (
                op,
                dtype,
                scattered,
                scattered_wanted,
            )
    for dtype, wanted in (
        (torch.float32, size * (size + 1) / 4),
        (torch.int32, sum((at + 1) // 2 for at in range(size))),
    ):
        number = torch.full((3,), rank + 1).to(dtype)
        dist.all_reduce(number, torch.distributed._make_nccl_premul_sum(0.5))
        assert number.tolist() == [wanted] * 3, number
    for at in range(size):
        pieces = [torch.empty(3, 2, dtype=torch.int16) for _ in range(size)] if rank == at else None
        dist.gather(torch.full((2, 3), rank, dtype=torch.int16).t(), pieces, at)
        assert rank != at or all((piece == each).all() for each, piece in enumerate(pieces or ()))
        pieces = [torch.full((3, 2), each) for each in range(size)] if rank == at else None
        piece = torch.zeros(2, 3, dtype=torch.int64).t()
        dist.scatter(piece, pieces, at)
        assert (piece == rank).all(), piece
        dist.barrier()
    sizes = [2 * at for at in range(size)]  # rank 0 sends nothing
    pieces = [torch.empty(each) for each in sizes]
    dist.all_gather(pieces, torch.full((sizes[rank],), float(rank)))
    assert all((piece == each).all() for each, piece in enumerate(pieces)), pieces
    piece = torch.empty(sizes[rank], dtype=torch.int16)
    dist.reduce_scatter(piece, [torch.full((each,), rank + 1, dtype=torch.int16) for each in sizes])
    assert piece.tolist() == [size * (size + 1) // 2] * sizes[rank], piece
    average = torch.full((4,), 100 * (2 * rank + 1), dtype=torch.int16)
    dist.all_reduce(average, ReduceOp.AVG)
    assert average.tolist() == [100 * size] * 4, average
    if rank == 0:  # a local call: no other rank runs anything
        try:
            dist.group.WORLD.gather([[]], [torch.zeros(2)], dist.GatherOptions())
            raise AssertionError("a gather without outputs at its root was accepted")
        except dfccl.InvalidArgument:
            pass
    small = torch.full((5,), 20000, dtype=torch.int16)
    dist.all_reduce(small)
    assert small.tolist() == [(20000 * size + 32768) % 65536 - 32768] * 5
    flags = torch.tensor([rank == 0, True, False])
    dist.all_reduce(flags)
    assert flags.tolist() == [True, True, False]
    mean = torch.full((3,), float(rank))
    dist.all_reduce(mean, ReduceOp.AVG)
    assert mean.tolist() == [(size - 1) / 2] * 3
    base = torch.zeros(4, 4)
    base[:, 1] = rank + 1
    dist.all_reduce(base[:, 1])
    dist.broadcast(base[::2, 2] if rank else torch.tensor([3.0, 4]), 0)
    assert base[:, 1].tolist() == [size * (size + 1) / 2] * 4 and (
        rank == 0 or base[:, 2].tolist() == [3, 0, 4, 0]
    )
    number = torch.full((2,), 1 + 1j) * (rank + 1)
    dist.all_reduce(number)
    assert number[0] == (1 + 1j) * size * (size + 1) / 2

    # unequal parts
    sends = [2 * (rank + peer) for peer in range(size)]
    output = torch.empty(sum(sends))
    dist.all_to_all_single(output, torch.arange(float(sum(sends))) + 100 * rank, sends, sends)
    at = 0
    for peer, count in enumerate(sends):
        first = sum(2 * (peer + other) for other in range(rank)) + 100 * peer
        assert torch.equal(output[at : at + count], torch.arange(float(first), first + count))
        at += count
    pieces = [torch.empty(peer + 1) for peer in range(size)]
    dist.all_gather(pieces, torch.full((rank + 1,), float(rank)))
    assert all(
        torch.equal(piece, torch.full((peer + 1,), float(peer)))
        for peer, piece in enumerate(pieces)
    )
    exchanged = [torch.empty(1) for _ in range(size)]
    dist.all_to_all(exchanged, [torch.full((1,), 10.0 * rank + peer) for peer in range(size)])
    assert [float(each) for each in exchanged] == [10.0 * peer + rank for peer in range(size)]
    part = torch.empty(rank + 1)
    dist.reduce_scatter(part, [torch.full((peer + 1,), float(rank)) for peer in range(size)])
    assert torch.equal(part, torch.full((rank + 1,), size * (size - 1) / 2))

    # objects, several at once, one rank to another
    everybody = [None] * size
    dist.all_gather_object(everybody, {"rank": rank, "text": "x" * rank})
    assert [each["rank"] for each in everybody] == list(range(size))
    box = ["from 0" if rank == 0 else None]
    dist.broadcast_object_list(box, 0)
    assert box == ["from 0"]
    with dist.distributed_c10d._coalescing_manager():
        both = [torch.ones(3), torch.ones(4)]
        for tensor in both:
            dist.all_reduce(tensor)
    assert all((tensor == size).all() for tensor in both)
    ring = torch.empty(5)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, torch.full((5,), float(rank)), (rank + 1) % size),
            dist.P2POp(dist.irecv, ring, (rank - 1) % size),
        ]
    )
    for work in works:
        work.wait()
    assert (ring == (rank - 1) % size).all()
    dist.barrier()
    empty = torch.empty(0)
    dist.all_reduce(empty)
    dist.destroy_process_group()


def _groups_and_disorder(rank: int, size: int, place: str) -> None:
    join(rank, size, place)
    groups = [dist.new_group([0, 1]), dist.new_group([size - 1, 0]), dist.new_group()]
    mine = [group for group in groups if group is not dist.GroupMember.NON_GROUP_MEMBER]
    for round in range(20):  # groups, sizes and kinds, in a different order on each rank
        chance = random.Random(100 * round + rank)
        calls = [(group, count) for group in mine for count in (3, 1000, 20000)]
        chance.shuffle(calls)
        works = []
        for group, count in calls:
            tensor = torch.full((count,), float(dist.get_rank()))
            works.append((dist.all_reduce(tensor, group=group, async_op=True), tensor, group))
        for work, tensor, group in works:
            work.wait()
            assert (tensor == sum(dist.get_process_group_ranks(group))).all()

    # threads
    def body(at):
        for _ in range(20):
            tensor = torch.full((100 + at,), 1.0)
            dist.all_reduce(tensor)
            assert (tensor == size).all()

    threads = [threading.Thread(target=body, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # names: equal signatures in opposite orders
    tensors = {text: torch.full((10,), value) for text, value in (("a", 1.0), ("b", 10.0))}
    works = [
        dfccl.torch.all_reduce(tensors[text], async_op=True, name=text)
        for text in ("ab" if rank == 0 else "ba")
    ]
    for work in works:
        work.wait()  # type: ignore[attr-defined]
    assert tensors["a"][0] == size and tensors["b"][0] == 10 * size
    with dfccl.torch.name("c"):
        work = dist.all_reduce(tensors["a"], async_op=True)
    assert work.get_future().wait()[0] is not None and tensors["a"][0] == size * size
    assert work.is_completed() and work.is_success() and work.exception() is None
    assert work.result()[0].data_ptr() == tensors["a"].data_ptr()
    # a group is destroyed and made again
    if rank < 2:
        dist.destroy_process_group(groups[0])
    again = dist.new_group([0, 1])
    if rank < 2:
        one = torch.ones(3)
        dist.all_reduce(one, group=again)
        assert one[0] == 2
    with torch.profiler.profile() as profile:
        dist.all_reduce(torch.ones(3))
    assert any(event.name == "dfccl:all_reduce" for event in profile.events())
    dist.destroy_process_group()
    join(rank, size, place + "1")
    one = torch.ones(3)
    dist.all_reduce(one)
    assert one[0] == size
    # this group is left open: the end of the process closes it


def _ends(rank: int, size: int, place: str) -> None:
    join(rank, size, place)
    store = dist.distributed_c10d._get_default_store()
    missing = dist.new_group(timeout=datetime.timedelta(seconds=0.5))
    if rank == 0:
        for wait in (lambda work: work.wait(), lambda work: work.get_future().wait()):
            try:
                wait(dist.all_reduce(torch.ones(77), group=missing, async_op=True))
            except RuntimeError as error:
                assert (
                    "all_reduce" in str(error)
                    and "float32[77]" in str(error)
                    and "rank 1" in str(error)
                ), error
            else:
                raise AssertionError("nobody else came")
        try:
            dist.barrier(group=dist.group.WORLD, timeout=datetime.timedelta(seconds=0.2))
        except RuntimeError as error:
            assert "barrier" in str(error) and "0.2 s" in str(error), error
        else:
            raise AssertionError("nobody else came")
        store.set("given up", "1")
    else:
        store.wait(["given up"])
        dist.barrier()  # matches the call whose wait was given up
    dist.barrier()  # other groups continue
    dist.monitored_barrier()
    if rank == 0:
        try:
            dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.2))
        except RuntimeError as error:
            assert "Rank 1 failed to pass monitoredBarrier" in str(error), error
        else:
            raise AssertionError("rank 1 did not come")
    abandoned = dist.new_group()
    if rank == 0:
        work = dist.all_reduce(torch.ones(5), group=abandoned, async_op=True)
        abandoned.abort()
        try:
            work.wait()
        except dfccl.Aborted:
            pass
        else:
            raise AssertionError("it was aborted")
    dist.barrier()
    of_the_model = dist.new_group()
    alone = DistributedDataParallel(torch.nn.Linear(2, 2), process_group=of_the_model)
    if rank == 0:
        of_the_model.set_timeout(datetime.timedelta(seconds=0.5))
        try:
            alone(torch.ones(1, 2)).sum().backward()  # C++ waits for the future
        except RuntimeError as error:
            assert "float32[6]" in str(error) and "rank 1" in str(error), error
        else:
            raise AssertionError("rank 1 did not come")
    dist.barrier()
    with FakeTensorMode():
        of_a_gpu = torch.empty(2, device="cuda")  # a tensor whose device is read
    for call, sentence in [
        (
            lambda: dist.group.WORLD.allreduce([of_a_gpu]),
            "a tensor on cuda:0: this process group takes",
        ),
        (lambda: dist.recv(torch.ones(1).to_sparse()), "dense tensors"),
        (lambda: dist.all_reduce(torch.ones(2).to_sparse()), "dense tensors"),
        (lambda: dist.all_reduce(torch.ones(2), ReduceOp.BAND), "non-integral"),
        (lambda: dist.all_reduce(torch.ones(2, device="meta")), "tensors of the CPU"),
        (lambda: dist.all_gather_into_tensor(torch.ones(3), torch.ones(2)), "2 elements in, 3 out"),
    ]:
        try:
            call()
        except RuntimeError as error:
            assert sentence in str(error), error
        else:
            raise AssertionError(sentence)
    dist.destroy_process_group()


def _train(rank: int, backend: str, place: str, hook: bool) -> list[float]:
    dist.init_process_group(backend, rank=rank, world_size=2, init_method=f"file://{place}")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(
        torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)]), bucket_cap_mb=0.02
    )
    if hook:
        model.register_comm_hook(None, dfccl.torch.ddp_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    chance = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 64, generator=chance)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    losses += [parameter.double().sum().item() for parameter in model.parameters()]
    dist.destroy_process_group()
    return losses


def _ddp(rank: int, size: int, place: str) -> None:
    wanted = _train(rank, "gloo", place, False)
    assert _train(rank, "dfccl", place + "1", False) == wanted
    assert _train(rank, "dfccl", place + "2", True) == wanted


def _showcase(name: str, timeout: int, **environment: str) -> str:
    import importlib.util

    path = pathlib.Path(__file__).resolve().parent.parent / "showcase" / "run.py"
    spec = importlib.util.spec_from_file_location("showcase_run", path)
    assert spec is not None
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    with unittest.mock.patch.dict(os.environ, TIMEOUT=str(timeout), **environment):
        return run.outcome(path.with_name(name + ".py"), "dfccl", INNER_SECONDS)[0]


class Torch(Case):
    def _on(self, function, size: int) -> None:
        self.assertEqual(on_processes(function, size, meeting_place()), [0] * size)

    def test_operations_of_two(self):
        self._on(_operations, 2)

    def test_operations_of_three(self):
        self._on(_operations, 3)

    def test_groups_orders_names_and_init_again(self):
        self._on(_groups_and_disorder, 3)

    def test_timeouts_abort_and_refusals(self):
        self._on(_ends, 2)

    def test_showcase(self):
        for name in ("two_models", "background_thread", "equal_signatures_named"):
            self.assertEqual(_showcase(name, 60), "right", name)
        self.assertEqual(_showcase("circle", 5), "ends at the timeout")
        self.assertEqual(_showcase("equal_signatures", 60, DFCCL_TORCH_CHECK="1"), "fails")

    def test_ddp_has_gloos_losses(self):
        self._on(_ddp, 2)


if __name__ == "__main__":
    unittest.main()
