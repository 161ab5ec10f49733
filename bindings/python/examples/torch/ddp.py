"""DistributedDataParallel on CPUs: torchrun --nproc-per-node 2 ddp.py"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("dfccl")
torch.manual_seed(0)
model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
chance = torch.Generator().manual_seed(dist.get_rank())
for step in range(100):
    inputs = torch.randn(32, 16, generator=chance)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0 and step % 33 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
dist.destroy_process_group()
