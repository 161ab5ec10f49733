"""Two tensors of equal shape are reduced in opposite orders, and nothing distinguishes them."""

import torch
import torch.distributed as dist
from start import end, join

rank, size = join(), dist.get_world_size()
tensors = [torch.full((1000,), 1.0), torch.full((1000,), 10.0)]
works = [
    dist.all_reduce(tensor, async_op=True) for tensor in (tensors if rank == 0 else tensors[::-1])
]
for work in works:
    work.wait()
end((tensors[0] == size).all() and (tensors[1] == 10 * size).all())
