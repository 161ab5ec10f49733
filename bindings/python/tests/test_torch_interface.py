"""Promises of the process group's interface: it takes every form of every method of torch's process
group and of its backend, by position and by name; a method that it does not have is refused with
the reason; hooks are called; time limits of calls hold. Skipped without torch."""

from __future__ import annotations

import datetime
import os
import unittest
from collections.abc import Callable
from functools import partial
from typing import Any

try:
    import torch
    import torch.distributed as dist
    from torch._C import _distributed_c10d as c10d
    from torch.testing._internal.distributed.fake_pg import _create_fake_pg
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl
import dfccl.torch
from dfccl.torch import interface
from support import Case, meeting_place, on_processes
from torch_cases import on_ranks, refused
from torch_forms import LIMIT, OPERATIONS, call_all, has_values, methods, overloads, properties

dist.Backend.register_backend(
    "other",
    _create_fake_pg,
    True,
    ["cuda", "meta"],
    _backend_type=dist.ProcessGroup.BackendType.UCC,
)

CPU = torch.device("cpu")


# ---- on the ranks


def _join(rank: int, size: int, place: str, backend: str = "dfccl", **more: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        backend,
        rank=rank,
        world_size=size,
        init_method=f"file://{place}",
        timeout=datetime.timedelta(seconds=30),
        **more,
    )


def _forms(rank: int, size: int, place: str, backend: str) -> None:
    _join(rank, size, place, backend)
    group = dist.group.WORLD
    failed = call_all(group, c10d.ProcessGroup, rank)
    of_device = group._get_backend(CPU)
    failed += call_all(of_device, c10d.Backend, rank)
    if backend == "gloo":  # torch's own group shows that the calls are right
        failed = [each for each in failed if "gather_single" not in each]
        failed = [each for each in failed if "gather_into_tensor" not in each]
        failed = [each for each in failed if "oes not support" not in each]
    assert not failed, "\n".join(failed)
    dist.destroy_process_group()


def _messages(rank: int, group: Any) -> None:
    for by_name in (False, True):
        tensor = torch.full((3,), float(rank))
        if rank == 0:
            work = (
                group.send(tensors=[tensor], dstRank=1, tag=5)
                if by_name
                else group.send([tensor], 1, 5)
            )
        else:
            work = (
                group.recv(tensors=[tensor], srcRank=0, tag=5)
                if by_name
                else group.recv([tensor], 0, 5)
            )
        work.wait()
        has_values(tensor, 0)
    tensor = torch.full((3,), float(rank))
    (group.send((tensor,), 1, 0) if rank == 0 else group.recv_anysource([tensor], 0)).wait()
    has_values(tensor, 0)


class _Sequence:
    """A sequence of a program's own class."""

    def __init__(self, values: list[Any]):
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, at: int) -> Any:
        return self._values[at]


def _other_forms(rank: int, group: Any) -> None:
    """Other arguments of Python: tuples, subclasses, numbers of numpy, None, seconds."""
    import numpy

    tensor = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    group.allreduce((tensor,), None).wait()
    has_values(tensor, 2)
    group.allreduce(tensor, timeout=20.0).wait()
    has_values(tensor, 4)
    group.allreduce([tensor], op=dist.ReduceOp.RedOpType.MAX, timeout=None).wait()
    has_values(tensor, 4)
    group.broadcast(tensor, numpy.int64(1)).wait()
    group.broadcast(tensor, root=torch.tensor(1)).wait()
    output = torch.zeros(4)
    for rows in (torch.Size([1, 1]), (1, 1), numpy.array([1, 1]), _Sequence([1, 1])):
        output.zero_()
        group.alltoall_base(output.view(2, 2), torch.ones(2, 2), rows, rows).wait()
        has_values(output, 1)
    group.allreduce(_Sequence([output])).wait()
    has_values(output, 2)
    group.set_timeout(30.0)
    assert group.timeout() == datetime.timedelta(seconds=30)
    group.monitored_barrier(20.0)
    pieces = (torch.zeros(3), torch.zeros(3))
    group.gather(pieces if rank == 0 else (), torch.ones(3), 0).wait()
    group.gather([], [torch.ones(3)]) if rank else group.gather([pieces], [torch.ones(3)])
    group.gather_single(
        torch.zeros(6, 2)[:, 0] if rank == 0 else torch.empty(0), torch.ones(3)
    ).wait()
    group.monitored_barrier()
    group.monitored_barrier(LIMIT, True)
    group.monitored_barrier(timeout=LIMIT, wait_all_ranks=True)
    group._start_coalescing(device_type=CPU)
    group.allreduce(tensor)
    group.allreduce(output, dist.ReduceOp.MAX)
    group._end_coalescing(device_type=CPU).wait()
    has_values(tensor, 8)


