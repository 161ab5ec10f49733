"""Promises: the error of a late call names the ranks that have not made the call, and their places
in the program; torch's analyser can read the dumps. Skipped without torch."""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import pathlib
import pickle
import subprocess
import tempfile
import time
import unittest

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl
import dfccl.torch
from dfccl import flight
from support import Case, on_processes
from test_torch import join, meeting_place


@contextlib.contextmanager
def until_both_are_late(store):
    """The thread stays in the function that made the late call until the other rank has its error,
    too: answers are given when the other rank asks, which may be some time later."""
    try:
        yield
    except RuntimeError:
        if store.add("late", 1) == 2:
            store.set("both are late", "1")
        store.wait(["both are late"], datetime.timedelta(seconds=60))
        raise


def reduces_gradients(store) -> None:
    with until_both_are_late(store), dfccl.torch.name("layer3.weight"):
        dist.all_reduce(torch.ones(7, 11))


def broadcasts_buffers(store) -> None:
    with until_both_are_late(store):
        dist.broadcast(torch.ones(5, dtype=torch.int64), 0)


def saves_a_checkpoint(store) -> None:
    while not store.check(["told"]):
        time.sleep(0.05)


def _late(rank: int, size: int, place: str) -> None:
    join(rank, size, place, timeout=datetime.timedelta(seconds=3))
    store = dist.distributed_c10d._get_default_store()
    dist.all_reduce(torch.ones(4))
    try:
        if rank == 0:
            reduces_gradients(store)
        elif rank == 1:
            broadcasts_buffers(store)
        else:
            saves_a_checkpoint(store)
    except RuntimeError as error:
        lines = str(error).split("\n")
        mine = {
            0: (
                "call 2 of group '0': all_reduce of float32 [7, 11], named 'layer3.weight'",
                "reduces_gradients",
            ),
            1: ("call 2 of group '0': broadcast of int64 [5]", "broadcasts_buffers"),
        }
        assert "reached its timeout on rank" in lines[0], error
        assert (
            lines[1].startswith(f"  {mine[rank][0]}; called at {__file__}:")
            and mine[rank][1] in lines[1]
        ), error
        other = 1 - rank
        at = lines.index(f"  rank {other} has not come")
        assert (
            lines[at + 1].startswith(f"    it waits for {mine[other][0]}; called at ")
            and mine[other][1] in lines[at + 1]
        ), error
        assert "its thread MainThread is at" in lines[at + 2] and mine[other][1] in lines[at + 2], (
            error
        )
        at = lines.index("  rank 2 has not come")
        assert lines[at + 1].startswith(
            "    its last call was call 1 of group '0': all_reduce of float32 [4]; called at"
        ), error
        assert "saves_a_checkpoint" in lines[at + 2], error
        if store.add("ready", 1) == 2:
            store.set("told", "1")
    else:
        assert rank == 2, "it met nobody"
    store.wait(["told"], datetime.timedelta(seconds=60))


def _messages(rank: int, size: int, place: str) -> None:
    """Only the peer of a message is missing. A rank that has ended without notice is named, too."""
    join(rank, size, place)
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        work = dist.irecv(torch.ones(3), 2)
        try:
            work.wait(datetime.timedelta(seconds=2))
        except RuntimeError as error:
            assert "  call 1 of group '0': recv from rank 2 to rank 0 of float32 [3]" in str(
                error
            ), error
            assert (
                "rank 2 has not come" in str(error) and "rank 1" not in str(error).split("\n", 1)[1]
            ), error
        else:
            raise AssertionError("nobody sent")
        store.set("told", "1")
        work.wait()
    store.wait(["told"])
    if rank == 2:
        dist.send(torch.ones(3), 0)
    dist.barrier()


