"""Promises of torch.distributed over dfccl about tensors: the values of a tensor are sent, not its
bytes; results reach each tensor that can have them, in any mode and thread; a tensor that cannot
be sent or written is refused before anything is exchanged. Skipped without torch."""

from __future__ import annotations

import threading
import unittest

try:
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional
    from torch._subclasses import FakeTensorMode
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

from support import Case
from torch_cases import on_ranks, refused


def complex_values(rank: int = 0) -> torch.Tensor:
    return torch.tensor([1 + 2j, 3 - 4j]) * (rank + 1)


CONJUGATE = complex_values().conj().resolve_conj()


def root(rank: int):
    options = dist.BroadcastOptions()
    options.rootRank = rank
    return options


# ---- values that the bytes do not show


def conjugate_broadcast(rank, group):
    tensor = complex_values().conj() if rank == 0 else torch.zeros(2, dtype=torch.complex64)
    group.broadcast([tensor], root(0)).wait()
    assert torch.equal(tensor.resolve_conj(), CONJUGATE), tensor


def conjugate_is_written(rank, group):
    tensor = complex_values() if rank == 0 else torch.zeros(2, dtype=torch.complex64).conj()
    group.broadcast([tensor], root(0)).wait()
    assert torch.equal(tensor.resolve_conj(), complex_values()), tensor


def conjugate_messages(rank, group):
    if rank == 0:
        group.send([complex_values().conj()], 1, 0).wait()
    else:
        tensor = torch.zeros(2, dtype=torch.complex64)
        group.recv([tensor], 0, 0).wait()
        assert torch.equal(tensor, CONJUGATE), tensor


def conjugate_reductions(rank, group):
    tensor = complex_values().conj() if rank == 0 else CONJUGATE.clone()
    group.allreduce([tensor], dist.AllreduceOptions()).wait()
    assert torch.equal(tensor.resolve_conj(), 2 * CONJUGATE), tensor
    tensor, options = complex_values().conj(), dist.ReduceOptions()
    group.reduce([tensor], options).wait()
    assert rank == 1 or torch.equal(tensor.resolve_conj(), 2 * CONJUGATE), tensor
    output = torch.zeros(1, dtype=torch.complex64).conj()
    pieces = list(complex_values().conj().split(1))
    group.reduce_scatter([output], [pieces], dist.ReduceScatterOptions()).wait()
    assert output.item() == 2 * CONJUGATE[rank].item(), output
    group.reduce_scatter_single(output, complex_values().conj(), dist.ReduceScatterOptions()).wait()
    assert output.item() == 2 * CONJUGATE[rank].item(), output


def conjugate_gathers(rank, group):
    both = torch.cat([CONJUGATE, 2 * CONJUGATE])
    pieces = list(torch.zeros(4, dtype=torch.complex64).conj().chunk(2))
    group.allgather([pieces], [complex_values(rank).conj()]).wait()
    assert torch.equal(torch.cat(pieces), both), pieces
    whole = torch.zeros(4, dtype=torch.complex64)
    group.all_gather_single(whole, complex_values(rank).conj()).wait()
    assert torch.equal(whole, both), whole
    result = functional.all_gather_tensor(complex_values(rank).conj(), 0, group)
    assert torch.equal(functional.wait_tensor(result), both), result
    pieces = [torch.zeros(2, dtype=torch.complex64) for _ in range(2)] if rank == 0 else []
    group.gather([pieces], [complex_values(rank).conj()], dist.GatherOptions()).wait()
    assert rank == 1 or torch.equal(torch.cat(pieces), both), pieces


def conjugate_scatters(rank, group):
    output = torch.zeros(2, dtype=torch.complex64)
    inputs = [[complex_values().conj()] * 2] if rank == 0 else []
    group.scatter([output], inputs, dist.ScatterOptions()).wait()
    assert torch.equal(output, CONJUGATE), output
    group.all_to_all_single(output, complex_values().conj(), [], []).wait()
    assert torch.equal(output, CONJUGATE[rank].repeat(2)), output
    group.all_to_all_single(output, complex_values().conj(), [1, 1], [1, 1]).wait()
    assert torch.equal(output, CONJUGATE[rank].repeat(2)), output
    outputs = list(torch.zeros(2, dtype=torch.complex64).conj().split(1))
    group.alltoall(outputs, list(complex_values().conj().split(1))).wait()
    assert torch.equal(torch.cat(outputs), CONJUGATE[rank].repeat(2)), outputs