def _wrong_arguments(rank: int, group: Any) -> None:
    one = torch.ones(3)
    takes = "broadcast of a process group dfccl was called", "it takes (tensors: list of tensors"
    for call in (
        lambda: group.broadcast(),
        lambda: group.broadcast(1),
        lambda: group.broadcast(one),  # a single tensor needs a root
        lambda: group.broadcast([one], 1),
        lambda: group.broadcast([one], dist.AllreduceOptions()),
        lambda: group.broadcast(one, "first"),
        lambda: group.broadcast(one, 0, LIMIT, 1),
        lambda: group.broadcast(one, 0, root=0),
        lambda: group.broadcast(one, source=0),
        lambda: group.broadcast([one, "x"], root=0),
        lambda: group.broadcast([one], {}),
        lambda: group.broadcast({0: one}),
        lambda: group.broadcast(one, 0.0),
        lambda: group.broadcast(one, None),
        lambda: group.broadcast(one, 0, timeout=5),
    ):
        refused(call, *takes, error=TypeError)
    refused(
        lambda: group.allgather([one], [one, "x"]),
        "called with (list of 1 (Tensor), list of 2 (Tensor, str))",
        "or (output_tensors: list of tensors, input_tensor: tensor, timeout: timedelta)",
        error=TypeError,
    )
    refused(lambda: group.allreduce("all"), "called with (str)", error=TypeError)
    refused(lambda: group.broadcast(one, 2), "broadcast: root 2 in a group of 2")
    refused(lambda: group.broadcast(one, -1), "root -1")
    refused(lambda: group.reduce(one, 7), "reduce: root 7 in a group of 2")
    refused(lambda: group.gather([], one, root=2), "gather: root 2")
    refused(lambda: group.scatter(one, [], 3), "scatter: root 3")
    refused(lambda: group.send([one], 2, 0), "send: rank 2 in a group of 2")
    refused(lambda: group.recv([one], -1, 0), "recv: rank -1")
    refused(lambda: group.send([one], 1, -3), "tag -3 is negative")
    refused(lambda: group.recv_anysource([one], -3), "tag -3 is negative")
    refused(lambda: group.send([one, one], 1, 0), "send: 2 tensors")
    refused(lambda: group.reduce([one, one.clone()]), "reduce: 2 tensors")
    refused(lambda: group.reduce_scatter([one], [[one] * 2] * 2), "reduce_scatter: 2 tensors")
    refused(lambda: group.allgather([[one] * 2], []), "all_gather: 0 tensors")
    refused(lambda: group.alltoall([one], [one]), "1 inputs and 1 outputs", "group of 2")
    refused(lambda: group.all_gather_single_coalesced([one], []), "0 inputs and 1 outputs")
    refused(lambda: group.reduce_scatter_single_coalesced([], [one]), "1 inputs and 0 outputs")
    refused(lambda: group.allgather_coalesced([[one]], [one]), "group of 2")
    options = dist.BroadcastOptions()
    options.rootTensor = 1
    refused(lambda: group.broadcast([one], options), "rootTensor is 1")
    refused(lambda: group.split_group([0, 2]), "ranks [0, 2] in a group of 2")
    refused(lambda: group.split_group([0, 0]), "ranks [0, 0]")
    refused(lambda: group.split_group([]), "ranks []")
    refused(
        lambda: group.end_coalescing(), "has not called start_coalescing", error=dfccl.InvalidUsage
    )


