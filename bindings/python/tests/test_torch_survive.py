"""Promises of torch jobs with DFCCL_TORCH_SURVIVE: they go on when ranks are killed, as smaller
groups with dense numbers, also when torch's store has ended with rank 0."""

from __future__ import annotations

import contextlib
import datetime
import os
import pathlib
import re
import runpy
import signal
import time
import unittest
from functools import partial

import dfccl
import dfccl.torch
import torch
import torch.distributed as dist
from dfccl.torch import survivors
from support import Case, meeting_place, on_processes
from torch_cases import refused

RANKS = 4
example = pathlib.Path(__file__).resolve().parents[1] / "examples" / "torch" / "survive_ddp.py"


def _example(rank: int, size: int, place: str, folder: str, killed: int) -> None:
    """The processes of the example, without its launcher."""
    with open(f"{folder}/{rank}", "w", buffering=1) as told, contextlib.redirect_stdout(told):
        runpy.run_path(str(example))["train"](rank, place, killed)


def _begin(rank: int, size: int, place: str, survive: int, **options) -> None:
    torch.set_num_threads(1)
    os.environ["DFCCL_TORCH_SURVIVE"] = str(survive)
    dist.init_process_group(
        "dfccl",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=30),
        **(options or {"init_method": f"file://{place}"}),
    )


def _until_smaller(size: int) -> None:
    while dist.get_world_size() != size:
        time.sleep(0.001)


def _check_operations(rank: int) -> None:
    """Rank 1 of 4 is lost: each operation uses the dense numbers 0, 1, 2 of ranks 0, 2, 3."""
    own, size = dist.get_rank(), dist.get_world_size()
    assert (own, size) == ({0: 0, 2: 1, 3: 2}[rank], 3)
    assert dist.get_process_group_ranks(dist.group.WORLD) == [0, 1, 2]
    mine = torch.full((2,), float(own))
    every = [torch.full((2,), float(at)) for at in range(3)]

    dist.all_reduce(mean := mine.clone(), dist.ReduceOp.AVG)
    assert mean.tolist() == [1, 1], mean
    dist.broadcast(sent := mine.clone(), 1)
    assert sent.tolist() == [1, 1], sent
    dist.reduce(total := mine.clone(), 1)
    assert own != 1 or total.tolist() == [3, 3], total
    dist.all_gather(pieces := [torch.empty(2) for _ in range(3)], mine)
    assert all(map(torch.equal, pieces, every)), pieces
    dist.all_gather_into_tensor(flat := torch.empty(6), mine)
    assert torch.equal(flat, torch.cat(every)), flat
    uneven = [torch.empty(1 + at) for at in range(3)]
    dist.all_gather(uneven, torch.full((1 + own,), float(own)))
    assert [each.tolist() for each in uneven] == [[0], [1, 1], [2, 2, 2]], uneven
    dist.gather(mine, pieces if own == 1 else None, 1)
    assert all(map(torch.equal, pieces, every)), pieces
    dist.scatter(piece := torch.empty(2), [10 + each for each in every] if own == 1 else None, 1)
    assert piece.tolist() == [10 + own] * 2, piece
    dist.reduce_scatter(piece, [each * (own + 1) for each in every])
    assert piece.tolist() == [6.0 * own] * 2, piece
    dist.reduce_scatter_tensor(piece, torch.cat(every))
    assert piece.tolist() == [3.0 * own] * 2, piece
    sends = [torch.tensor([10 * own + at]) for at in range(3)]
    got = [torch.empty(1, dtype=torch.int64) for _ in range(3)]
    dist.all_to_all(got, sends)
    assert [each.item() for each in got] == [own, 10 + own, 20 + own], got
    dist.all_to_all_single(row := torch.empty(3, dtype=torch.int64), torch.cat(sends))
    assert row.tolist() == [own, 10 + own, 20 + own], row
    dist.all_to_all_single(
        wide := torch.empty(3 * (own + 1)), torch.full((6,), float(own)), [own + 1] * 3, [1, 2, 3]
    )
    assert wide.tolist() == [float(at) for at in range(3) for _ in range(own + 1)], wide
    with dist._coalescing_manager(device=torch.device("cpu")):
        dist.all_gather_into_tensor(flat, mine)
        dist.all_gather_into_tensor(more := torch.empty(3), torch.tensor([float(own)]))
    assert torch.equal(flat, torch.cat(every)) and more.tolist() == [0, 1, 2]

    ahead = dist.isend(mine, (own + 1) % 3)
    dist.recv(box := torch.empty(2), (own - 1) % 3)
    ahead.wait()
    assert box.tolist() == [(own - 1) % 3] * 2, box
    if own == 0:
        assert dist.recv(box) == 2 and box.tolist() == [2, 2], box
    elif own == 2:
        dist.send(mine, 0)
    dist.all_gather_object(objects := [None] * 3, {"rank": own})
    assert objects == [{"rank": at} for at in range(3)], objects
    dist.monitored_barrier()
    dist.barrier()


