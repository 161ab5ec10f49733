"""Promise: the memory of registrations is limited. A rank whose registrations exceed
DFCCL_TORCH_MEMORY_MB has those evicted that are not used, on all members alike, while ranks are not
in step, and results are right meanwhile. Skipped without torch."""

from __future__ import annotations

import os
import pathlib
import random
import tempfile
import unittest
import unittest.mock

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl
import dfccl.torch
from dfccl.torch import forget
from support import Case, meeting_place, on_processes

MB = 1 << 20


def join(rank: int, size: int, place: str, megabytes: int) -> None:
    torch.set_num_threads(1)
    os.environ["DFCCL_TORCH_MEMORY_MB"] = str(megabytes)
    dist.init_process_group("dfccl", rank=rank, world_size=size, init_method=f"file://{place}")


def used() -> int:
    memory = dist.group.WORLD._context.memory()
    return memory["recordBytes"] + memory["ringBytes"]


def rounds() -> int:
    return sum(dist.group.WORLD._job.forgetting._rounds.values())


def _shapes(rank: int, size: int, place: str) -> None:
    """New shapes only, of 4 KB to 1 MB; each window in a random order of this rank."""
    join(rank, size, place, 4)
    chance, most = random.Random(rank), 0
    sizes = random.Random(1)  # the same on all ranks
    for window in range(40):
        counts = [1000 + sizes.randrange(1, 1 << sizes.randrange(1, 18)) for _ in range(8)]
        counts = list(dict.fromkeys(counts))
        chance.shuffle(counts)
        works = []
        for count in counts:
            tensor = torch.full((count,), float(rank))
            works.append((dist.all_reduce(tensor, async_op=True), tensor))
        gathered = torch.empty(size * (window + 1), 64)
        dist.all_gather_into_tensor(gathered, torch.full((window + 1, 64), float(rank)))
        for other in range(size):
            assert (gathered[other * (window + 1) : (other + 1) * (window + 1)] == other).all()
        for work, tensor in works:
            work.wait()
            assert (tensor == size * (size - 1) / 2).all(), (window, tensor)
        most = max(most, used())
    # 16 registrations and more are made while a round is agreed, of up to 2 MB each
    assert most < 40 * MB, most
    assert rounds() >= 3, rounds()
    dist.barrier()
    dist.destroy_process_group()


def _always(rank: int, size: int, place: str) -> None:
    """A round begins at each registration, if none is in progress. Shapes are evicted and used
    again, and calls meet registrations that are held."""
    forget._APART = 0
    join(rank, size, place, 1)
    chance = random.Random(100 + rank)
    hot = torch.empty(100_000)
    for turn in range(2):
        for first in range(0, 150, 5):
            counts = [1 + 500 * each for each in range(first, first + 5)]
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
    assert rounds() >= 5, rounds()
    dist.destroy_process_group()  # a round may be in progress


def _subgroup(rank: int, size: int, place: str) -> None:
    """The memory is that of a subgroup, while another group has more registrations."""
    join(rank, size, place, 4)
    pair = dist.new_group([0, 1])
    steady = [torch.empty(each + 1) for each in range(100)]
    most = 0
    for window in range(60):
        for tensor in steady[window % 50 :: 50]:
            tensor.fill_(1)
            dist.all_reduce(tensor)
            assert (tensor == size).all()
        if rank < 2:
            for more in range(3):
                tensor = torch.full((20_000 + 3000 * window + more,), 1.0)
                dist.all_reduce(tensor, group=pair)
                assert (tensor == 2).all()
            most = max(most, used())
    if rank < 2:
        found = dist.distributed_c10d._get_default_group()._job.forgetting._rounds
        assert found.get(pair._name, 0) >= 1, found
        assert most < 40 * MB, most
    dist.barrier()
    dist.destroy_process_group()


def _one_way(rank: int, size: int, place: str) -> None:
    """Only the receiver has the memory, and the sender is ahead."""
    join(rank, size, place, 4)
    most = 0
    for message in range(600):
        tensor = torch.full((10_000 + 100 * message,), float(message))
        if rank == 0:
            dist.send(tensor, 1)
        else:
            box = torch.empty_like(tensor)
            dist.recv(box, 0)
            assert torch.equal(box, tensor), message
        most = max(most, used())
    assert rounds() >= 2, rounds()
    assert most < 40 * MB, most
    dist.barrier()
    dist.destroy_process_group()


