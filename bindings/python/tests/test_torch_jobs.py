"""Promise: jobs of PyTorch, with no change except the name of the backend, have the same losses as
on Gloo. Skipped without torch."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )
    from torch.nn.parallel import DistributedDataParallel
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl.torch  # noqa: F401  its import registers the backend
import long_runs
from support import INNER_SECONDS, Case, meeting_place, on_processes

WIDTH = 32


def model() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 64), torch.nn.ReLU(), torch.nn.Linear(64, WIDTH)
    )


def train(module: torch.nn.Module, seed: int, accumulate: int = 1) -> list[float]:
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    chance = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(5):
        for part in range(accumulate):
            if accumulate > 1:
                module.require_backward_grad_sync = part == accumulate - 1
            loss = module(torch.randn(8, WIDTH, generator=chance)).square().mean()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def ddp_with_accumulation(rank: int) -> list[float]:
    return train(DistributedDataParallel(model()), rank, accumulate=3)


def fsdp2(rank: int) -> list[float]:
    module = model()
    mesh = init_device_mesh("cpu", (2,))
    for layer in (module[0], module[2], module):
        fully_shard(layer, mesh=mesh)
    return train(module, rank)


def tensor_parallel(rank: int) -> list[float]:
    mesh = init_device_mesh("cpu", (2,))
    return train(
        parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}), 0
    )


def dtensor(rank: int) -> list[float]:
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    left, right = torch.randn(6, 8), torch.randn(8, 4)
    product = distribute_tensor(left, mesh, [Shard(1)]) @ distribute_tensor(right, mesh, [Shard(0)])
    moved = (
        product.redistribute(mesh, [Shard(0)])
        .redistribute(mesh, [Shard(1)])
        .redistribute(mesh, [Replicate()])
    )
    assert isinstance(moved, DTensor)
    return moved.to_local().flatten().tolist()


def pipeline(rank: int) -> list[float]:
    parts = model()
    module = parts[0] if rank == 0 else parts[1:]
    stage = PipelineStage(module, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(
        stage, 4, loss_fn=lambda output, target: (output - target).square().mean()
    )
    torch.manual_seed(1)
    inputs, target = torch.randn(16, WIDTH), torch.randn(16, WIDTH)
    losses: list[torch.Tensor] = []
    for _ in range(3):
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=target, losses=losses)
    return [loss.item() for loss in losses] + [
        parameter.grad.sum().item() for parameter in module.parameters()
    ]


def checkpoint(rank: int) -> list[float]:
    module = model()
    fully_shard(module, mesh=init_device_mesh("cpu", (2,)))
    losses = train(module, rank)
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, 0)
    try:
        state = {"model": module.state_dict()}
        torch.distributed.checkpoint.save(state, checkpoint_id=folder[0])
        kept = [parameter.to_local().clone() for parameter in module.parameters()]
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.zero_()
        torch.distributed.checkpoint.load(state, checkpoint_id=folder[0])
        module.load_state_dict(state["model"])
        assert all(
            torch.equal(parameter.to_local(), wanted)
            for parameter, wanted in zip(module.parameters(), kept)
        )
        dist.barrier()
    finally:
        if rank == 0:
            shutil.rmtree(str(folder[0]))
    return losses


def _both(rank: int, size: int, place: str, *jobs) -> None:
    torch.set_num_threads(1)
    results = {}
    for at, backend in enumerate(("gloo", "dfccl")):
        dist.init_process_group(
            backend, rank=rank, world_size=size, init_method=f"file://{place}{at}"
        )
        results[backend] = [job(rank) for job in jobs]
        dist.barrier()
        dist.destroy_process_group()
    for job, wanted, found in zip(jobs, *results.values()):
        assert wanted == found, (job.__name__, wanted, found)


class Jobs(Case):
    def test_torchrun(self):
        example = pathlib.Path(__file__).resolve().parent.parent / "examples" / "torch" / "ddp.py"
        ended = subprocess.run(
            [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node",
                "2",
                str(example),
            ],
            capture_output=True,
            text=True,
            timeout=INNER_SECONDS,
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        first, last = (
            float(line.rpartition(" ")[2])
            for line in (ended.stdout.splitlines()[0], ended.stdout.splitlines()[-1])
        )
        self.assertLess(last, first / 2)

    def test_inference(self):
        example = (
            pathlib.Path(__file__).resolve().parent.parent / "examples" / "torch" / "inference.py"
        )
        for ranks in ("2", "4"):
            ended = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "torch.distributed.run",
                    "--standalone",
                    "--nproc-per-node",
                    ranks,
                    str(example),
                ],
                capture_output=True,
                text=True,
                timeout=INNER_SECONDS,
            )
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertIn("right: ", ended.stdout)

    def test_buckets_in_any_order(self):
        """The losses of a small GPT are those of the ordered run. long_runs.py runs 10,000 steps of
        it."""
        self.assertEqual(on_processes(long_runs.gpt, 2, meeting_place(), 40), [0, 0])

    def test_memory_stays(self):
        self.assertEqual(on_processes(long_runs.memory, 2, meeting_place(), 20_000), [0, 0])

    def test_losses_are_gloos(self):
        jobs = (ddp_with_accumulation, fsdp2, tensor_parallel, dtensor, pipeline, checkpoint)
        self.assertEqual(on_processes(_both, 2, meeting_place(), *jobs), [0, 0])


if __name__ == "__main__":
    unittest.main()
