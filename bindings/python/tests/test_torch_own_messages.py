"""Promises of messages of a rank to itself: they are matched in their order, whichever of send and
receive comes first; a message is what its tensor held when it was sent; none is dropped. Skipped
without torch."""

from __future__ import annotations

import datetime
import threading
import unittest

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl
import dfccl.torch
from support import Case
from torch_cases import on_ranks, refused


def received(rank: int, count: int = 3, **options) -> float:
    tensor = torch.zeros(count)
    dist.irecv(tensor, rank, **options).wait()
    assert (tensor == tensor[0]).all(), tensor
    return float(tensor[0])


def of(value: float, count: int = 3) -> torch.Tensor:
    return torch.full((count,), float(value))


def batches(rank, group):
    """An all-to-all of sends and receives, in either order of the list."""
    for receives_first in (False, True):
        inputs = [of(10 * rank + peer, 2 + peer) for peer in range(2)]
        outputs = [torch.zeros(2 + rank) for _ in range(2)]
        sends = [dist.P2POp(dist.isend, inputs[peer], peer) for peer in range(2)]
        receives = [dist.P2POp(dist.irecv, outputs[peer], peer) for peer in range(2)]
        both = receives + sends if receives_first else sends + receives
        for work in dist.batch_isend_irecv(both):
            work.wait()
        assert all((outputs[peer] == 10 * peer + rank).all() for peer in range(2)), outputs


def alone(rank, group):
    send = dist.isend(of(1), rank)
    assert send.is_completed()  # before its receive, since a message is copied
    assert received(rank) == 1
    send.wait()
    pending = torch.zeros(3)
    receive = dist.irecv(pending, rank)
    assert not receive.is_completed()
    dist.isend(of(2), rank).wait()
    assert receive.is_completed() and receive._source_rank() == rank
    receive.wait()
    assert pending.tolist() == [2] * 3


def in_order(rank, group):
    for value in range(3):
        dist.isend(of(value), rank)
    assert [received(rank) for _ in range(3)] == [0, 1, 2]
    boxes = [torch.zeros(3) for _ in range(3)]
    works = [dist.irecv(box, rank) for box in boxes]
    for value in range(4):
        dist.isend(of(value), rank)
    for work in reversed(works):
        work.wait()
    assert [float(box[0]) for box in boxes] == [0, 1, 2] and received(rank) == 3


def of_signatures(rank, group):
    """Sizes, types, tags, names and groups are told apart."""
    pair = dist.new_group([0, 1])
    dist.isend(of(1), rank, tag=1)
    dist.isend(of(2), rank, tag=2)
    dist.isend(of(3, 5), rank)
    dist.isend(torch.full((3,), 4), rank)
    dist.isend(of(5), rank, group=pair)
    with dfccl.torch.name("a"):
        dist.isend(of(6), rank)
    dist.isend(of(7), rank)
    assert received(rank, tag=2) == 2 and received(rank) == 7 and received(rank, tag=1) == 1
    with dfccl.torch.name("a"):
        assert received(rank) == 6
    assert received(rank, group=pair) == 5 and received(rank, 5) == 3
    whole = torch.zeros(3, dtype=torch.int64)
    dist.irecv(whole, rank).wait()
    assert whole.tolist() == [4] * 3


def copied_when_sent(rank, group):
    tensor = of(1)
    dist.isend(tensor, rank)
    tensor.fill_(2)
    assert received(rank) == 1
    receive = torch.zeros(3)
    work = dist.irecv(receive, rank)
    dist.isend(tensor, rank)
    tensor.fill_(3)
    work.wait()
    assert receive.tolist() == [2] * 3


def tensors_of_any_kind(rank, group):
    columns = torch.zeros(2, 3, requires_grad=True)
    dist.isend(torch._neg_view(torch.arange(6.0).view(2, 3)).T, rank)
    dist.irecv(columns.T, rank).wait()
    assert columns.tolist() == [[0, -1, -2], [-3, -4, -5]], columns
    work = dist.irecv(torch.zeros(0), rank)
    work.wait()  # a message of no elements is not sent
    dist.isend(torch.zeros(0), rank).wait()


def from_another_thread(rank, group):
    box = torch.zeros(3)
    receive = dist.irecv(box, rank)
    future = receive.get_future().then(lambda done: float(done.value()[0][0]))
    thread = threading.Thread(target=lambda: dist.isend(of(8), rank).wait())
    thread.start()
    receive.wait()
    thread.join()
    assert box.tolist() == [8] * 3 and future.wait() == 8


def apart_from_receives_from_any_rank(rank, group):
    """torch.distributed.recv refuses its own rank as the source, so such a receive skips it."""
    dist.isend(of(1), rank)
    box = torch.zeros(3)
    work = dist.isend(of(4), 1 - rank)
    assert dist.recv(box) == 1 - rank and box.tolist() == [4] * 3
    assert received(rank) == 1
    work.wait()


def coalesced(rank, group):
    """The receive of a coalesced call is waited for, though its message comes behind the call."""
    box, reduced = torch.zeros(3), of(1)
    group.start_coalescing(torch.device("cpu"))
    dist.irecv(box, rank)
    dist.all_reduce(reduced, async_op=True)
    work = group.end_coalescing(torch.device("cpu"))
    future = work.get_future()
    assert not work.is_completed()
    dist.isend(of(9), rank)
    work.wait()
    future.wait()
    assert work.is_completed() and box.tolist() == [9] * 3 and reduced.tolist() == [2] * 3


def never_sent(rank, group):
    late = dist.new_group(timeout=datetime.timedelta(seconds=0.2))
    box = torch.zeros(3)
    work = dist.irecv(box, rank, group=late)
    refused(work.wait, "has not sent torch.float32[3] to itself", error=dfccl.Timeout)
    assert work._call.state() == "started"  # the flight recorder does not take it for complete
    assert not [call for call in dfccl.torch.flight()["entries"] if "0<-0" in str(call)]
    dist.isend(of(1), rank, group=late)  # the receive has gone on
    work.wait()
    assert box.tolist() == [1] * 3
    given_up = dist.irecv(box, rank, group=late)
    dist.destroy_process_group(late)
    refused(given_up.wait, "given up", error=dfccl.Aborted)


def group_of_one(rank, group):
    own = [dist.new_group([each]) for each in range(2)][rank]
    box = torch.zeros(3)
    operations = [dist.P2POp(dist.isend, of(5), rank, own), dist.P2POp(dist.irecv, box, rank, own)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert box.tolist() == [5] * 3


CASES = [
    batches,
    alone,
    in_order,
    of_signatures,
    copied_when_sent,
    tensors_of_any_kind,
    from_another_thread,
    apart_from_receives_from_any_rank,
    coalesced,
    never_sent,
    group_of_one,
]


class OwnMessages(Case):
    def test_messages_to_itself(self):
        self.assertEqual(on_ranks(CASES), [0, 0])


if __name__ == "__main__":
    unittest.main()