# Methods of torch's group and backend that are no operations, and how each is called.
OTHERS: dict[str, Callable[[Any], Any]] = {
    "_add_ephemeral_timeout": lambda group: group._add_ephemeral_timeout(LIMIT),
    "_backend_id": lambda group: group._backend_id(dist.ProcessGroup.BackendType.CUSTOM),
    "_enable_collectives_timing": lambda group: group._enable_collectives_timing(),
    "_get_backend": lambda group: group._get_backend(device=CPU),
    "_get_backend_name": lambda group: group._get_backend_name() == "dfccl",
    "_get_sequence_number_for_group": lambda group: group._get_sequence_number_for_group(),
    "_has_hooks": lambda group: group._has_hooks(),
    "_id": lambda group: group._id(),
    "_set_default_backend": lambda group: group._set_default_backend(
        backend_type=dist.ProcessGroup.BackendType.CUSTOM
    ),
    "_set_group_desc": lambda group: group._set_group_desc(group.group_desc),
    "_set_group_name": lambda group: group._set_group_name(group.group_name),
    "_set_group_uid": lambda group: group._set_group_uid("0"),
    "_set_sequence_number_for_group": lambda group: group._set_sequence_number_for_group(),
    "_wait_for_pending_works": lambda group: group._wait_for_pending_works(),
    "boxed": lambda group: dist.ProcessGroup.unbox(group.boxed()) is group,
    "eager_connect_single_device": lambda group: group.eager_connect_single_device(CPU),
    "get_backend": lambda group: group.get_backend(device=CPU),
    "get_error": lambda group: group.get_error() == c10d.ErrorType.SUCCESS,
    "get_group_store": lambda group: group.get_group_store().check(["nothing"]),
    "name": lambda group: group.name() == "dfccl",
    "rank": lambda group: group.rank() in (0, 1),
    "setUsePgForSymmMemRendezvous": lambda group: group.setUsePgForSymmMemRendezvous(False),
    "set_timeout": lambda group: group.set_timeout(timeout=datetime.timedelta(seconds=30)),
    "size": lambda group: group.size() == 2,
    "supports_tensor_alloc": lambda group: group.supports_tensor_alloc(CPU),
}
# Covered by tests of their own
ELSEWHERE = {
    "send", "recv", "recv_anysource", "monitored_barrier", "_start_coalescing", "_end_coalescing",
    "split_group", "split", "abort", "shutdown", "unbox",
    "register_pre_hook", "unregister_pre_hook", "register_post_hook", "unregister_post_hook",
    "register_abort_hook", "unregister_abort_hook",
}  # fmt: skip
PROPERTIES = {
    "_device_types": [CPU],
    "_supports_time_estimate": False,
    "bound_device_id": None,
    "group_desc": "default_pg",
    "group_name": "0",
    "supports_abort_hooks": True,
    "supports_coalescing": False,
    "supports_completion_hooks": False,
    "supports_reconfigure": False,
    "supports_shrinking": False,
    "supports_splitting": True,
    "supports_window": False,
    "use_pg_for_symm_mem_rendezvous": False,
}


def _other_methods(rank: int, group: Any) -> None:
    for name, call in OTHERS.items():
        try:
            assert call(group) is not NotImplemented
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error
    for name in ("_get_backend_name", "boxed", "get_error", "name", "rank", "size"):
        assert OTHERS[name](group) is True, name
    for name, value in PROPERTIES.items():
        assert getattr(group, name) == value, (name, getattr(group, name))
    assert group.options.backend == "dfccl" and group.options._timeout == group.timeout()
    for name in interface.refused:
        refused(
            getattr(group, name), f"{name} of a process group dfccl: ", error=dfccl.InvalidUsage
        )
    refused(lambda: group.mem_allocator, "mem_allocator", error=dfccl.InvalidUsage)
    refused(lambda: group.setUsePgForSymmMemRendezvous(True), "symmetric", error=dfccl.InvalidUsage)
    far = torch.device("cuda:1")
    for method in (group.get_backend, group._get_backend, group.eager_connect_single_device):
        refused(partial(method, far), "no backend for cuda:1", error=dfccl.InvalidUsage)
    gloo = dist.ProcessGroup.BackendType.GLOO
    refused(lambda: group._set_default_backend(gloo), "GLOO", error=dfccl.InvalidUsage)
    half = group.split(group.get_group_store(), [rank], group.options)
    assert half.size() == 1
    half.shutdown()


def _works(rank: int, group: Any) -> None:
    work = group.allreduce(torch.ones(3), timeout=LIMIT)
    assert work.timeout == LIMIT
    assert work.wait(timeout=LIMIT) and work.is_completed() and work.is_success()
    work.synchronize()
    work.block_current_stream()
    assert work.exception() is None and work.source_rank() == work._source_rank() == -1
    has_values(work.result()[0], 2)
    has_values(work.get_future().wait()[0], 2)
    assert c10d.WorkResult(work.get_future_result().wait()) == c10d.WorkResult.SUCCESS
    assert dist.Work.unbox(work.boxed()) is work
    assert work._get_sequence_number() > 0 and isinstance(work._get_op_type(), int)
    refused(lambda: work._get_duration(), "getDuration", error=RuntimeError)
    assert group.allreduce(torch.ones(3)).timeout == group.timeout()