def negative_of_the_fast_path(rank, group):
    """The second call of a signature does not check what the first call has checked."""
    dist.all_reduce(torch.ones(4))
    tensor = torch._neg_view(torch.arange(4.0)) if rank == 0 else torch.arange(4.0)
    dist.all_reduce(tensor)
    assert torch.equal(tensor + 0, torch.zeros(4)), tensor


def negative_of_one_element(rank, group):
    """The imaginary part of one conjugate number is contiguous."""
    tensor = torch.tensor([1 + 2j]).conj().imag
    assert tensor.is_neg() and tensor.is_contiguous()
    whole = torch.zeros(2)
    dist.all_gather_into_tensor(whole, tensor)
    assert whole.tolist() == [-2, -2], whole
    scalar = torch._neg_view(torch.tensor(3.0))
    dist.all_reduce(scalar)
    assert scalar.item() == -6, scalar


def negative_is_written(rank, group):
    output = torch._neg_view(torch.zeros(3))
    if rank == 0:
        dist.send(torch.arange(3.0), 1)
    else:
        dist.recv(output, 0)
        assert output.tolist() == [0, 1, 2], output
    outputs = [torch._neg_view(torch.zeros(2)) for _ in range(2)]
    dist.all_gather(outputs, torch._neg_view(torch.full((2,), rank + 1.0)))
    assert torch.cat(outputs).tolist() == [-1, -1, -2, -2], outputs


def zeros_without_memory(rank, group):
    whole = torch.ones(6)
    dist.all_gather_into_tensor(whole, torch._efficientzerotensor(3))
    assert (whole == 0).all(), whole
    refused(lambda: dist.all_reduce(torch._efficientzerotensor(3)), "float32[3]", "zero")


def results_of_functional_collectives(rank, group):
    """Such a result stands for a tensor that is not complete yet, and has no memory."""

    def result():
        return functional.all_reduce(torch.ones(3), "sum", group)

    tensor = result()
    dist.all_reduce(tensor)
    assert tensor.tolist() == [4] * 3, tensor
    whole = torch.zeros(6)
    dist.all_gather_into_tensor(whole, result())
    assert whole.tolist() == [2] * 6, whole
    tensor = result() + rank
    dist.broadcast(tensor, 1)
    assert tensor.tolist() == [3] * 3, tensor


class Marked(torch.Tensor):
    """A subclass that says more than its memory: all of its methods return tens."""

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        result = super().__torch_function__(function, types, arguments, named or {})
        if function.__name__ in ("contiguous", "reshape", "view", "clone"):
            return torch.full_like(result, 10)
        return result


def subclass_with_overridden_methods(rank, group):
    whole = torch.zeros(4, 2)
    group.all_gather_single(whole, torch.ones(2, 2).T.as_subclass(Marked)).wait()
    assert (whole == 1).all(), whole
    output = torch.zeros(2, 2).T.as_subclass(Marked)
    group.broadcast([output if rank else torch.ones(2, 2)], root(0)).wait()
    assert (output.as_subclass(torch.Tensor) == rank).all(), output


def lazy_clone(rank, group):
    """Tensors that share memory until one of them is written."""
    original = torch.ones(4)
    copy = torch._lazy_clone(original)
    dist.all_reduce(copy)
    assert copy.tolist() == [2] * 4 and original.tolist() == [1] * 4, (copy, original)


def memory_that_is_not_aligned(rank, group):
    tensor = torch.frombuffer(bytearray(17), dtype=torch.float32, offset=1, count=4)
    for value in (1, 2):
        tensor.fill_(value)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [2 * value] * 4, tensor
    pair = torch.frombuffer(bytearray(20), dtype=torch.complex64, offset=4, count=2)
    pair.copy_(complex_values(rank))
    dist.broadcast(pair, 1)
    assert torch.equal(pair, complex_values(1)), pair


