"""Measures all-reduces, training steps and inference, with this library and with Gloo, in one run.

    python measure.py [RANKS [PART...]]

The output has medians, in us and ms. The two libraries alternate in batches, so that other load of
the machine affects both.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

SIZES = [8, 64, 512, 4096, 32768, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20]


def all_reduces(groups: dict[str, dist.ProcessGroup]) -> None:
    for size in SIZES:
        tensor = torch.ones(size // 4)
        times: dict[str, list[float]] = {name: [] for name in groups}
        calls = 100 if size <= 32768 else 30 if size <= 1 << 20 else 5
        for batch in range(6):
            for name, group in groups.items():
                for _ in range(calls):
                    begin = time.perf_counter()
                    dist.all_reduce(tensor, group=group)
                    if batch > 0:
                        times[name].append(1e6 * (time.perf_counter() - begin))
        medians = {name: statistics.median(each) for name, each in times.items()}
        if dist.get_rank() == 0:
            print(
                f"| {size} | "
                + " | ".join(f"{each:.1f}" for each in medians.values())
                + f" | {medians['gloo'] / medians['dfccl']:.1f} |",
                flush=True,
            )


class Block(torch.nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(
            width, 8, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        mask = torch.nn.Transformer.generate_square_subsequent_mask(values.size(1))
        return self.layer(values, mask, is_causal=True)


def models() -> dict[str, tuple[Callable[[], torch.nn.Sequential], torch.Tensor]]:
    """The models, each with a batch."""

    def convolutions() -> torch.nn.Sequential:
        widths = [3, 32, 64, 64, 128, 128, 256, 256]
        return torch.nn.Sequential(
            *[
                torch.nn.Sequential(
                    torch.nn.Conv2d(one, next, 3, 1 + (at % 2), 1, bias=False),
                    torch.nn.GroupNorm(8, next),
                    torch.nn.ReLU(),
                )
                for at, (one, next) in enumerate(zip(widths, widths[1:]))
            ]
        )

    return {
        "linear": (
            lambda: torch.nn.Sequential(
                *[
                    torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU())
                    for _ in range(4)
                ]
            ),
            torch.randn(64, 1024),
        ),
        "gpt": (
            lambda: torch.nn.Sequential(
                torch.nn.Embedding(2048, 256), *[Block(256) for _ in range(6)]
            ),
            torch.randint(0, 2048, (2, 64)),
        ),
        "convolutions": (convolutions, torch.randn(8, 3, 32, 32)),
    }


def steps(groups: dict[str, dist.ProcessGroup]) -> None:
    """Forward and backward steps, with DistributedDataParallel, and with FSDP2 in which each layer
    is a unit."""

    def step(model: torch.nn.Module, inputs: torch.Tensor) -> float:
        model.zero_grad()
        begin = time.perf_counter()
        model(inputs).square().mean().backward()
        return 1e3 * (time.perf_counter() - begin)

    def sharded(made: torch.nn.Sequential, group: dist.ProcessGroup) -> torch.nn.Module:
        mesh = DeviceMesh.from_group(group, "cpu")
        for layer in made:
            fully_shard(layer, mesh=mesh)
        return fully_shard(made, mesh=mesh)

    for model, (make, inputs) in models().items():
        torch.manual_seed(0)
        parameters = sum(parameter.numel() for parameter in make().parameters())
        for way, wrap in (
            ("DDP", lambda group: DistributedDataParallel(make(), process_group=group)),
            ("FSDP2", lambda group: sharded(make(), group)),
        ):
            wrapped = {name: wrap(group) for name, group in groups.items()}
            wrapped["none"] = make()
            times: dict[str, list[float]] = {name: [] for name in wrapped}
            for batch in range(7):
                for name, each in wrapped.items():
                    taken = [step(each, inputs) for _ in range(5)]
                    times[name] += taken if batch > 0 else []
            gloo, ours, none = (
                statistics.median(times[name]) for name in ("gloo", "dfccl", "none")
            )
            if dist.get_rank() == 0:
                print(
                    f"| {model}, {parameters / 1e6:.1f} M | {way} | {gloo:.1f} | {ours:.1f} | "
                    f"{none:.1f} | "
                    f"{gloo / ours:.2f} |",
                    flush=True,
                )


def layers(groups: dict[str, dist.ProcessGroup]) -> None:
    """Tensor-parallel inference of 8 layers like those of a transformer, with two all-reduces of
    bfloat16 in each."""
    width, size = 1024, dist.get_world_size()
    weights = [
        (
            torch.randn(width, width // size).bfloat16() / 32,
            torch.randn(width // size, width).bfloat16() / 32,
        )
        for _ in range(16)
    ]

    def infer(values: torch.Tensor, group: dist.ProcessGroup | None) -> float:
        begin = time.perf_counter()
        for into, out in weights:
            part = torch.relu(values @ into) @ out
            if group is not None:
                dist.all_reduce(part, group=group)
            values = values + part
        return 1e3 * (time.perf_counter() - begin)

    for tokens in (5, 16, 45):
        values = torch.randn(tokens, width).bfloat16()
        times: dict[str, list[float]] = {name: [] for name in (*groups, "no communication")}
        for batch in range(6):
            for name in times:
                taken = [infer(values, groups.get(name)) for _ in range(10)]
                times[name] += taken if batch > 0 else []
        if dist.get_rank() == 0:
            print(
                f"{tokens} tokens, all-reduces of {2 * width * tokens} B: "
                + ", ".join(
                    f"{name} {statistics.median(each):.2f} ms" for name, each in times.items()
                ),
                flush=True,
            )


def rank_of(rank: int, size: int, port: int, parts: list[str]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "dfccl", rank=rank, world_size=size, init_method=f"tcp://127.0.0.1:{port}"
    )
    groups = {"gloo": dist.new_group(backend="gloo"), "dfccl": dist.group.WORLD}
    heads = {
        all_reduces: "| bytes | Gloo us | dfccl us | ratio |\n| ---: | ---: | ---: | ---: |",
        steps: "forward and backward, ms\n\n| model, parameters | | Gloo | dfccl | no "
        "communication | ratio |\n"
        "| --- | --- | ---: | ---: | ---: | ---: |",
        layers: "inference of 8 layers of width 1024 in bfloat16, tensor-parallel:",
    }
    if rank == 0:
        print(f"torch {torch.__version__}, {size} ranks")
    for part, head in heads.items():
        if not parts or part.__name__ in parts:
            if rank == 0:
                print("\n" + head, flush=True)
            part(groups)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranks", nargs="?", type=int, default=2)
    parser.add_argument("parts", nargs="*", help="all_reduces, steps, layers; all of them without")
    options = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    torch.multiprocessing.spawn(
        rank_of, args=(options.ranks, free, options.parts), nprocs=options.ranks
    )
