"""DistributedDataParallel that goes on when a rank is killed.

python survive_ddp.py [--survive 0|1|2] [--kill RANK]

torchrun ends all processes of a host when one of them ends, so this program starts its ranks
itself. They meet at a file, so torch's store does not end with rank 0.
"""

import argparse
import multiprocessing
import os
import signal
import tempfile

import dfccl.torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS, KILLED_AT = 4, 60, 20


def step_of(model, inputs) -> torch.Tensor:
    """Computes the gradients of one step. Returns the mean of the ranks' losses."""
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    loss.backward()
    mean = loss.detach()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean


def train(rank: int, place: str, killed: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("dfccl", rank=rank, world_size=RANKS, init_method=f"file://{place}")
    torch.manual_seed(0)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    )
    # The hook divides by the number of ranks that took part in a step. Without the hook,
    # DistributedDataParallel divides by the number of ranks at the start.
    model.register_comm_hook(None, dfccl.torch.ddp_hook)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    chance = torch.Generator().manual_seed(rank)
    shown = 0
    for step in range(STEPS):
        if rank == killed and step == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        inputs = torch.randn(32, 16, generator=chance)
        optimizer.zero_grad()
        try:
            loss = step_of(model, inputs)
        except dfccl.torch.MembershipChanged as change:
            # All ranks that are left come here in the same step, and give it up
            lost = ", ".join(f"rank {each} {why}" for each, why in change.lost.items())
            print(f"process {rank}: step {step} is dropped in view {change.view}: {lost}")
            continue
        optimizer.step()
        size = dist.get_world_size()
        if dist.get_rank() == 0 and (size != shown or step % 20 == 19):
            print(f"step {step}: loss {loss.item():.3f}, {size} ranks", flush=True)
            shown = size

    # The parameters are equal on all ranks, to the last bit. Numbers change when a rank leaves.
    own = dist.get_rank()
    bits = torch.cat([each.detach().view(-1) for each in model.parameters()]).view(torch.int32)
    most, least = bits.clone(), bits.clone()
    dist.all_reduce(most, dist.ReduceOp.MAX)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    assert torch.equal(most, least), "parameters differ"
    print(f"process {rank}: rank {own} has the parameters of all", flush=True)
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--survive", default="2", choices=("0", "1", "2"))
    parser.add_argument("--kill", type=int, default=1, metavar="RANK")
    options = parser.parse_args()
    os.environ["DFCCL_TORCH_SURVIVE"] = options.survive
    new = multiprocessing.get_context("forkserver")  # which imports torch once for all ranks
    new.set_forkserver_preload(["torch.distributed"])
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            new.Process(target=train, args=(rank, os.path.join(folder, "store"), options.kill))
            for rank in range(RANKS)
        ]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
    others = [process.exitcode for rank, process in enumerate(ranks) if rank != options.kill]
    return int(any(others))


if __name__ == "__main__":
    raise SystemExit(main())