def another_default_device(rank, group):
    pieces = [torch.zeros(2) for _ in range(2)]
    with torch.device("meta"):
        group.allgather([pieces], [torch.full((2,), float(rank), device="cpu")]).wait()
        group.broadcast([pieces[0].view(2, 1).T], root(0)).wait()
    assert torch.cat(pieces).tolist() == [0, 0, 1, 1], pieces


VALUES = [
    conjugate_broadcast,
    conjugate_is_written,
    conjugate_messages,
    conjugate_reductions,
    conjugate_gathers,
    conjugate_scatters,
    negative_of_the_fast_path,
    negative_of_one_element,
    negative_is_written,
    zeros_without_memory,
    results_of_functional_collectives,
    subclass_with_overridden_methods,
    lazy_clone,
    memory_that_is_not_aligned,
    another_default_device,
]

# ---- tensors whose values are elsewhere


def _strange(rank):
    mesh = init_device_mesh("cpu", (2,))
    freed = torch.ones(4)
    freed.untyped_storage().resize_(0)
    with FakeTensorMode():
        fake = torch.ones(4)
    parts = [torch.ones(2), torch.ones(3)]
    return [
        (torch.ones(4).to_sparse(), "sparse_coo"),
        (torch.ones(2, 2).to_sparse_csr(), "sparse_csr"),
        (torch.ones(4, 1).to_mkldnn(), "mkldnn"),
        (torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8), "quint8"),
        (torch.nested.nested_tensor(parts), "nested"),
        (torch.nested.nested_tensor(parts, layout=torch.jagged), "NestedTensor"),
        (DTensor.from_local(torch.ones(4), mesh, [Shard(0)]), "DTensor"),
        (torch.nn.Parameter(DTensor.from_local(torch.ones(4), mesh, [Shard(0)])), "DTensor"),
        (torch.ones(4, device="meta"), "meta"),
        (torch._to_functional_tensor(torch.ones(4)), "Functionalize"),
        (fake, "FakeTensor"),
        (freed, "float32[4]"),
    ]


def strange_tensors(rank, group):
    dist.all_reduce(torch.ones(4))  # the fast path refuses them, too
    for tensor, word in _strange(rank):
        for call in (
            lambda: group.allreduce([tensor], dist.AllreduceOptions()),
            lambda: group.broadcast([tensor], root(0)),
            lambda: group.reduce([tensor], dist.ReduceOptions()),
            lambda: group.all_gather_single(torch.zeros(8), tensor),
            lambda: group.allgather([[torch.zeros(4), tensor]], [torch.ones(4)]),
            lambda: group.reduce_scatter(
                [torch.zeros(4)], [[torch.ones(4), tensor]], dist.ReduceScatterOptions()
            ),
            lambda: group.send([tensor], 1 - rank, 0),
            lambda: group.recv([tensor], 1 - rank, 0),
            lambda: group.recv_anysource([tensor], 0),
            lambda: group.send([tensor], rank, 0),
            lambda: group.alltoall([torch.zeros(4), tensor], [torch.zeros(4)] * 2),
        ):
            refused(call, word)
    in_order = torch.ones(2)
    dist.all_reduce(in_order)  # nothing was exchanged
    assert in_order.tolist() == [2, 2]


def transforms(rank, group):
    def reduced(tensor):
        dist.all_reduce(tensor)
        return tensor.sum()

    dist.all_reduce(torch.ones(2))
    refused(lambda: torch.func.vmap(reduced)(torch.ones(3, 2)), "vmap")
    refused(lambda: torch.func.grad(reduced)(torch.ones(2)), "transform")


STRANGE = [strange_tensors, transforms]

# ---- completion under any mode


def parameters(rank, group):
    """Leaves that require gradients, and are not contiguous."""
    parameter = torch.nn.Parameter(torch.full((2, 3), float(rank)).T)
    dist.broadcast(parameter, 1)
    assert (parameter == 1).all() and parameter.is_leaf
    dist.all_reduce(parameter)
    assert (parameter == 2).all()
    outputs = [torch.nn.Parameter(torch.zeros(3, 2)) for _ in range(2)]
    dist.all_gather(outputs, parameter + rank)
    assert [float(each[0, 0].detach()) for each in outputs] == [2, 3]


