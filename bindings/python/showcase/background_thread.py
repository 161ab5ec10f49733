"""A thread reduces metrics while the main thread reduces gradients."""

import threading

import torch
import torch.distributed as dist
from start import end, join

rank, size = join(), dist.get_world_size()
results = []


def reduce(count: int, times: int) -> None:
    for _ in range(times):
        tensor = torch.ones(count)
        dist.all_reduce(tensor)
        results.append(bool((tensor == size).all()))


metrics = threading.Thread(target=reduce, args=(7, 200))
metrics.start()
reduce(10000, 200)
metrics.join()
end(all(results))