def _check_groups(rank: int, before) -> None:
    """Groups from before the loss, and new ones."""
    own = dist.get_rank()
    assert before.size() == (2 if rank != 2 else 1), before.size()
    if rank != 2:
        assert dist.get_rank(before) == {0: 0, 3: 1}[rank] == before.rank()
        dist.all_reduce(total := torch.ones(1), group=before)
        assert total.item() == 2
        dist.broadcast(total.fill_(own), 0, group=before)
        assert total.item() == 0
    new = dist.new_group([0, 2])
    if own != 1:
        dist.all_reduce(total := torch.tensor([1.0 + own]), group=new)
        assert total.item() == 4
    split = dist.split_group(split_ranks=[[1, 2]])
    if own > 0:
        dist.all_reduce(total := torch.tensor([float(own)]), group=split)
        assert total.item() == 3
    refused(lambda: dist.group.WORLD.broadcast(torch.ones(1), 3), "root 3 in a group of 3")
    refused(
        lambda: dist.group.WORLD.allgather([[torch.ones(1)] * 2], [torch.ones(1)]),
        "pieces for 2 members in a group of 3",
    )


def _operations(rank: int, size: int, place: str) -> None:
    views = []
    dfccl.torch.on_membership(views.append)
    _begin(rank, size, place, 1)
    three, alone = dist.new_group([0, 1, 3]), dist.new_group([2])
    before = alone if rank == 2 else three
    dist.all_gather_into_tensor(flat := torch.empty(8), torch.full((2,), float(rank)))
    assert flat.tolist() == [0, 0, 1, 1, 2, 2, 3, 3], flat
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(20):  # the loss is in one of these, or between two; none fails
        dist.all_reduce(torch.ones(1000))
    _until_smaller(3)
    assert [(each.view, each.lost) for each in views] == [(1, {1: "ended"})], views
    _check_operations(rank)
    _check_groups(rank, before)
    dist.barrier()
    dist.destroy_process_group()


def _without_store(rank: int, size: int, place: str) -> None:
    """Rank 0 is killed, and torch's store with it."""
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        pathlib.Path(place + ".new").write_text(str(store.port))
        os.rename(place + ".new", place)
    else:
        while not os.path.exists(place):
            time.sleep(0.001)
        store = dist.TCPStore("127.0.0.1", int(pathlib.Path(place).read_text()))
    _begin(rank, size, place, 2, store=store)
    steps = 20
    changes = []
    for step in range(steps):
        if rank == 0 and step == 10:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            dist.all_reduce(total := torch.ones(100))
        except dfccl.torch.MembershipChanged as change:
            # The group has its new size before the program receives the error
            assert (dist.get_rank(), dist.get_world_size()) == (rank - 1, 3)
            changes.append((step, change.view, change.lost))
            assert "rank 0 (ended) is lost since view 1" in str(change), change
            continue
        assert total[0] == (4 if step < 10 else 3), (step, total)
    assert changes == [(10, 1, {0: "ended"})], changes
    refused(lambda: dist.new_group(), "a new group needs torch's store", error=RuntimeError)
    box = torch.empty(1)
    refused(
        lambda: dist.recv(box), "a receive from any rank needs torch's store", error=RuntimeError
    )
    if dist.get_rank() == 0:  # nobody else calls this
        work = dist.all_reduce(torch.ones(3), async_op=True)
        refused(
            lambda: work.wait(datetime.timedelta(seconds=1)),
            "torch's store is out of reach",
            error=RuntimeError,
        )
    dist.broadcast(box, 0)
    dist.destroy_process_group()


