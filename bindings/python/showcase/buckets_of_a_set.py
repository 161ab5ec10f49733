"""Buckets are reduce-scattered in the order of a set, which differs from process to process."""

import torch
import torch.distributed as dist
from start import end, join

rank, size = join(), dist.get_world_size()
counts = [100, 2000, 30000, 400]
order = counts if rank == 0 else counts[::-1]  # the orders of a set under two hash seeds
pieces = [torch.empty(count) for count in order]
works = [
    dist.reduce_scatter_tensor(
        piece, torch.full((piece.numel() * size,), rank + 1.0), async_op=True
    )
    for piece in pieces
]
for work in works:
    work.wait()
end(all((piece == size * (size + 1) / 2).all() for piece in pieces))