def _hooks(rank: int, group: Any) -> None:
    calls = []

    def before(arguments: Any) -> None:
        calls.append(("before", arguments))

    def after(arguments: Any) -> None:
        calls.append(("after", arguments))

    group.register_pre_hook(1, before)
    group.register_post_hook(hook_id=1, hook=after)
    tensor = torch.ones(3)
    dist.broadcast(tensor, 1)
    outputs = [torch.zeros(3), torch.zeros(3)]
    work = dist.all_gather(outputs, tensor, async_op=True)
    work.wait()
    if rank == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)
    group.unregister_pre_hook(1)
    group.unregister_post_hook(hook_id=1)
    dist.all_reduce(tensor)
    names = [str(each.name).rpartition(".")[2] for _, each in calls]
    last = "SEND" if rank == 0 else "RECV"
    assert names == ["BROADCAST"] * 2 + ["ALLGATHER"] * 2 + [last] * 2, names
    for (when, first), (then, second) in zip(calls[::2], calls[1::2]):
        assert (when, then) == ("before", "after") and first.op_id == second.op_id
        assert first.async_op == second.async_op and second.work is not None
    broadcast, gather, message = (arguments for _, arguments in calls[::2])
    assert broadcast.root == 1 and broadcast.input_tensors[0] is tensor
    assert not broadcast.async_op and gather.async_op and calls[3][1].work is work
    assert gather.input_tensors[0] is tensor and len(gather.output_tensors) == 2
    assert len(message.input_tensors) == (1 if rank == 0 else 0) and message.root == 1 - rank

    def stop(_: Any) -> None:
        raise ValueError("not now")

    group.register_pre_hook(2, stop)
    refused(lambda: dist.all_reduce(tensor), "not now", error=ValueError)
    group.unregister_pre_hook(2)


def _not_a_number(rank: int, size: int, place: str) -> None:
    """TORCH_DIST_NAN_CHECK=1 checks what is sent, and not the memory that a result replaces."""
    os.environ["TORCH_DIST_NAN_CHECK"] = "1"
    _join(rank, size, place)
    bad, good = torch.tensor([1.0, float("nan")]), torch.ones(2)
    both = [torch.zeros(2), torch.zeros(2)]
    for call in (
        lambda: dist.all_reduce(bad.bfloat16()),
        lambda: dist.all_gather(both, bad),
        lambda: dist.send(bad, 1 - rank),
        lambda: dist.all_reduce(torch.tensor([complex(1, float("nan"))])),
        lambda: dist.broadcast(bad, rank),
    ):
        refused(call, "NaN found in input tensor", error=RuntimeError)
    own = dist.split_group(split_ranks=[[0], [1]])
    refused(lambda: dist.all_reduce(bad, group=own), "NaN found", error=RuntimeError)
    for tensor in (good, torch.tensor([1.0, float("inf")]), torch.tensor([1, 2])):
        dist.all_reduce(tensor)
    dist.all_gather([torch.full((2,), float("nan")) for _ in range(2)], good)
    dist.broadcast(good if rank == 0 else bad, 0)
    dist.destroy_process_group()


def _time_limits(rank: int, group: Any) -> None:
    """A call's own limit ends its wait, in all forms, with or without a future."""
    short = datetime.timedelta(seconds=0.3)
    options = dist.BroadcastOptions()
    options.timeout = short
    late = []
    pair = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=60))
    pair.register_abort_hook(1, lambda: late.append("late"))
    if rank == 0:
        for call in (
            lambda: pair.broadcast([torch.ones(5)], options),
            lambda: pair.broadcast(torch.ones(6), 0, short),
            lambda: pair.allreduce(torch.ones(7), timeout=short),
            lambda: pair.gather([torch.ones(8)] * 0 or [torch.zeros(8), torch.zeros(8)],
                                torch.ones(8), 0, short),
            lambda: pair.barrier(timeout=short),
        ):  # fmt: skip
            work = call()
            refused(work.wait, "after 0.3 s", "rank 1", error=dfccl.Timeout)
        work = pair.allreduce(torch.ones(9), timeout=short)
        refused(lambda: work.get_future().wait(), "after 0.3 s", "rank 1", error=RuntimeError)
        kind = c10d.WorkResult(work.get_future_result().wait())
        assert kind == c10d.WorkResult.TIMEOUT, kind
        assert pair.get_error() == c10d.ErrorType.TIMEOUT and late
    dist.barrier()
    late.clear()
    pair.abort()
    assert late
    pair.unregister_abort_hook(1)
    dist.destroy_process_group(pair)