class Survive(Case):
    def _statuses(self, function, killed: int, *arguments) -> None:
        statuses = on_processes(function, RANKS, meeting_place(), *arguments)
        wanted = [0] * RANKS
        wanted[killed] = -signal.SIGKILL
        self.assertEqual(statuses, wanted)

    def _run_example(self, survive: int) -> tuple[list[int], list[str]]:
        folder = os.path.dirname(meeting_place())
        before = os.environ.get("DFCCL_TORCH_SURVIVE")
        os.environ["DFCCL_TORCH_SURVIVE"] = str(survive)
        try:
            statuses = on_processes(_example, RANKS, meeting_place(), folder, 1)
        finally:
            os.environ.pop("DFCCL_TORCH_SURVIVE")
            if before is not None:
                os.environ["DFCCL_TORCH_SURVIVE"] = before
        return statuses, [pathlib.Path(folder, str(rank)).read_text() for rank in range(RANKS)]

    def test_training_goes_on(self):
        statuses, told = self._run_example(2)
        self.assertEqual(statuses, [0, -signal.SIGKILL, 0, 0], told)
        for rank, dense in ((0, 0), (2, 1), (3, 2)):
            dropped = f"process {rank}: step 20 is dropped in view 1: rank 1 ended\n"
            self.assertEqual(told[rank].count("dropped"), 1, told)
            self.assertIn(dropped, told[rank])
            self.assertIn(f"process {rank}: rank {dense} has the parameters of all\n", told[rank])
        losses = re.findall(r"step (\d+): loss ([\d.]+), (\d) ranks", told[0])
        self.assertEqual([each[2] for each in losses], ["4", "4", "3", "3", "3"], told)
        self.assertLess(float(losses[-1][1]), float(losses[0][1]))

    def test_training_goes_on_and_nothing_is_raised(self):
        statuses, told = self._run_example(1)
        self.assertEqual(statuses, [0, -signal.SIGKILL, 0, 0], told)
        self.assertNotIn("dropped", "".join(told))
        self.assertIn("step 20: ", told[0])
        self.assertIn("3 ranks", told[0])

    def test_training_ends_without_survive(self):
        statuses, told = self._run_example(0)
        self.assertEqual(statuses, [1, -signal.SIGKILL, 1, 1], told)

    def test_operations_of_smaller_groups(self):
        self._statuses(_operations, 1)

    def test_rank_0_and_its_store_are_lost(self):
        self._statuses(_without_store, 0)

    def test_errors_are_copied_with_their_members(self):
        import copy

        change = copy.copy(dfccl.torch.MembershipChanged("text", 3, {1: "ended"}))
        self.assertEqual((str(change), change.view, change.lost), ("text", 3, {1: "ended"}))
        self.assertIsInstance(change, dfccl.RemoteError)


class WrongUse(Case):
    def test_settings_that_are_refused(self):
        before = os.environ.get("DFCCL_TORCH_SURVIVE")
        self.addCleanup(os.environ.__setitem__, "DFCCL_TORCH_SURVIVE", before or "0")
        for setting, checks, several, words in (
            ("3", False, False, "DFCCL_TORCH_SURVIVE is '3'"),
            ("1", True, False, "cannot be used with DFCCL_TORCH_SURVIVE"),
            ("2", False, True, "several backends"),
        ):
            os.environ["DFCCL_TORCH_SURVIVE"] = setting
            refused(
                partial(survivors.check_survive, checks, several), words, error=dfccl.InvalidUsage
            )


if __name__ == "__main__":
    unittest.main()
