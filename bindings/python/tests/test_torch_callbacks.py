"""Promises of callbacks of futures: whatever a callback does, other futures end, waits return and
messages arrive; errors and results leave no cycle. Skipped without torch."""

from __future__ import annotations

import datetime
import gc
import threading
import time
import unittest
import weakref

try:
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import (
        default_hooks,
        powerSGD_hook,
        quantization_hooks,
    )
    from torch.nn.parallel import DistributedDataParallel
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl
import dfccl.torch
from dfccl.torch import callbacks
from dfccl.torch.flight import Flight
from support import Case
from torch_cases import called_back, on_ranks, open_future, reduced, refused


def impatient(seconds: float) -> dist.ProcessGroup:
    """A group with a short time limit, which does not hold for the making of the group."""
    group = dist.new_group()
    group.set_timeout(datetime.timedelta(seconds=seconds))
    return group


def waits_for_a_future(rank, group):
    assert called_back(lambda _: reduced(7)[1].wait()[0].sum()).wait() == 14


def makes_a_blocking_call(rank, group):
    tensor = torch.ones(7)
    called_back(lambda _: dist.all_reduce(tensor)).wait()
    assert tensor.sum() == 14


def makes_a_barrier_and_an_object(rank, group):
    def later(_):
        dist.barrier()
        boxes = [None, None]
        dist.all_gather_object(boxes, {"rank": rank})
        return boxes

    assert called_back(later).wait() == [{"rank": 0}, {"rank": 1}]


def nested(rank, group):
    def again(depth: int):
        def later(_):
            if depth == 6:
                return depth
            future, end = open_future(depth)
            chained = future.then(again(depth + 1))
            end()
            return chained.wait()

        return later

    assert called_back(again(1)).wait() == 6


def chained(rank, group):
    inner = []
    future = called_back(lambda done: inner.append(reduced(7)[1]) or done.value()[1].sum())
    assert future.wait() == 8 and inner[0].wait()[0].sum() == 14


def of_collected_futures(rank, group):
    """torch.futures.collect_all adds callbacks in C++."""
    (one, end_one), (other, end_other) = open_future(2), open_future(3)
    chained = torch.futures.collect_all([one, other]).then(lambda _: reduced(5)[1].wait()[0].sum())
    end_one()
    end_other()
    assert chained.wait() == 10


def blocks_until_the_program_goes_on(rank, group):
    """Each of these callbacks waits for a step that the program makes only behind a later call."""
    go_on, ended = threading.Event(), threading.Event()
    slow = called_back(lambda _: go_on.wait())
    added, end = open_future(5)
    added.add_done_callback(lambda _: go_on.wait() and ended.set())
    end()
    assert reduced(6)[1].wait()[0].sum() == 12
    go_on.set()
    assert slow.wait()
    ended.wait()


def many_block(rank, group):
    go_on = threading.Event()
    futures = [open_future(count) for count in range(1, 41)]
    slow = [future.then(lambda _: go_on.wait()) for future, _ in futures]
    for _, end in futures:
        end()
    assert reduced(50)[1].wait()[0].sum() == 100
    go_on.set()
    assert all(torch.futures.wait_all(slow))


def of_the_work_that_is_waited_for(rank, group):
    """The thread that waits for a work does not call the callbacks of its future."""
    go_on, threads, box = threading.Event(), [], torch.zeros(3)
    work = dist.irecv(box, rank)
    future = work.get_future()
    slow = future.then(lambda _: threads.append(threading.get_ident()) or go_on.wait())
    dist.isend(torch.ones(3), rank)
    work.wait()
    assert future.done() and future.value()[0].sum() == 3
    go_on.set()
    assert slow.wait() and threads != [threading.get_ident()]


def of_a_message_to_itself(rank, group):
    go_on, box = threading.Event(), torch.zeros(3)
    slow = dist.irecv(box, rank).get_future().then(lambda _: go_on.wait())
    dist.isend(torch.ones(3), rank).wait()  # the sender does not call the receive's callback
    go_on.set()
    assert slow.wait() and box.sum() == 3