def _dumps(rank: int, size: int, place: str, folder: str) -> None:
    os.environ["DFCCL_TORCH_DUMP"] = folder
    join(rank, size, place)
    store = dist.distributed_c10d._get_default_store()
    group = dist.new_group([0, 1])
    for _ in range(3):
        dist.all_reduce(torch.ones(2, 3))
    if rank < 2:
        dist.all_gather_into_tensor(torch.ones(4), torch.ones(2), group=group)
        dist.reduce_scatter_tensor(torch.ones(2), torch.ones(4), group=group)
    dist.all_gather([torch.ones(2) for _ in range(size)], torch.ones(2))
    dist.all_to_all_single(torch.ones(2 * size), torch.ones(2 * size))
    dist.barrier()
    if rank == 0:
        dist.send(
            torch.ones(2), 1, group=group
        )  # torch's analyser matches messages only in groups of two
        try:
            dist.all_reduce(torch.ones(8), async_op=True).wait(datetime.timedelta(seconds=2))
        except RuntimeError:
            store.set("told", "1")
    elif rank == 1:
        dist.recv(torch.ones(2), 0, group=group)
    store.wait(["told"])
    told = dfccl.torch.flight()
    assert [entry["record_id"] for entry in told["entries"]] == list(range(len(told["entries"])))
    assert all(entry["state"] == "completed" for entry in told["entries"][:7]), told


def _settings(rank: int, size: int, place: str) -> None:
    for variable, value, sentence in (
        ("DFCCL_TORCH_STACKS", "maybe", "whole number from 0 to 1"),
        ("DFCCL_TORCH_FLIGHT", "-5", "whole number from 0 to 1000000"),
    ):
        os.environ[variable] = value
        try:
            join(rank, size, place)
        except dfccl.InvalidUsage as error:
            assert variable in str(error) and sentence in str(error), error
        else:
            raise AssertionError(f"{variable}={value}")
        del os.environ[variable]
    for variable, value, calls, frames in (
        ("DFCCL_TORCH_STACKS", "0", 5, False),
        ("DFCCL_TORCH_FLIGHT", "3", 3, True),
        ("DFCCL_TORCH_FLIGHT", "0", 0, None),
    ):
        os.environ[variable] = value
        join(rank, size, f"{place}{variable}{value}")
        for _ in range(5):
            dist.all_reduce(torch.ones(1))
        entries = dfccl.torch.flight()["entries"]
        assert len(entries) == calls and all(
            bool(entry["frames"]) == frames for entry in entries
        ), entries
        dist.destroy_process_group()
        del os.environ[variable]


def _memory(rank: int, size: int, place: str) -> None:
    """Records keep neither tensors nor frames alive."""
    import gc
    import weakref

    join(rank, size, place)

    class Local:
        pass

    def call() -> list:
        local, tensor = Local(), torch.ones(100)
        dist.all_reduce(tensor)
        return [weakref.ref(local), weakref.ref(tensor)]

    references = call()
    dist.all_reduce(torch.ones(100))
    gc.collect()
    assert [each() for each in references] == [None, None]
    dist.destroy_process_group()


def _traces(rank: int, size: int, place: str, folder: str, backend: str, exchanged: bool) -> None:
    """Writes the traces of a job whose ranks use two groups in the same order or in opposite
    orders. Both libraries complete it."""
    from torch.profiler import ExecutionTraceObserver

    dist.init_process_group(backend, rank=rank, world_size=size, init_method=f"file://{place}")
    groups = [dist.group.WORLD, dist.new_group([0, 1])]
    observer = ExecutionTraceObserver()
    observer.register_callback(os.path.join(folder, f"execution-{rank}.json"))
    observer.start()
    dist.all_reduce(torch.ones(3))
    works = [
        dist.all_reduce(torch.ones(5), group=group, async_op=True)
        for group in (reversed(groups) if exchanged and rank == 1 else groups)
    ]
    for work in works:
        work.wait()
    dist.all_reduce(torch.ones(3))
    observer.stop()
    observer.unregister_callback()
    if backend == "dfccl":
        dfccl.torch.dump_flight(folder)
    else:
        from torch._C import _distributed_c10d as c10d

        told = c10d._dump_fr_trace_json()
        pathlib.Path(folder, f"{rank}.json").write_text(
            told if isinstance(told, str) else told.decode()
        )
        pathlib.Path(folder, f"rank_{rank}").write_bytes(c10d._dump_fr_trace())
    dist.barrier()
    dist.destroy_process_group()