def parameter_waited_elsewhere(rank, group):
    parameter = torch.nn.Parameter(torch.full((2, 3), float(rank)).T)
    with torch.no_grad():
        work = dist.broadcast(parameter, 1, async_op=True)
    work.wait()
    assert (parameter == 1).all()
    with torch.no_grad():
        future = dist.all_reduce(parameter, async_op=True).get_future()
    future.wait()
    assert (parameter == 2).all()


def views_of_a_leaf(rank, group):
    """Views of several, which autograd does not allow to be written in place."""
    base = torch.zeros(4, requires_grad=True)
    dist.all_gather(list(base.unbind()[:2]), torch.tensor(rank + 1.0))
    assert base.tolist() == [1, 2, 0, 0], base
    halves = base.view(2, 2).T.split(1)
    if rank == 0:
        dist.send(torch.full((2,), 7.0), 1)
    else:
        dist.recv(halves[1].view(2), 0)
        assert base.tolist() == [1, 7, 0, 7], base


def inference_waited_elsewhere(rank, group):
    with torch.inference_mode():
        outputs = [torch.zeros(3) for _ in range(2)]
        work = dist.all_gather(outputs, torch.full((3,), float(rank)), async_op=True)
        strided = torch.zeros(2, 4)[:, ::2]
        reduced = dist.reduce_scatter_tensor(strided, torch.ones(8), async_op=True)
        transposed = torch.ones(4, 6).T
    work.wait()
    assert [float(each[0]) for each in outputs] == [0, 1]
    reduced.get_future().wait()
    assert (strided == 2).all()
    dist.all_reduce(transposed)
    assert (transposed == 2).all()


def normal_tensors_waited_in_inference_mode(rank, group):
    """Autograd must see that a saved tensor has changed."""
    tensor = torch.ones(2, 3, requires_grad=True)
    saved = tensor.detach().T
    product = (tensor * saved.T).sum()
    with torch.inference_mode():
        dist.all_reduce(saved)
    assert (saved == 2).all()
    try:
        product.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error), error
    else:
        raise AssertionError("a saved tensor was replaced unseen")


def waited_in_another_thread(rank, group):
    parameter = torch.nn.Parameter(torch.full((2, 3), float(rank)).T)
    with torch.inference_mode():
        of_inference = torch.full((2, 3), float(rank)).T
        works = [dist.broadcast(each, 1, async_op=True) for each in (parameter, of_inference)]
    failures = []

    def body():
        try:
            for work in works:
                work.wait()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert not failures, failures
    assert (parameter == 1).all() and (of_inference == 1).all()


def callbacks_have_the_modes_of_the_call(rank, group):
    with torch.inference_mode():
        tensor = torch.full((3,), rank + 1.0)
        future = dist.all_reduce(tensor, async_op=True).get_future()
        halved = future.then(lambda done: done.value()[0].div_(2))
    assert halved.wait().tolist() == [1.5] * 3
    parameter = torch.nn.Parameter(torch.ones(3))
    with torch.no_grad():
        future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
        added = future.then(lambda done: parameter.add_(done.value()[0]))
    added.wait()
    assert parameter.tolist() == [3] * 3


MODES = [
    parameters,
    parameter_waited_elsewhere,
    views_of_a_leaf,
    inference_waited_elsewhere,
    normal_tensors_waited_in_inference_mode,
    waited_in_another_thread,
    callbacks_have_the_modes_of_the_call,
]


class Tensors(Case):
    def _on(self, cases) -> None:
        self.assertEqual(on_ranks(cases), [0, 0])

    def test_values_that_bytes_do_not_show(self):
        self._on(VALUES)

    def test_values_elsewhere_are_refused(self):
        self._on(STRANGE)

    def test_completion_under_any_mode(self):
        self._on(MODES)


if __name__ == "__main__":
    unittest.main()
