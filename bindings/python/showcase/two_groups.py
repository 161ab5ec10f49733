"""Two groups of the same ranks, used in opposite orders."""

import torch
import torch.distributed as dist
from start import end, join

rank, size = join(), dist.get_world_size()
groups = [dist.new_group(), dist.new_group()]
tensors = [torch.full((1000,), 1.0), torch.full((1000,), 10.0)]
order = (0, 1) if rank == 0 else (1, 0)
works = [dist.all_reduce(tensors[at], group=groups[at], async_op=True) for at in order]
for work in works:
    work.wait()
end((tensors[0] == size).all() and (tensors[1] == 10 * size).all())
