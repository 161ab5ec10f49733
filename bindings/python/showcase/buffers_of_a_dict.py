"""Buffers are broadcast in the order of a dict, which differs from rank to rank."""

import torch
import torch.distributed as dist
from start import end, join

rank = join()
sizes = {"running_mean": 64, "running_var": 128, "position": 1000, "mask": 5000}
keys = list(sizes) if rank == 0 else list(reversed(sizes))
buffers = {key: torch.full((sizes[key],), float(rank)) for key in keys}
for key in buffers:
    buffers[key] = buffers[key] + 1
works = [dist.broadcast(buffer, 0, async_op=True) for buffer in buffers.values()]
for work in works:
    work.wait()
end(all((buffer == 1).all() for buffer in buffers.values()))
