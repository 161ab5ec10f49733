"""Tensors as memory: where the values of an input lie, and how results reach an output.

The library reads and writes bytes. A tensor can have properties that its bytes do not show: a sign
or a conjugation that is not yet applied, a layout, a scale, values in other tensors. So each
operation calls the functions of this file for all of its tensors before it submits a run: `packed`
for inputs, `writable` or `distinct` for outputs, `landing` or `in_place` for the memory of results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from .. import errors

# Copies a result to its place. None if the run writes it there.
After = Callable[[], Any] | None

_keys_of, _Key = torch._C._dispatch_keys, torch._C.DispatchKey
# The dispatch keys of a tensor name all of its properties. A tensor that has only these keys has
# none that its bytes do not show.
_PLAIN = (
    torch._C.DispatchKeySet(_Key.CPU)
    | torch._C.DispatchKeySet(_Key.ADInplaceOrView)
    | torch._C.DispatchKeySet(_Key.AutogradCPU)
    | torch._C.DispatchKeySet(_Key.AutocastCPU)
).raw_repr()
# Tensors of other classes may override the methods that are called here.
own_classes = frozenset((torch.Tensor, torch.nn.Parameter))


def _is_plain(tensor: torch.Tensor) -> bool:
    return not _keys_of(tensor).raw_repr() & ~_PLAIN


def _text(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _refused(what: str, advice: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"{what}: this process group takes {advice}")


def _is_aligned(own: torch.Tensor) -> bool:
    return own.data_ptr() % min(own.element_size(), 8) == 0


def _is_ready(tensor: torch.Tensor) -> bool:
    """Whether the bytes of a tensor's memory are its values, in one piece, and aligned."""
    if type(tensor) in own_classes and _is_plain(tensor) and tensor.is_contiguous():
        at = tensor.data_ptr()
        return (at % 8 == 0 or _is_aligned(tensor)) if at else tensor.numel() == 0
    return False


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or the complete tensor that a functional collective's result stands for. Raises
    InvalidArgument if the values are not in memory of the CPU."""
    if type(tensor) not in own_classes or not _is_plain(tensor):
        tensor = _converted(tensor)
    if tensor.data_ptr() == 0 and tensor.numel() > 0 and not tensor._is_zerotensor():
        raise errors.InvalidArgument(f"a tensor {_text(tensor)} whose memory has been freed")
    return tensor


def _converted(tensor: torch.Tensor) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise errors.InvalidArgument(f"{tensor!r} is not a tensor")
    if not tensor.is_cpu:
        raise _refused(f"a tensor on {tensor.device}", "tensors of the CPU")
    keys = _keys_of(tensor)
    if keys.has(_Key.Python):
        from torch.distributed._functional_collectives import AsyncCollectiveTensor

        if isinstance(tensor, AsyncCollectiveTensor):
            return _own(tensor.trigger_wait())
        raise _refused(
            f"a tensor of class {type(tensor).__name__}, whose values are in other tensors",
            "the tensors that have them (of a DTensor: to_local())",
        )
    if tensor.layout is not torch.strided:
        raise _refused(f"a tensor of layout {tensor.layout}", "dense tensors")
    if tensor.is_nested:
        raise _refused("a nested tensor", "dense tensors, such as its parts (unbind())")
    if tensor.is_quantized:
        raise _refused(f"a quantized tensor of {tensor.dtype}", "int_repr() and the scale instead")
    for lazy in (_Key.Conjugate, _Key.Negative, _Key.ZeroTensor):
        keys = keys.remove(lazy)
    if keys.raw_repr() & ~_PLAIN:
        raise _refused(
            f"a tensor in a function transform such as vmap or grad (its keys: {keys})",
            "tensors outside of it",
        )
    if type(tensor) not in own_classes:
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            tensor = tensor.as_subclass(torch.Tensor)
    return tensor


def _resolved(own: torch.Tensor) -> torch.Tensor:
    if own._is_zerotensor():
        return room(own.shape, own.dtype).zero_()
    return own.resolve_conj().resolve_neg()


def packed(tensor: torch.Tensor) -> torch.Tensor:
    """The values of an input in one piece: the tensor itself if it is so, else a copy."""
    if _is_ready(tensor):
        return tensor
    with torch.no_grad():
        dense = _resolved(_own(tensor)).contiguous()
        return dense if _is_aligned(dense) else dense.clone()


def flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The values of inputs, one after the other."""
    with torch.no_grad():
        return torch.cat([_resolved(_own(tensor)).reshape(-1) for tensor in tensors])