class Memory(Case):
    def _on(self, function, size: int) -> None:
        self.assertEqual(on_processes(function, size, meeting_place()), [0] * size)

    def test_ever_new_shapes(self):
        self._on(_shapes, 3)

    def test_at_each_registration(self):
        self._on(_always, 2)

    def test_of_a_receiver(self):
        self._on(_one_way, 2)

    def test_of_a_subgroup(self):
        self._on(_subgroup, 3)

    def test_account(self):
        first, second = self.ranks(2)
        before = first.memory()
        collectives = [each.register_all_reduce(1, 1000, "float32") for each in (first, second)]
        runs = [each.run(bytearray(4000), bytearray(4000)) for each in collectives]
        for run in runs:
            run.wait()
        after, own = first.memory(), collectives[0].memory()
        self.assertEqual((before["collectives"], after["collectives"]), (0, 1))
        self.assertEqual(own["collectives"], 1)
        self.assertGreater(own["recordBytes"], 1000)
        self.assertGreaterEqual(after["recordBytes"], own["recordBytes"])
        self.assertGreater(own["ringBytes"], 0)
        self.assertLess(own["ringBytes"], 64 << 10)

    def test_setting(self):
        for value in ("0", "1048577", "much", "-1", "1.5"):
            with (
                unittest.mock.patch.dict(os.environ, DFCCL_TORCH_MEMORY_MB=value),
                self.assertRaisesRegex(
                    dfccl.InvalidUsage, "DFCCL_TORCH_MEMORY_MB is .*whole number from 1 to 1048576"
                ),
            ):
                forget.most_bytes(2)
        with unittest.mock.patch.dict(os.environ, DFCCL_TORCH_MEMORY_MB="7"):
            self.assertEqual(forget.most_bytes(2), 7 * MB)

    def test_default(self):
        """A share of the host's memory, divided by the ranks of the host."""
        os.environ.pop("DFCCL_TORCH_MEMORY_MB", None)
        with unittest.mock.patch.object(forget, "_machine_bytes", lambda: 1 << 40):
            self.assertEqual(forget.most_bytes(4), (1 << 34) // 4)
            with unittest.mock.patch.dict(os.environ, LOCAL_WORLD_SIZE="2"):
                self.assertEqual(forget.most_bytes(64), (1 << 34) // 2)
            with unittest.mock.patch.dict(os.environ, LOCAL_WORLD_SIZE="many"):
                self.assertEqual(forget.most_bytes(4), (1 << 34) // 4)
        with unittest.mock.patch.object(forget, "_machine_bytes", lambda: 0):
            self.assertEqual(forget.most_bytes(4), 64 * MB)
        self.assertGreater(forget._machine_bytes(), MB)

    def test_control_groups(self):
        """The limit of the process's own group counts, and those of its parents."""
        cases = (  # the groups of the process, a file, its content, and the limit that counts
            ("0::/job/step", "second/max", 5 * MB, 5 * MB),
            ("0::/job/step", "second/job/max", 4 * MB, 4 * MB),
            ("0::/job/step", "second/job/step/max", 3 * MB, 3 * MB),
            ("4:cpu:/other\n3:memory:/job\n0::/job", "first/job/limit", 2 * MB, 2 * MB),
            ("4:cpu:/other\n3:memory:/", "first/limit", "max", 5 * MB),
            ("4:cpu:/other\n3:memory:/job", "first/other/limit", MB, 2 * MB),
        )
        with tempfile.TemporaryDirectory() as folder:
            own = pathlib.Path(folder, "own")
            limits = {"": (f"{folder}/second", "max"), "memory": (f"{folder}/first", "limit")}
            for groups, name, content, limit in cases:
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{content}\n")
                own.write_text(groups + "\n")
                with (
                    unittest.mock.patch.object(forget, "_OWN_GROUPS", f"{own}"),
                    unittest.mock.patch.object(forget, "_LIMITS", limits),
                ):
                    self.assertEqual(forget._machine_bytes(), limit, (groups, name))


if __name__ == "__main__":
    unittest.main()
