"""Two DistributedDataParallel models, called in an order that depends on the rank, and one backward
for both."""

import torch
from start import end, join
from torch.nn.parallel import DistributedDataParallel

rank = join()
torch.manual_seed(0)
models = [DistributedDataParallel(torch.nn.Linear(width, width)) for width in (50, 60)]
inputs = [torch.full((4, width), float(rank + 1)) for width in (50, 60)]
order = (0, 1) if rank == 0 else (1, 0)
sum(models[at](inputs[at]).sum() for at in order).backward()
wanted = 4 * 1.5  # 4 rows, times the mean of ranks 0 and 1
end(all((model.module.weight.grad == wanted).all() for model in models))