def _devices(rank: int, size: int, place: str) -> None:
    """A group that is bound to a device, and groups that are made from it."""
    _join(rank, size, place, device_id=torch.device("cpu:0"))
    assert dist.group.WORLD.bound_device_id == torch.device("cpu:0")
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    has_values(tensor, 2)
    for ranks in ([0], [1], [1, 0]):  # a rank that is left out calls perform_nocolor_split
        group = dist.new_group(ranks)
        if rank in ranks:
            tensor = torch.ones(2)
            dist.all_reduce(tensor, group=group)
            has_values(tensor, len(ranks))
    half = dist.split_group(split_ranks=[[0], [1]])
    dist.all_reduce(tensor, group=half)
    assert half.bound_device_id == torch.device("cpu:0")
    dist.barrier()
    dist.destroy_process_group()


def _device_of_a_pair(rank: int, size: int, place: str) -> None:
    _join(rank, size, place, "cpu:dfccl,cuda:other", device_id=torch.device("cpu:0"))
    for ranks in ([0, 1], [1]):
        group = dist.new_group(ranks)
        if rank in ranks:
            tensor = torch.ones(2)
            dist.all_reduce(tensor, group=group)
            has_values(tensor, len(ranks))
    dist.barrier()
    dist.destroy_process_group()


def _pair(rank: int, size: int, place: str) -> None:
    """The backend of one device in a group of C++."""
    _join(rank, size, place, "cpu:dfccl,meta:other")
    of_device = dist.group.WORLD._get_backend(CPU)
    assert isinstance(of_device, dfccl.torch.Backend)
    failed = call_all(of_device, c10d.Backend, rank)
    assert not failed, "\n".join(failed)
    for name in interface.refused:
        refused(
            getattr(of_device, name), f"{name} of a process group dfccl: ", error=dfccl.InvalidUsage
        )
    of_device.monitored_barrier()
    of_device.monitored_barrier(timeout=LIMIT, wait_all_ranks=True)
    of_device.eager_connect_single_device(CPU)
    of_device.perform_nocolor_split(CPU)
    assert of_device.get_error() == c10d.ErrorType.SUCCESS
    aborts = []
    of_device.register_abort_hook(1, lambda: aborts.append(1))
    store = dist.distributed_c10d._get_default_store()
    store.set(f"rank {rank} aborts", "1")  # a barrier could be aborted by the other rank
    store.wait([f"rank {each} aborts" for each in range(size)])
    of_device.abort()
    assert aborts == [1]
    of_device.unregister_abort_hook(1)
    dist.destroy_process_group()


class Interface(Case):
    def test_each_method_of_torch_is_known(self):
        """A method that a later torch has, or another name of a parameter, must be looked at."""
        refused_properties = {"mem_allocator", "options"}
        for kind in (c10d.ProcessGroup, c10d.Backend):
            unknown = [
                name
                for name in methods(kind)
                if name not in {*OPERATIONS, *OTHERS, *ELSEWHERE, *interface.refused}
            ]
            self.assertEqual(unknown, [], kind.__name__)
            unknown = [
                name
                for name in properties(kind)
                if name not in PROPERTIES and name not in refused_properties
            ]
            self.assertEqual(unknown, [], kind.__name__)
            for name in OPERATIONS:
                if name in vars(kind):
                    self.assertTrue(overloads(kind, name), f"{kind.__name__}.{name} has no text")
        self.assertEqual(len(overloads(c10d.ProcessGroup, "allreduce")), 3)

    def test_each_form_of_each_operation(self):
        self.assertEqual(on_processes(_forms, 2, meeting_place(), "dfccl"), [0, 0])

    def test_the_same_calls_of_torchs_own_group(self):
        self.assertEqual(on_processes(_forms, 2, meeting_place(), "gloo"), [0, 0])

    def test_the_rest(self):
        cases = [_messages, _other_forms, _wrong_arguments, _other_methods, _works, _hooks]
        self.assertEqual(on_ranks([*cases, _time_limits]), [0, 0])

    def test_the_backend_of_one_device(self):
        self.assertEqual(on_processes(_pair, 2, meeting_place()), [0, 0])

    def test_numbers_that_are_none_are_refused(self):
        self.assertEqual(on_processes(_not_a_number, 2, meeting_place()), [0, 0])

    def test_a_bound_device(self):
        self.assertEqual(on_processes(_devices, 2, meeting_place()), [0, 0])
        self.assertEqual(on_processes(_device_of_a_pair, 2, meeting_place()), [0, 0])


if __name__ == "__main__":
    unittest.main()
