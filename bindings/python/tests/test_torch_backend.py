"""Promises of the backend of one device in a group with another library's, and of groups that are
split from others. Skipped without torch."""

from __future__ import annotations

import datetime
import unittest

try:
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional
    from torch.nn.parallel import DistributedDataParallel
    from torch.testing._internal.distributed.fake_pg import _create_fake_pg
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl
import dfccl.torch
from support import Case, meeting_place, on_processes

# This backend moves nothing. Like NCCL's, it has a type of its own, since torch treats two backends
# of one type as one.
dist.Backend.register_backend(
    "other",
    _create_fake_pg,
    True,
    ["cuda", "meta"],
    _backend_type=dist.ProcessGroup.BackendType.UCC,
)


def join(backend: str, rank: int, size: int, place: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(backend, rank=rank, world_size=size, init_method=f"file://{place}")


def _operations(rank: int, size: int, group=None) -> None:
    """Calls each virtual function of c10d by its name."""
    member = dist.get_group_rank(group, rank) if group is not None else rank
    root = dist.get_global_rank(group, 0) if group is not None else 0
    mine, total = torch.full((2, 3), float(member)), size * (size - 1) / 2
    reduced = mine.clone()
    work = dist.all_reduce(reduced, group=group, async_op=True)
    assert work.get_future().wait()[0].sum() == 6 * total
    work.wait()
    dist.all_reduce_coalesced([reduced, mine.clone()], group=group)
    assert (reduced == size * total).all()
    at_root = mine.clone()
    dist.reduce(at_root, root, group=group)
    assert member or (at_root == total).all()
    sent = mine + 5
    dist.broadcast(sent, root, group=group)
    assert (sent == 5).all()
    pieces = [torch.empty(2, 3) for _ in range(size)]
    dist.all_gather(pieces, mine, group=group)
    assert [int(piece[0, 0]) for piece in pieces] == list(range(size))
    whole = torch.empty(2 * size, 3)
    dist.all_gather_into_tensor(whole, mine, group=group)
    assert torch.equal(whole, torch.cat(pieces))
    if isinstance(
        group or dist.group.WORLD, dfccl.torch.ProcessGroup
    ):  # C++ does not call a backend in Python for it
        gathered = torch.empty(2 * size, 3) if member == 0 else None
        dist.gather_single(mine, gathered, root, group=group)
        assert member or torch.equal(gathered, whole)
    dist.gather(mine, pieces if member == 0 else None, root, group=group)
    dist.scatter(mine, pieces if member == 0 else None, root, group=group)
    assert (mine == member).all()
    part = torch.empty(2, 3)
    dist.reduce_scatter(
        part, [torch.full((2, 3), float(each)) for each in range(size)], group=group
    )
    assert (part == size * member).all()
    dist.reduce_scatter_tensor(part, whole, group=group)
    assert (part == size * member).all()
    back = torch.empty(2 * size, 3)
    dist.all_to_all_single(back, whole, group=group)
    assert (back == member).all()
    dist.all_to_all(pieces, list(whole.chunk(size)), group=group)
    assert all((piece == member).all() for piece in pieces)
    with dist.distributed_c10d._coalescing_manager(group=group):
        both = [torch.ones(3), torch.ones(4)]
        for tensor in both:
            dist.all_reduce(tensor, group=group)
    assert all((tensor == size).all() for tensor in both)
    if size > 1:
        ring = torch.empty(5)
        next_one, last = (
            dist.get_global_rank(group or dist.group.WORLD, (member + by) % size) for by in (1, -1)
        )
        for work in dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, torch.full((5,), float(member)), next_one, group=group),
                dist.P2POp(dist.irecv, ring, last, group=group),
            ]
        ):
            work.wait()
        assert (ring == (member - 1) % size).all()
    everybody = [None] * size
    dist.all_gather_object(everybody, "x" * member, group=group)
    assert everybody == ["x" * each for each in range(size)]
    dist.barrier(group=group)
    dist.monitored_barrier(group=group, timeout=datetime.timedelta(seconds=60))
    result = functional.all_reduce(torch.ones(2), "sum", group or dist.group.WORLD)
    assert (result == size).all()


def _alone(rank: int, size: int, place: str) -> None:
    join("cpu:dfccl", rank, size, place)
    assert isinstance(dist.group.WORLD, dfccl.torch.ProcessGroup)
    _operations(rank, size)
    _split(rank, size)
    dist.destroy_process_group()


def _pair(rank: int, size: int, place: str, other: str) -> None:
    for backend in (f"cpu:dfccl,{other}:other", f"{other}:other,cpu:dfccl"):
        join(backend, rank, size, place)
        assert not isinstance(dist.group.WORLD, dfccl.torch.ProcessGroup)
        assert isinstance(dist.group.WORLD._get_backend(torch.device("cpu")), dfccl.torch.Backend)
        _operations(rank, size)
        elsewhere = torch.ones(3, device="meta")
        if other == "meta":
            dist.all_reduce(elsewhere)  # the call of the other backend, which does nothing
        model = DistributedDataParallel(torch.nn.Linear(4, 4))
        model(torch.full((2, 4), float(rank))).sum().backward()
        assert (model.module.weight.grad == (size - 1)).all()
        pair = dist.new_group([0, 1])
        late = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=0.3))
        if rank < 2:
            _operations(rank, 2, pair)
            if rank == 0:
                try:
                    dist.all_reduce(torch.ones(3), group=late)
                except RuntimeError as error:
                    assert "float32[3]" in str(error) and "rank 1" in str(error), error
                else:
                    raise AssertionError("nobody else came")
        dist.barrier()
        _split_all(rank, size)
        try:
            dist.split_group(split_ranks=[[0]])
        except RuntimeError as error:
            assert rank != 0 and f"split_group leaves rank {rank} out" in str(error), error
        else:
            assert rank == 0
        dist.barrier()
        dist.destroy_process_group()
        place += "1"


def _split_all(rank: int, size: int) -> None:
    halves = [[each for each in range(size) if each % 2 == half] for half in (0, 1)]
    mine = dist.split_group(split_ranks=halves)
    assert dist.get_process_group_ranks(mine) == halves[rank % 2]
    _operations(rank, len(halves[rank % 2]), mine)
    twice = dist.split_group(
        split_ranks=halves, timeout=datetime.timedelta(seconds=30), group_desc="twice"
    )
    assert twice.group_desc == "twice" and twice.group_name != mine.group_name
    _operations(rank, len(halves[rank % 2]), twice)


def _split(rank: int, size: int) -> None:
    _split_all(rank, size)
    some = dist.split_group(split_ranks=[[0, 1]])
    if rank < 2:
        _operations(rank, 2, some)
        dist.destroy_process_group(some)
    else:
        assert some is dist.GroupMember.NON_GROUP_MEMBER
    dist.barrier()


class Backends(Case):
    def test_alone_with_its_device(self):
        self.assertEqual(on_processes(_alone, 3, meeting_place()), [0] * 3)

    def test_beside_another_backend(self):
        self.assertEqual(on_processes(_pair, 3, meeting_place(), "meta"), [0] * 3)

    def test_beside_the_backend_of_gpus(self):
        self.assertEqual(on_processes(_pair, 2, meeting_place(), "cuda"), [0] * 2)


if __name__ == "__main__":
    unittest.main()
