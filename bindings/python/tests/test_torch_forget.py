"""Promise: the number of registrations is limited. Registrations that are not used are evicted,
while ranks are not in step. Skipped without torch."""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import time
import unittest
import unittest.mock

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl
import dfccl.torch
from dfccl.torch import keeper
from dfccl.torch.forget import most_registrations
from support import Case, meeting_place, on_processes

LIMIT = 64


def join(rank: int, size: int, place: str) -> None:
    torch.set_num_threads(1)
    os.environ["DFCCL_TORCH_REGISTRATIONS"] = str(LIMIT)
    dist.init_process_group("dfccl", rank=rank, world_size=size, init_method=f"file://{place}")


def registered() -> int:
    return len(dist.group.WORLD._context._collectives)


def rounds() -> int:
    return sum(dist.group.WORLD._job.forgetting._rounds.values())


def _shapes(rank: int, size: int, place: str) -> None:
    join(rank, size, place)
    chance, most, waited_late = random.Random(rank), 0, []
    pair = dist.new_group([0, 1])
    for window in range(60):  # new shapes only, each window in a random order of this rank
        counts = list(range(1 + 10 * window, 11 + 10 * window))
        chance.shuffle(counts)
        works = []
        for count in counts:
            tensor = torch.full((count,), float(rank))
            works.append((dist.all_reduce(tensor, async_op=True), tensor, size * (size - 1) / 2))
        if rank < 2:
            tensor = torch.full((window + 1,), 1.0)
            works.append((dist.all_reduce(tensor, group=pair, async_op=True), tensor, 2))
            message = torch.full((window + 1,), float(window))
            if rank == 0:
                dist.send(message, 1)
            else:
                dist.recv(received := torch.empty(window + 1), 0)
                assert torch.equal(received, message)
        for at, (work, tensor, wanted) in enumerate(works):
            if work is not None and at == 0 and window % 10 == 0:
                waited_late.append((work, tensor, wanted))
                continue
            if work is not None:
                work.wait()
            assert (tensor == wanted).all(), (window, tensor, wanted)
        most = max(most, registered())
    for work, tensor, wanted in waited_late:  # their registrations have been evicted
        assert work.is_completed()
        work.wait()
        assert torch.equal(work.get_future().wait()[0], tensor)
        assert (tensor == wanted).all()
    assert most < 3 * LIMIT, most
    assert rounds() >= 5, rounds()
    dist.barrier()
    dist.destroy_process_group()


def _round_and_round(rank: int, size: int, place: str) -> None:
    """Evicted shapes are used again repeatedly. The ranks are not in step, and call shapes that are
    held."""
    join(rank, size, place)
    chance = random.Random(100 + rank)
    hot = torch.empty(2000)
    for turn in range(4):
        for first in range(0, 150, 5):
            counts = list(range(first + 1, first + 6))
            chance.shuffle(counts)
            works = []
            for count in counts:
                tensor = torch.full((count,), float(rank + turn))
                works.append((dist.all_reduce(tensor, async_op=True), tensor))
            hot.fill_(1)
            dist.all_reduce(hot)
            assert (hot == size).all()
            for work, tensor in works:
                work.wait()
                assert (tensor == size * turn + size * (size - 1) / 2).all(), (turn, tensor)
    assert registered() < 3 * LIMIT, registered()
    assert rounds() >= 5, rounds()
    dist.destroy_process_group()  # a round may be in progress


def _from_any(rank: int, size: int, place: str) -> None:
    """Receives from any rank continue: the numbers of messages are kept, while other registrations
    are evicted."""
    join(rank, size, place)
    for message in range(3 * LIMIT):
        tensor = torch.ones(message + 1)
        dist.all_reduce(tensor)
        if rank == 0:
            if message % 3 == 0:
                dist.recv(box := torch.empty(3))
            else:
                dist.recv(box := torch.empty(3), 1)
            assert (box == message).all(), (box, message)
        else:
            dist.send(torch.full((3,), float(message)), 0)
    assert rounds() >= 2 and registered() < 3 * LIMIT, (rounds(), registered())
    dist.destroy_process_group()


def _one_group_in_use(rank: int, size: int, place: str) -> None:
    """The largest group uses all its registrations. Those of other groups are evicted."""
    join(rank, size, place)
    groups = [dist.new_group([0, 1]) for _ in range(6)]
    for window in range(40):
        for count in range(1, 49):
            dist.all_reduce(torch.ones(count))
        for group in groups:
            dist.all_reduce(torch.ones(100 + window), group=group)
    assert registered() < 3 * LIMIT, registered()
    dist.barrier()
    dist.destroy_process_group()


class _Store:
    """A store like torch's, of this process alone."""

    def __init__(self):
        self.entries, self.numbers = {}, itertools.count(1)

    def add(self, key, amount):
        return next(self.numbers)

    def set(self, key, value):
        self.entries[key] = value.encode()

    def get(self, key):
        return self.entries[key]

    def check(self, keys):
        return all(key in self.entries for key in keys)


class Questions(unittest.TestCase):
    def test_behind_one_that_is_not_put_yet(self):
        store, answered, all_answered = _Store(), [], threading.Event()
        asker = keeper.Keeper(store, "job", 0)

        def answer(number, question):
            answered.append((number, question["of"]))
            if len(answered) == 2:
                all_answered.set()

        asker.answer("test", answer)
        number = store.add("job questions", 1)  # another rank has taken a number
        with unittest.mock.patch.object(keeper, "_LOOK_S", 1000.0):
            asker.start()
            asker.ask("test", of="this rank")
            time.sleep(0.1)  # its coordinator has polled without a result
            store.set(f"job question {number}", json.dumps({"kind": "test", "of": "another"}))
            self.assertTrue(
                all_answered.wait(60), "the keeper sleeps, and has not seen its own rank's question"
            )
            asker.stop()
        self.assertEqual(answered, [(1, "another"), (2, "this rank")])


class Forget(Case):
    def _on(self, function, size: int) -> None:
        self.assertEqual(on_processes(function, size, meeting_place()), [0] * size)

    def test_ever_new_shapes(self):
        self._on(_shapes, 3)

    def test_round_and_round(self):
        self._on(_round_and_round, 2)

    def test_with_receives_from_any_rank(self):
        self._on(_from_any, 2)

    def test_beside_a_group_in_use(self):
        self._on(_one_group_in_use, 2)

    def test_setting(self):
        for value in ("63", "60001", "many"):
            os.environ["DFCCL_TORCH_REGISTRATIONS"] = value
            self.addCleanup(os.environ.pop, "DFCCL_TORCH_REGISTRATIONS", None)
            with self.assertRaisesRegex(dfccl.InvalidUsage, "whole number from 64 to 60000"):
                most_registrations()


if __name__ == "__main__":
    unittest.main()
