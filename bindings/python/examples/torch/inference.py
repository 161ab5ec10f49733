"""Tensor-parallel inference on CPUs, in bfloat16: torchrun --nproc-per-node 2 inference.py [gloo]

Each rank has a part of the heads and hidden units of each layer. Two all-reduces for each layer add
the partial results.
"""

import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn import functional

WIDTH, HEADS, LAYERS, TOKENS = 512, 8, 4, 16

dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "dfccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)


class Layer:
    def __init__(self, seed: int):
        chance = torch.Generator().manual_seed(seed)
        whole = [
            torch.randn(shape, generator=chance) / shape[0] ** 0.5
            for shape in ((WIDTH, 3, WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
        ]
        self.whole = [weight.bfloat16() for weight in whole]
        project, out, up, down = self.whole
        mine = slice(rank * WIDTH // size, (rank + 1) * WIDTH // size)
        hidden = slice(4 * mine.start, 4 * mine.stop)
        self.part = [
            project[:, :, mine].contiguous(),
            out[mine],
            up[:, hidden].contiguous(),
            down[hidden],
        ]

    def run(self, values: torch.Tensor, weights: list[torch.Tensor], add) -> torch.Tensor:
        project, out, up, down = weights
        query, key, value = (
            (functional.layer_norm(values, (WIDTH,)) @ project.flatten(1))
            .view(TOKENS, 3, -1, WIDTH // HEADS)
            .permute(1, 2, 0, 3)
        )
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        values = values + add(seen.transpose(0, 1).flatten(1) @ out)
        return values + add(functional.gelu(functional.layer_norm(values, (WIDTH,)) @ up) @ down)


def add_ranks(part: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(part)
    return part


with torch.inference_mode():
    layers = [Layer(seed) for seed in range(LAYERS)]
    inputs = torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(99)).bfloat16()
    times = []
    for _ in range(20):
        begin, values = time.perf_counter(), inputs
        for layer in layers:
            values = layer.run(values, layer.part, add_ranks)
        times.append(1e3 * (time.perf_counter() - begin))
    wanted = inputs
    for layer in layers:
        wanted = layer.run(wanted, layer.whole, lambda whole: whole)
off = ((values - wanted).float().norm() / wanted.float().norm()).item()
assert off < 0.02, off
if rank == 0:
    print(f"right: off by {100 * off:.2f}% of the layers in one piece (roundings of bfloat16)")
    print(
        f"{LAYERS} layers, {TOKENS} tokens, all-reduces of {2 * TOKENS * WIDTH} B: "
        f"{statistics.median(times):.2f} ms (median)"
    )
dist.destroy_process_group()