def of_a_receive_from_any_rank(rank, group):
    """The thread that serves such receives does not call their callbacks."""
    if rank == 0:
        go_on, boxes = threading.Event(), torch.zeros(2, 3)
        slow = group.recv_anysource([boxes[0]], 1).get_future().then(lambda _: go_on.wait())
        group.recv_anysource([boxes[1]], 2).get_future().wait()
        go_on.set()
        assert slow.wait() and boxes.sum() == 6
    else:
        for tag in (1, 2):
            dist.send(torch.ones(3), 0, tag=tag)


def of_a_receive_that_waits(rank, group):
    """A callback waits for a receive whose message the callback of a later call sends."""
    box = torch.zeros(3)
    first = called_back(lambda _: dist.irecv(box, rank).wait())
    called_back(lambda _: dist.isend(torch.ones(3), rank).wait()).wait()
    assert first.wait() and box.sum() == 3


def of_a_failed_call(rank, group):
    """Callbacks of failed futures are called, and their errors are those of their futures."""
    late, own = impatient(0.2), dist.new_group([0])
    seen = []
    if rank == 0:
        _, future = reduced(4, late)

        def look(done):
            try:
                done.value()
            except RuntimeError as error:
                seen.append(str(error))
            return reduced(1, own)[1].wait()[0].sum()

        assert future.then(look).wait() == 1
        assert "reached its timeout" in seen[0], seen
        refused(future.wait, "reached its timeout", error=RuntimeError)
    dist.barrier()
    _, future = reduced(4)

    def broken(_):
        raise ValueError("a fault of the program")

    refused(future.then(broken).wait, "a fault of the program", error=RuntimeError)
    future.add_done_callback(broken)
    assert reduced(4)[1].wait()[0].sum() == 8
    dist.destroy_process_group(late)


def abort_hooks(rank, group):
    """An abort hook that waits, of a failure that only a future notices."""
    pair, own = dist.new_group([0, 1]), dist.new_group([0])
    reduced(4, pair)[1].wait()
    if rank == 0:
        begun, go_on = threading.Event(), threading.Event()
        pair.register_abort_hook(1, lambda: begun.set() or go_on.wait())
        _, future = reduced(4, pair)
        dist.send(torch.ones(1), 1)
        begun.wait()
        assert reduced(3, own)[1].wait()[0].sum() == 3
        go_on.set()
        refused(future.wait, error=RuntimeError)
        pair.unregister_abort_hook(1)
    else:
        dist.recv(torch.zeros(1), 0)
        pair._abort_collectives(
            [pair._of("all_reduce", torch.float32, 4, *_sum, None, None, "all_reduce")]
        )


_sum = dfccl.DataType.float32, dfccl.RedOp.SUM


def while_a_late_call_asks_other_ranks(rank, group):
    """A late future needs seconds for its error. Others end meanwhile."""
    late, own = impatient(0.2), dist.new_group([0])
    if rank == 0:
        asked, go_on, ask = threading.Event(), threading.Event(), Flight._ask

        def held(self, *arguments):
            asked.set()
            go_on.wait()
            return ask(self, *arguments)

        Flight._ask = held
        try:
            _, future = reduced(4, late)
            asked.wait()
            assert reduced(3, own)[1].wait()[0].sum() == 3
            go_on.set()
            refused(future.wait, "reached its timeout", error=RuntimeError)
        finally:
            Flight._ask = ask
    dist.barrier()
    dist.destroy_process_group(late)


def many_late_calls(rank, group):
    """The errors of late futures do not need a thread each."""
    late, before, most = impatient(1), threading.active_count(), 0
    if rank == 0:
        futures = [reduced(count, late)[1] for count in range(1, 101)]
        while not all(future.done() for future in futures):
            most = max(most, threading.active_count())
            time.sleep(0.005)
        for future in futures:
            refused(future.wait, "reached its timeout", error=RuntimeError)
        assert most - before < 20, (before, most)
    dist.barrier()
    dist.destroy_process_group(late)


def in_order(rank, group):
    """Receives of one signature end in order, and so begin their callbacks."""
    begun, boxes = [], torch.zeros(200, 3)
    patience, callbacks._PATIENCE_S = callbacks._PATIENCE_S, 1000
    works = [dist.irecv(box, rank) for box in boxes]
    futures = [
        work.get_future().then(lambda _, at=at: begun.append(at)) for at, work in enumerate(works)
    ]
    for _ in works:
        dist.isend(torch.ones(3), rank)
    torch.futures.wait_all(futures)
    callbacks._PATIENCE_S = patience
    assert begun == list(range(200))


