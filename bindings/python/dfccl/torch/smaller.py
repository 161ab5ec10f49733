"""Calls of a group that has lost members.

The collectives of the library keep the positions that all members had at the start. A program
passes a root, a peer or pieces by the dense numbers of the members that are left. These functions
translate a call: numbers become positions, and the pieces of lost members are filled with memory
that nobody reads. The number of pieces says which view the program meant, since each view of a
group has fewer members than the one before. So a call that was prepared before this rank received
a view, and one that was prepared after it, meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from .. import errors
from .tensors import After, flat, landing, put, room, together
from .types import Tensors

if TYPE_CHECKING:
    from .group import ProcessGroup

# The arguments for the positions of the start, what remains to be done with the results, and the
# outputs of the program if the call has others
Translated = tuple[Sequence[Any], After, list[torch.Tensor] | None]


def _layout(group: ProcessGroup, what: str, count: int) -> tuple[int, ...]:
    """The positions of the members, in a view with so many of them."""
    found = group._layouts.get(count)
    if found is None:
        raise errors.InvalidArgument(
            f"{what}: pieces for {count} members in a group of {len(group._alive)}"
        )
    return found


def _hole(like: Tensors, empty: bool = False) -> torch.Tensor:
    """The piece of a lost member."""
    uneven = empty or len({each.numel() for each in like}) > 1
    return room([0] if uneven else like[0].shape, like[0].dtype).zero_()


def _spread(group: ProcessGroup, what: str, pieces: Sequence[Any], hole: Callable[[], Any]) -> list:
    """Pieces of the members that are left, at their positions."""
    positions = _layout(group, what, len(pieces))
    full = [None] * group._size
    for at, piece in zip(positions, pieces):
        full[at] = piece
    return [hole() if at not in positions else full[at] for at in range(group._size)]


def _root(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    return given, None, None


def _allgather(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    outputs, inputs, opts = given
    rows = [_spread(group, "all_gather", row, partial(_hole, row)) for row in outputs]
    return (rows, inputs, opts), None, [each for row in outputs for each in row]


def _allgather_coalesced(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    outputs, inputs, opts = given
    rows = _spread(group, "all_gather", outputs, lambda: [_hole([each]) for each in inputs])
    return (rows, inputs, opts), None, [each for row in outputs for each in row]


def _gathered(
    group: ProcessGroup, what: str, output: torch.Tensor, input: torch.Tensor
) -> tuple[torch.Tensor, After]:
    """Memory for the pieces of all positions, and their way into the output."""
    count = input.numel()
    positions = _layout(group, what, output.numel() // count if count else len(group._alive))
    target, after = landing(output)
    full = room([group._size * count], output.dtype)

    def take() -> None:
        pieces = full.view(group._size, count)
        put(target.view(len(positions), count).unbind(0), [pieces[at] for at in positions])

    return full, together([take, after])


def _all_gather_single(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    output, input, opts = given
    full, after = _gathered(group, "all_gather_single", output, input)
    return (full, input, opts), after, [output]


def _all_gather_coalesced(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    outputs, inputs, opts = given
    made = [_gathered(group, "all_gather_single", *pair) for pair in zip(outputs, inputs)]
    return (
        ([full for full, _ in made], inputs, opts),
        together([after for _, after in made]),
        list(outputs),
    )


def _gather(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    outputs, inputs, opts = given
    if group._rank != opts.rootRank or not outputs:
        return given, None, None
    rows = [_spread(group, "gather", row, partial(_hole, row)) for row in outputs]
    return (rows, inputs, opts), None, [each for row in outputs for each in row]


def _gather_single(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    output, input, opts = given
    if group._rank != opts.rootRank:
        return given, None, None
    full, after = _gathered(group, "gather_single", output, input)
    return (full, input, opts), after, [output]


def _scatter(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    outputs, inputs, opts = given
    if group._rank != opts.rootRank:
        return given, None, None
    rows = [_spread(group, "scatter", row, partial(_hole, row)) for row in inputs]
    return (outputs, rows, opts), None, None


def _reduce_scatter(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    outputs, inputs, opts = given
    rows = [_spread(group, "reduce_scatter", row, partial(_hole, row)) for row in inputs]
    return (outputs, rows, opts), None, None


def _scattered(
    group: ProcessGroup, what: str, input: torch.Tensor, members: int, count: int
) -> torch.Tensor:
    """An input with pieces for all positions."""
    positions = _layout(group, what, members)
    full = room([group._size, count], input.dtype).zero_()
    full[list(positions)] = flat([input]).view(members, count)
    return full.view(-1)


def _reduce_scatter_input(
    group: ProcessGroup, output: torch.Tensor, input: torch.Tensor
) -> torch.Tensor:
    count = output.numel()
    members = input.numel() // count if count else len(group._alive)
    return _scattered(group, "reduce_scatter_single", input, members, count)


def _reduce_scatter_single(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    output, input, opts = given
    return (output, _reduce_scatter_input(group, output, input), opts), None, None


def _reduce_scatter_coalesced(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    outputs, inputs, opts = given
    full = [_reduce_scatter_input(group, *pair) for pair in zip(outputs, inputs)]
    return (outputs, full, opts), None, None


def _alltoall(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    outputs, inputs, opts = given
    rows = [
        _spread(group, "all_to_all", each, partial(_hole, each, True)) for each in (outputs, inputs)
    ]
    return (*rows, opts), None, list(outputs)


def _all_to_all_single(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    output, input, output_splits, input_splits, opts = given
    members = len(output_splits or input_splits or group._alive)
    if output_splits or input_splits:
        splits = [
            _spread(
                group, "all_to_all_single", own or [tensor.size(0) // members] * members, lambda: 0
            )
            for tensor, own in ((output, output_splits), (input, input_splits))
        ]
        return (output, input, *splits, opts), None, None
    if input.dim() == 0 or input.size(0) % members or input.numel() != output.numel():
        raise errors.InvalidArgument(
            f"all_to_all_single: {tuple(input.shape)} in, {tuple(output.shape)} out, in a group of "
            f"{members}"
        )
    count = input.numel() // members
    full, after = _gathered(group, "all_to_all_single", output, input.reshape(-1)[:count])
    sent = _scattered(group, "all_to_all_single", input, members, count)
    return (full, sent, (), (), opts), after, [output]


def _message(group: ProcessGroup, given: Sequence[Any]) -> Translated:
    tensors, peer, tag = given
    if 0 <= peer < len(group._alive):
        return (tensors, group._alive[peer], tag), None, None
    raise errors.InvalidArgument(f"rank {peer} in a group of {len(group._alive)}")


# Key: the method; others need no translation
_translations: dict[str, Callable[[Any, Sequence[Any]], Translated]] = {
    "allgather": _allgather,
    "allgather_coalesced": _allgather_coalesced,
    "all_gather_single": _all_gather_single,
    "all_gather_single_coalesced": _all_gather_coalesced,
    "gather": _gather,
    "gather_single": _gather_single,
    "scatter": _scatter,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_single": _reduce_scatter_single,
    "reduce_scatter_single_coalesced": _reduce_scatter_coalesced,
    "alltoall": _alltoall,
    "all_to_all_single": _all_to_all_single,
    "send": _message,
    "recv": _message,
}


def translated(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of an operation, called with the numbers of the members that are left."""
    translate = _translations.get(function.__name__, _root)

    def call(group: ProcessGroup, *given: Any) -> Any:
        opts: Any = given[-1] if given else None
        root = None
        if hasattr(opts, "rootRank"):
            root = opts.rootRank
            opts.rootRank = group._alive[root]
        try:
            made, after, outputs = translate(group, given)
            work = function(group, *made)
        finally:
            if root is not None:
                opts.rootRank = root
        if after is not None:
            work._finish = together([work._finish, after])
        if outputs is not None:
            work._outputs = outputs
        return work

    return call
