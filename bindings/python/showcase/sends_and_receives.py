"""Two ranks post sends and receives of several tensors in orders that do not match."""

import torch
import torch.distributed as dist
from start import end, join

rank = join()
peer = 1 - rank
counts = [10, 200, 3000, 100000]
sends = [(dist.isend, torch.full((count,), float(rank)), count) for count in counts]
receives = [(dist.irecv, torch.empty(count), count) for count in counts]
posts = sends + receives if rank == 0 else receives[::-1] + sends[::-1]
works = [post(tensor, peer, tag=counts.index(count)) for post, tensor, count in posts]
for work in works:
    work.wait()
end(all((tensor == peer).all() for _, tensor, _ in receives))