def leaves_no_cycle(rank, group):
    """Works and futures end with their last reference, also when they have failed."""
    late = impatient(0.1)
    gc.collect()
    gc.disable()
    try:
        references = []
        for count, wants_future, fails in ((4, False, True), (5, True, False), (6, True, True)):
            if fails and rank == 1:
                continue
            work = dist.all_reduce(torch.ones(count), group=late if fails else None, async_op=True)
            future = work.get_future() if wants_future else None
            for wait in (work.wait, *([future.wait] if future is not None else [])):
                try:
                    wait()
                    assert not fails
                except RuntimeError as error:
                    assert fails, error
            if fails:
                work.abort()  # now the work itself has an error
                refused(work.wait, error=dfccl.Error)
                assert not work.is_success() and work.exception() is not None
            references.append((weakref.ref(work), wants_future, fails))
            del work, future, wait
        dist.barrier()  # the threads of the package have released the works
        for _ in range(500):
            alive = [each[1:] for each in references if each[0]() is not None]
            if not alive:
                break
            threading.Event().wait(0.01)
        assert not alive, alive
    finally:
        gc.enable()
    dist.destroy_process_group(late)


def _gradients(register, buckets: int) -> list[torch.Tensor]:
    """The buckets have different sizes: hooks of torch make calls without a name in callbacks of
    different buckets, and those may come in any order."""
    torch.manual_seed(0)
    model = DistributedDataParallel(
        torch.nn.Sequential(*(torch.nn.Linear(24 + i, 25 + i) for i in range(buckets))),
        bucket_cap_mb=0.001,  # a bucket for each parameter
    )
    register(model)
    for step in range(4):
        model.zero_grad()
        torch.manual_seed(10 * step + dist.get_rank())
        model(torch.randn(5, 24)).square().mean().backward()
    return [parameter.grad for parameter in model.parameters()]


def hooks_of_torch(rank, group):
    """torch's own communication hooks chain callbacks and wait in them."""

    def power(model):
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=32, start_powerSGD_iter=2, min_compression_rate=0.1
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)

    def hook(function):
        return lambda model: model.register_comm_hook(None, function)

    def sums_twice(_, bucket):
        """A hook of a program: waits for a second call of the same size."""
        buffer = bucket.buffer()
        one = dist.all_reduce(buffer, async_op=True).get_future()
        with dfccl.torch.name(f"second, bucket {bucket.index()}"):
            return one.then(lambda done: _second(bucket.index(), done.value()[0]))

    exact = _gradients(lambda model: None, 6)
    for name, register, tolerance in (
        ("power", power, 1e-4),
        ("all-reduce", hook(default_hooks.allreduce_hook), 1e-6),
        ("half", hook(default_hooks.fp16_compress_hook), 1e-2),
        ("a quantization", hook(quantization_hooks.quantization_pertensor_hook), None),
        ("twice", hook(sums_twice), 1e-6),
    ):
        found = _gradients(register, 6)
        for one, other in zip(found, exact):
            both = [torch.empty_like(one) for _ in range(2)]
            dist.all_gather(both, one)
            assert torch.equal(*both), name  # all ranks have the same gradients
            assert tolerance is None or torch.allclose(one, other, atol=tolerance), name


def _second(index: int, buffer: torch.Tensor) -> torch.Tensor:
    with dfccl.torch.name(f"second, bucket {index}"):  # buckets may come in any order
        work = dist.all_reduce(buffer.div_(4), async_op=True)
    return work.get_future().wait()[0]


CASES = [
    waits_for_a_future,
    makes_a_blocking_call,
    makes_a_barrier_and_an_object,
    nested,
    chained,
    of_collected_futures,
    blocks_until_the_program_goes_on,
    many_block,
    of_the_work_that_is_waited_for,
    of_a_message_to_itself,
    of_a_receive_from_any_rank,
    of_a_receive_that_waits,
    of_a_failed_call,
    abort_hooks,
    while_a_late_call_asks_other_ranks,
    many_late_calls,
    in_order,
    leaves_no_cycle,
    hooks_of_torch,
]


class OfFutures(Case):
    def test_callbacks(self):
        self.assertEqual(on_ranks(CASES), [0, 0])


if __name__ == "__main__":
    unittest.main()