class Flight(Case):
    def _on(self, function, size: int, *arguments) -> None:
        self.assertEqual(on_processes(function, size, meeting_place(), *arguments), [0] * size)

    def test_a_late_call_names_ranks_and_places(self):
        self._on(_late, 3)

    def test_a_late_message_names_its_peer(self):
        self._on(_messages, 3)

    def test_settings(self):
        self._on(_settings, 1)

    def test_records_keep_nothing_alive(self):
        self._on(_memory, 2)

    def _check(self, folder: str, names: str) -> tuple[int, dict]:
        files = [os.path.join(folder, names.format(rank)) for rank in range(2)]
        done = subprocess.run(
            [os.environ["DFCCL_TEST_SIM"], "check", "--json", *files],
            capture_output=True,
            text=True,
        )
        self.assertIn(done.returncode, (0, 3), done.stderr)
        return done.returncode, json.loads(done.stdout)

    @unittest.skipUnless("DFCCL_TEST_SIM" in os.environ, "DFCCL_TEST_SIM names no dfccl-sim")
    def test_dfccl_sim_judges_the_dumps(self):
        for backend in ("gloo", "dfccl"):
            for exchanged in (False, True):
                with (
                    self.subTest(backend=backend, exchanged=exchanged),
                    tempfile.TemporaryDirectory() as folder,
                ):
                    self._on(_traces, 2, folder, backend, exchanged)
                    for rank in range(2):
                        self.assertEqual(
                            flight.main(["to-json", os.path.join(folder, f"rank_{rank}")]), 0
                        )
                    for names in ("{}.json", "rank_{}.json"):
                        status, told = self._check(folder, names)
                        self.assertEqual(
                            (status, told["deadlock"], len(told["cycle"])),
                            (3, True, 2) if exchanged else (0, False, 0),
                        )
                        self.assertEqual(told["missing"], [] if not exchanged else told["missing"])
                        self.assertEqual(
                            [wait["call"] for wait in told["cycle"]], [2, 2] if exchanged else []
                        )
                        if (
                            backend == "dfccl" or names == "rank_{}.json"
                        ):  # the JSON of torch has no stacks
                            self.assertTrue(
                                all("in _traces" in wait["at"] for wait in told["cycle"]), told
                            )
                    # Execution Traces name no groups, so this disorder is not visible in them.
                    if backend == "gloo":
                        status, told = self._check(folder, "execution-{}.json")
                        self.assertEqual((status, told["deadlock"]), (0, False))
                        self.assertIn("do not name process groups", told["notes"][0])

    def test_torch_reads_the_dumps(self):
        from torch.distributed.flight_recorder import fr_trace

        with tempfile.TemporaryDirectory() as folder:
            self._on(_dumps, 3, folder)
            names = sorted(path.name for path in pathlib.Path(folder).iterdir())
            self.assertEqual(names, ["0.json", "1.json", "2.json", "rank_0", "rank_1", "rank_2"])
            dump = json.loads(pathlib.Path(folder, "0.json").read_text())
            self.assertEqual(dump["rank"], 0)
            self.assertIn("_dumps", [frame["name"] for frame in dump["entries"][-1]["frames"]])
            with self.assertLogs(level=logging.INFO) as log:
                out = os.path.join(folder, "told")
                fr_trace.main([folder, "-o", out])
            text = "\n".join(log.output)
            self.assertIn("Not all ranks joining collective", text)
            self.assertIn("missing ranks: {1, 2}", text)
            self.assertIn("input sizes: [[8]]", text)
            with open(out, "rb") as file:
                database = pickle.load(file)[1]
            self.assertEqual(
                [
                    each.collective_name
                    for each in database.collectives
                    if not each.pass_check or each.missing_ranks
                ],
                ["dfccl:all_reduce"],
            )
            self.assertGreaterEqual(sum(each.pass_check for each in database.collectives), 8)


if __name__ == "__main__":
    unittest.main()
