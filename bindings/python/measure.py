"""All-reduce, a training step and inference beside Gloo, in one run: python measure.py [RANKS]. Medians, in us and ms.

The two libraries take turns in batches, so that what else the machine does disturbs both.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

SIZES = [8, 64, 512, 4096, 32768, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20]


def all_reduces(groups: dict[str, dist.ProcessGroup]) -> None:
    for size in SIZES:
        tensor = torch.ones(size // 4)
        times: dict[str, list[float]] = {name: [] for name in groups}
        calls = 100 if size <= 32768 else 30 if size <= 1 << 20 else 5
        for batch in range(6):
            for name, group in groups.items():
                for call in range(calls):
                    begin = time.perf_counter()
                    dist.all_reduce(tensor, group=group)
                    if batch > 0:
                        times[name].append(1e6 * (time.perf_counter() - begin))
        medians = {name: statistics.median(each) for name, each in times.items()}
        if dist.get_rank() == 0:
            print(f"| {size} | " + " | ".join(f"{each:.1f}" for each in medians.values())
                  + f" | {medians['gloo'] / medians['dfccl']:.1f} |", flush=True)


def steps(groups: dict[str, dist.ProcessGroup]) -> None:
    torch.manual_seed(0)
    plain = torch.nn.Sequential(*[layer for _ in range(4) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())])
    models = {name: DistributedDataParallel(plain, process_group=group) for name, group in groups.items()}
    inputs = torch.randn(64, 1024)

    def step(model: torch.nn.Module) -> float:
        model.zero_grad()
        begin = time.perf_counter()
        model(inputs).square().mean().backward()
        return 1e3 * (time.perf_counter() - begin)

    times: dict[str, list[float]] = {name: [] for name in (*models, "no communication")}
    for batch in range(6):
        for name in times:
            if name == "no communication":
                with models["dfccl"].no_sync():
                    taken = [step(models["dfccl"]) for _ in range(5)]
            else:
                taken = [step(models[name]) for _ in range(5)]
            times[name] += taken if batch > 0 else []
    if dist.get_rank() == 0:
        print(", ".join(f"{name} {statistics.median(each):.1f} ms" for name, each in times.items()))


def layers(groups: dict[str, dist.ProcessGroup]) -> None:
    """Inference of 8 transformer-like layers, tensor-parallel: two all-reduces of bfloat16 in each."""
    width, size = 1024, dist.get_world_size()
    weights = [(torch.randn(width, width // size).bfloat16() / 32, torch.randn(width // size, width).bfloat16() / 32)
               for _ in range(16)]

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
            print(f"{tokens} tokens, all-reduces of {2 * width * tokens} B: "
                  + ", ".join(f"{name} {statistics.median(each):.2f} ms" for name, each in times.items()), flush=True)


def rank_of(rank: int, size: int, port: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("dfccl", rank=rank, world_size=size, init_method=f"tcp://127.0.0.1:{port}")
    groups = {"gloo": dist.new_group(backend="gloo"), "dfccl": dist.group.WORLD}
    if rank == 0:
        print(f"torch {torch.__version__}, {size} ranks\n\n| bytes | Gloo us | dfccl us | ratio |\n| ---: | ---: | ---: | ---: |")
    all_reduces(groups)
    if rank == 0:
        print("\nforward and backward of 4 layers of 1024 x 1024 (4.2 M parameters), batch 64, DistributedDataParallel:")
    steps(groups)
    if rank == 0:
        print("\ninference of 8 layers of width 1024 in bfloat16, tensor-parallel:")
    layers(groups)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranks", nargs="?", type=int, default=2)
    options = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    torch.multiprocessing.spawn(rank_of, args=(options.ranks, free), nprocs=options.ranks)
