"""Hooks: functions of the program that a process group calls before and after each operation, and
before it is aborted."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _distributed_c10d as c10d

from .. import errors
from .forms import Forms, no_time

if TYPE_CHECKING:
    from .group import ProcessGroup

_log = logging.getLogger("dfccl.torch")


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in _flat(each)]


_NAN_CHECK = -1  # the id of the hook below


def check_for_nan(hooks: Hooks, rank: int) -> None:
    """Adds a hook that checks the inputs of a group's operations, if TORCH_DIST_NAN_CHECK asks for
    it. torch's own check is a hook that only C++ calls."""
    if os.environ.get("TORCH_DIST_NAN_CHECK", "0") != "1":
        return

    def check(arguments: Any) -> None:
        from_root = arguments.name in (c10d.HookOpName.BROADCAST, c10d.HookOpName.SCATTER)
        if not from_root or arguments.root == rank:
            for tensor in arguments.input_tensors:
                torch.ops.c10d.check_for_nan(tensor)

    hooks.add("pre", _NAN_CHECK, check)


class Hooks:
    """The hooks of one process group. Hooks of one kind are called in the order of their ids."""

    def __init__(self) -> None:
        self.any = False  # whether around() is called: there are hooks of operations, or is_refused
        self.is_refused = False  # this process is a forked child of the one that made the group
        self.kinds: dict[str, dict[int, Callable[..., Any]]] = {"pre": {}, "post": {}, "abort": {}}
        self._calls = 0
        _open.add(self)

    def add(self, kind: str, hook_id: int, hook: Callable[..., Any]) -> None:
        self.kinds[kind][hook_id] = hook
        self._changed()

    def remove(self, kind: str, hook_id: int) -> None:
        self.kinds[kind].pop(hook_id, None)
        self._changed()

    def _changed(self) -> None:
        self.any = self.is_refused or bool(self.kinds["pre"] or self.kinds["post"])

    def _call(self, kind: str, *arguments: Any) -> None:
        for _, hook in sorted(self.kinds[kind].items()):
            hook(*arguments)

    def abort(self) -> None:
        """Calls the hooks of an abort. An exception of one does not prevent the abort."""
        for hook_id, hook in sorted(self.kinds["abort"].items()):
            try:
                hook()
            except Exception:
                _log.exception("abort hook %d raised an exception", hook_id)

    def around(
        self,
        name: str,
        forms: Forms,
        arguments: Sequence[Any],
        function: Callable[..., Any],
        group: ProcessGroup,
    ) -> Any:
        """Calls an operation's function, and the hooks before and after it."""
        if self.is_refused:
            raise errors.InvalidUsage(
                f"{forms.name}: group {group._name!r} belongs to the process that forked this one; "
                "a forked child makes groups of its own"
            )
        before, after = c10d.PreHookArgs(), c10d.PostHookArgs()
        before.name = after.name = getattr(c10d.HookOpName, name, c10d.HookOpName.UNKNOWN)
        before.op_id = after.op_id = self._calls
        self._calls += 1
        inputs, outputs = [], []
        options = None
        for (names, _), value in zip(forms.first.parameters, arguments):
            if names[0].startswith("input") and not names[0].endswith("sizes"):
                inputs += _flat(value)
            elif names[0].startswith("output") and not names[0].endswith("sizes"):
                outputs += _flat(value)
            elif names[0] == "tensors":
                inputs += _flat(value) if name != "RECV" else []
                outputs += _flat(value) if name != "SEND" else []
            elif names[0] == "opts":
                options = value
                before.async_op = after.async_op = options.asyncOp
            elif names[0] in ("dstRank", "srcRank"):
                before.root = value
        before.root = getattr(options, "rootRank", before.root)
        before.input_tensors, before.output_tensors = inputs, outputs
        self._call("pre", before)
        work = function(group, *arguments)
        if options is not None and options.timeout > no_time:
            work._limit = options.timeout.total_seconds()
        after.work = work
        self._call("post", after)
        return work


_open: weakref.WeakSet[Hooks] = weakref.WeakSet()


def _forked() -> None:
    """Calls are refused before they take a lock, which a thread of the parent may have held."""
    for hooks in list(_open):
        hooks.is_refused = hooks.any = True


os.register_at_fork(after_in_child=_forked)
