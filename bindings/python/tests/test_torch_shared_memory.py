"""Promises of tensors that share memory: outputs with elements in common are refused, and inputs
may overlap with outputs. Skipped without torch."""

from __future__ import annotations

import unittest

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

from support import Case
from torch_cases import on_ranks, refused


def shared_elements(rank, group):
    expanded = torch.zeros(1, 3).expand(2, 3)
    sliding = torch.zeros(4).unfold(0, 2, 1)
    skewed = torch.zeros(9).as_strided((3, 3), (1, 2))
    for tensor in (expanded, sliding, skewed):
        shape = list(tensor.shape)
        for call in (
            lambda: dist.all_reduce(tensor),
            lambda: dist.broadcast(tensor, 0),  # on each rank, not only where it would be written
            lambda: dist.reduce(tensor, 0),
            lambda: dist.recv(tensor, 1 - rank),
            lambda: dist.irecv(tensor, rank),
            lambda: dist.recv(tensor),
            lambda: dist.all_gather([tensor, torch.zeros(shape)], torch.zeros(shape)),
            lambda: dist.scatter(tensor, [torch.zeros(shape)] * 2 if rank == 0 else None, 0),
            lambda: dist.reduce_scatter_tensor(tensor, torch.zeros(2 * shape[0], shape[1])),
            lambda: dist.all_reduce_coalesced([torch.zeros(3), tensor]),
        ):
            refused(call, "share memory", str(list(tensor.stride())))
    received = torch.zeros(2, 3)
    if rank == 0:  # they can be sent
        dist.send(torch.arange(3.0).expand(2, 3), 1)
    else:
        dist.recv(received, 0)
        assert received.tolist() == [[0, 1, 2]] * 2, received


def interleaved_elements(rank, group):
    """Strides that cross, without a shared element."""
    memory = torch.zeros(8)
    tensor = memory.as_strided((2, 3), (3, 2))
    dist.all_gather([tensor, torch.zeros(2, 3)], torch.arange(6.0).view(2, 3) + 1)
    assert memory.tolist() == [1, 0, 2, 4, 3, 5, 0, 6], memory
    columns = torch.zeros(3, 2)
    dist.all_gather(list(columns.unbind(1)), torch.full((3,), float(rank)))
    assert columns.tolist() == [[0, 1]] * 3, columns


def shared_outputs(rank, group):
    memory = torch.zeros(6)
    for outputs in (
        [memory[:4]] * 2,
        [memory[:4], memory[2:]],
        [memory[:2], memory.view(3, 2).T[0]],
    ):
        count = outputs[0].numel(), outputs[1].numel()
        inputs = torch.ones(count[rank])
        refused(lambda: dist.all_gather(outputs, inputs), "outputs 0, 1 of 2 share memory")
        refused(
            lambda: dist.all_to_all(outputs, [torch.ones(2)] * 2), "outputs 0, 1 of 2 share memory"
        )
    refused(
        lambda: group.all_gather_single_coalesced([memory[:4], memory[2:]], [torch.ones(2)] * 2),
        "share memory",
    )
    refused(lambda: dist.all_reduce_coalesced([memory, memory[2:]]), "share memory")
    if rank == 0:
        refused(lambda: dist.gather(torch.ones(3), [memory[:3], memory[2:5]], 0), "share memory")
    in_order = torch.ones(2)
    dist.all_reduce(in_order)  # nothing was exchanged
    assert in_order.tolist() == [2, 2]


def inputs_in_outputs(rank, group):
    memory = torch.arange(6.0)
    dist.all_gather_into_tensor(memory[:4], memory[1:3])  # not where it would be in place
    assert memory.tolist() == [1, 2, 1, 2, 4, 5], memory
    memory = torch.arange(4.0) + 4 * rank
    dist.all_gather_into_tensor(memory, memory[2 * rank : 2 * rank + 2])  # in place
    assert memory.tolist() == [0, 1, 6, 7], memory
    memory = torch.arange(6.0)
    dist.reduce_scatter_tensor(memory[1:4], memory)
    assert memory[1:4].tolist() == [2 * each for each in range(3 * rank, 3 * rank + 3)], memory
    for splits in ([], [2, 2]):
        memory = torch.arange(4.0) + 10 * rank
        dist.all_to_all_single(memory, memory, splits, splits)
        assert memory.tolist() == [2 * rank, 2 * rank + 1, 2 * rank + 10, 2 * rank + 11], memory
    memory = torch.arange(5.0) + 10 * rank
    dist.all_to_all_single(memory[1:], memory[:4])
    assert memory[1:].tolist() == [2 * rank, 2 * rank + 1, 2 * rank + 10, 2 * rank + 11], memory
    pieces = list((torch.arange(2.0) + 10 * rank).split(1))
    dist.all_to_all(pieces, pieces)
    assert torch.cat(pieces).tolist() == [rank, rank + 10], pieces


def strides_differ(rank, group):
    values = torch.arange(16).view(4, 4)
    if rank == 0:
        dist.send(values.T, 1)
        dist.send(values.T[::2, 1:3], 1)
    else:
        whole, part = torch.zeros_like(values), torch.zeros(4, 8, dtype=torch.int64)[::2, ::4]
        dist.recv(whole, 0)
        dist.recv(part, 0)
        assert torch.equal(whole, values.T) and torch.equal(part, values.T[::2, 1:3])
    output = torch.zeros(2, 4).T
    dist.all_to_all_single(output, torch.arange(8.0).view(4, 2) + 10 * rank)
    want = torch.arange(8.0).view(4, 2)[2 * rank : 2 * rank + 2]
    assert torch.equal(output, torch.cat([want, want + 10])), output


OVERLAPS = [
    shared_elements,
    interleaved_elements,
    shared_outputs,
    inputs_in_outputs,
    strides_differ,
]


class SharedMemory(Case):
    def test_overlaps(self):
        self.assertEqual(on_ranks(OVERLAPS), [0, 0])


if __name__ == "__main__":
    unittest.main()