def room(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    # A device is given, since the program may have set another default.
    return torch.empty(shape, dtype=dtype, device="cpu")


def writable(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that a result is copied to. Raises InvalidArgument if it cannot have any
    values."""
    if _is_ready(tensor):
        return tensor
    own = _own(tensor)
    if not own.is_contiguous() and _overlaps_itself(own):
        raise errors.InvalidArgument(
            f"an output {_text(own)} of strides {list(own.stride())}: some of its elements share "
            "memory, so they cannot have different values; pass a clone()"
        )
    if own._is_zerotensor():
        raise errors.InvalidArgument(f"an output {_text(own)} that is always zero (ZeroTensor)")
    return own


def distinct(what: str, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of one call, each as by `writable`. Raises InvalidArgument if two of them share
    memory."""
    own = [writable(output) for output in outputs]
    if len(own) < 2:
        return own
    ranges = sorted((*_range(output), at) for at, output in enumerate(own) if output.numel() > 0)
    cluster: list[int] = []
    end = 0
    for first, last, at in ranges:
        if first >= end:
            cluster = []
        cluster.append(at)
        end = max(end, last)
        if len(cluster) > 1 and _collide([own[each] for each in cluster]):
            raise errors.InvalidArgument(
                f"{what}: outputs {', '.join(map(str, sorted(cluster)))} of {len(own)} share "
                "memory, so they cannot have different values"
            )
    return own


def put(outputs: Sequence[torch.Tensor], values: Iterable[torch.Tensor]) -> None:
    """Copies results into outputs. The modes of the thread that ends the call, which may be any
    thread, do not matter."""
    here = torch.is_inference_mode_enabled()
    with torch.no_grad():
        for output, value in zip(outputs, values):
            inference = output.is_inference()
            if inference == here:
                output.copy_(value.view(output.shape))
            else:
                with torch.inference_mode(inference), torch.no_grad():
                    output.copy_(value.view(output.shape))


def landing(output: torch.Tensor) -> tuple[torch.Tensor, After]:
    """The memory that a run writes the result for an output to, and what remains to be done with
    it. Raises InvalidArgument as `writable` does."""
    if _is_ready(output):
        return output, None
    own = writable(output)
    made = room(own.shape, own.dtype)
    return made, lambda: put([own], [made])


def in_place(tensor: torch.Tensor) -> tuple[torch.Tensor, After]:
    """The same for a tensor whose values a run reads and replaces."""
    if _is_ready(tensor):
        return tensor, None
    own = writable(tensor)
    dense = packed(own)
    return dense, None if dense is own else lambda: put([own], [dense])


def together(afters: Sequence[After]) -> After:
    left = [after for after in afters if after is not None]
    return (lambda: [after() for after in left]) if left else None


def apart(source: torch.Tensor, target: torch.Tensor, offset: int | None = None) -> torch.Tensor:
    """The packed input of a run, or a copy of it if it overlaps with the run's output otherwise
    than in place. offset: the number of elements from the output's begin to an input in place."""
    begin, first = source.data_ptr(), target.data_ptr()
    if begin >= first + target.nbytes or first >= begin + source.nbytes:
        return source
    if offset is not None and begin == first + offset * source.element_size():
        return source
    return source.clone()


def all_apart(
    sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The packed inputs of runs, with copies of those that overlap with an output."""
    ranges = [_range(target) for target in targets if target.numel() > 0]
    if not ranges or not sources:
        return list(sources)
    begin, end = min(first for first, _ in ranges), max(last for _, last in ranges)

    def overlaps(source: torch.Tensor) -> bool:
        low = source.data_ptr()
        high = low + source.nbytes
        return (
            low < end
            and begin < high
            and any(low < last and first < high for first, last in ranges)
        )

    return [source.clone() if overlaps(source) else source for source in sources]


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses of a tensor's first byte and behind its last byte."""
    begin, size = tensor.data_ptr(), tensor.element_size()
    if tensor.numel() == 0:
        return begin, begin
    reach = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))
    return begin, begin + (reach + 1) * size


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    dimensions = sorted((stride, n) for n, stride in zip(tensor.shape, tensor.stride()) if n > 1)
    if tensor.numel() == 0:
        return False
    reach = 0
    for stride, n in dimensions:
        if stride == 0:
            return True
        if stride <= reach:
            return _collide([tensor])  # the dimensions are interleaved
        reach += (n - 1) * stride
    return False


def _collide(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether any byte belongs to two elements: marks the bytes of all elements, and counts."""
    ranges = [_range(tensor) for tensor in tensors]
    begin = min(first for first, _ in ranges)
    marks = room([max(last for _, last in ranges) - begin], torch.bool).zero_()
    total = 0
    for tensor, (first, _) in zip(tensors, ranges):
        size = tensor.element_size()
        marks.as_strided(
            (*tensor.shape, size), (*(size * each for each in tensor.stride()), 1), first - begin
        ).fill_(True)
        total += tensor.numel() * size
    return int(marks.sum()) != total
