"""A communication hook of DistributedDataParallel that matches buckets by the names of their
parameters."""

import copy
import gc
import weakref
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.weak import WeakIdKeyDictionary

from . import names
from .survivors import MembershipChanged

_known = WeakIdKeyDictionary()  # key: parameter; value: its name, and a weak reference to its model


def _learn(model: DistributedDataParallel) -> None:
    for name, parameter in model.module.named_parameters():
        _known[parameter] = (name, weakref.ref(model))


def _model_of(parameter: torch.Tensor) -> DistributedDataParallel:
    if parameter not in _known:
        for each in gc.get_objects():
            if issubclass(type(each), DistributedDataParallel):
                _learn(each)
    model = _known[parameter][1]() if parameter in _known else None
    if model is None:
        raise RuntimeError(
            "the bucket's parameters belong to no DistributedDataParallel of this process"
        )
    return model


def ddp_hook(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Computes the mean of the gradients, as DistributedDataParallel does without a hook.

        model.register_comm_hook(None, dfccl.torch.ddp_hook)

    Ranks may reduce their buckets in any order, also buckets of equal size. state: the model, or
    None.
    """
    parameters = bucket.parameters()
    if isinstance(state, DistributedDataParallel) and parameters[0] not in _known:
        _learn(state)
    group = _model_of(parameters[0]).process_group
    job = getattr(group, "_job", None)  # None: a group with several backends
    survives = job is not None and job.survivors.survive > 0
    buffer, op = bucket.buffer(), dist.ReduceOp.AVG
    if not survives:  # as DistributedDataParallel computes it, to the last bit
        buffer, op = buffer.div_(group.size()), dist.ReduceOp.SUM
    with names.name("bucket of " + ", ".join(_known[each][0] for each in parameters)):
        work = dist.all_reduce(buffer, op, group=group, async_op=True)
    future = work.get_future()
    return future.then(_value if not survives else _Bucket(work._result).value)


def _value(future: Any) -> torch.Tensor:
    return future.value()[0]


class _Bucket:
    """A bucket of a job that goes on when ranks are lost. DistributedDataParallel would make
    another error of the error of a future, so the end of the backward raises it."""

    def __init__(self, result: Any):
        self._result = result  # belongs to the work, and does not hold it
        self._error: MembershipChanged | None = None
        engine = torch.autograd.Variable._execution_engine
        # A function that is queued by a queued one follows DistributedDataParallel's own
        engine.queue_callback(lambda: engine.queue_callback(self._end))

    def value(self, future: Any) -> torch.Tensor:
        if isinstance(self._result.error, MembershipChanged):
            self._error = self._result.error
            return self._result.outputs[0]
        return future.value()[0]

    def _end(self) -> None:
        if self._error is not None:
            raise copy.copy(self._error)  # raising adds a traceback
