"""The forms in which the operations of a process group take their arguments.

torch's C++ process group has several forms of most operations: lists of tensors with an options
object, which torch.distributed and C++ use, and short ones with single tensors, a root, an operator
and a time limit. `operation` makes a method that takes all of them, by position and by name, of a
function that takes the first of them.
"""

from __future__ import annotations

import datetime
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from .. import errors
from .smaller import translated
from .types import Op

no_time = datetime.timedelta(0)
_required = object()


def _is_list(value: Any) -> bool:
    """Whether a value has the protocol of a sequence, as arrays and classes of programs do."""
    return (
        hasattr(value, "__len__")
        and hasattr(value, "__getitem__")
        and not isinstance(value, (str, bytes, dict, torch.Tensor))
    )


def seconds(value: Any) -> Any:
    """A time, which torch's binding also takes as a number of seconds."""
    return datetime.timedelta(seconds=value) if isinstance(value, float) else value


def _is_tensors(value: Any) -> bool:
    return _is_list(value) and all(isinstance(each, torch.Tensor) for each in value)


def _is_number(value: Any) -> bool:
    return hasattr(value, "__index__")


class _Kind(NamedTuple):
    """A kind of argument."""

    text: str
    fits: Callable[[Any], bool]
    usual: type  # the type of such arguments that torch.distributed passes
    default: Any = _required
    convert: Callable[[Any], Any] = lambda value: value


_kinds = {
    "tensor": _Kind("tensor", lambda value: isinstance(value, torch.Tensor), torch.Tensor),
    "tensors": _Kind("list of tensors", _is_tensors, list, convert=list),
    "lists": _Kind(
        "list of lists of tensors",
        lambda value: _is_list(value) and all(_is_tensors(each) for each in value),
        list,
        convert=lambda value: [list(each) for each in value],
    ),
    "int": _Kind("int", _is_number, int, convert=operator.index),
    "ints": _Kind(
        "list of ints",
        lambda value: _is_list(value) and all(_is_number(each) for each in value),
        list,
        convert=lambda value: [operator.index(each) for each in value],
    ),
    "bool": _Kind("bool", lambda value: isinstance(value, bool), bool, False),
    "op": _Kind("ReduceOp", lambda value: isinstance(value, (dist.ReduceOp, Op)), Op, Op.SUM),
    "timeout": _Kind(
        "timedelta",
        lambda value: value is None or isinstance(value, (datetime.timedelta, float)),
        datetime.timedelta,
        None,
        seconds,
    ),
}
_settings = {"root": "rootRank", "op": "reduceOp", "timeout": "timeout"}  # and the options' names


class _Parameter(NamedTuple):
    names: list[str]  # torch's group, its backends and its type stubs have different names for some
    kind: _Kind

    @property
    def text(self) -> str:
        return f"{self.names[0]}: {self.kind.text}"


class _Form:
    """One form of an operation's arguments."""

    def __init__(self, text: str, options: type | None):
        """text: parameters and their kinds, such as "output|output_tensors: tensors, root: int"."""
        self.parameters = []
        for each in text.split(", ") if text else []:
            names, _, kind = each.partition(": ")
            self.parameters.append(_Parameter(names.split("|"), _kinds[kind or names]))
        self._options = options

    def with_options(self) -> _Form:
        """The form with the options as the last parameter."""
        options = self._options
        if options is not None:
            kind = _Kind(
                options.__name__,
                lambda value: value is None or isinstance(value, options),
                options,
                None,
                lambda value: options() if value is None else value,
            )
            self.parameters.append(_Parameter(["opts"], kind))
        return self

    @property
    def text(self) -> str:
        return "(" + ", ".join(parameter.text for parameter in self.parameters) + ")"

    def bound(self, given: Sequence[Any], named: dict[str, Any]) -> list[Any] | None:
        """The arguments in the order of the parameters. None if they do not fit."""
        if len(given) + len(named) > len(self.parameters):
            return None
        found = []
        used = 0
        for at, (names, kind) in enumerate(self.parameters):
            if at < len(given):
                value = given[at]
            else:
                value = next((named[name] for name in names if name in named), _required)
                used += value is not _required
            if value is not _required and not kind.fits(value):
                return None
            value = kind.default if value is _required else value
            if value is _required:
                return None
            found.append(kind.convert(value))
        return found if used == len(named) else None

    def as_first(self, first: _Form, found: Sequence[Any]) -> list[Any]:
        """The arguments in the operation's first form: short forms have a tensor where that has a
        list of tensors, or a list where that has a list of lists."""
        options = self._options() if self._options is not None else None
        made = []
        for at, (value, (names, kind)) in enumerate(zip(found, self.parameters)):
            if names[0] in _settings:
                if value is not None:
                    setattr(options, _settings[names[0]], value)
            else:
                made.append(value if kind is first.parameters[at].kind else [value])
        return made if options is None else [*made, options]


def _text_of(value: Any) -> str:
    if _is_list(value):
        inner = sorted({_text_of(each) for each in value})
        return f"list of {len(value)}" + (f" ({', '.join(inner)})" if inner else "")
    return type(value).__name__


class Forms:
    """The forms of one operation."""

    def __init__(self, name: str, options: type | None, text: str, more: Sequence[str]):
        self.name = name
        self.first = _Form(text, options).with_options()
        self._others = [_Form(each, options) for each in more]
        kinds = [kind for _, kind in self.first.parameters]
        # The types of arguments that need no other check
        self.usual = () if _kinds["lists"] in kinds else tuple(kind.usual for kind in kinds)

    def arguments(self, given: Sequence[Any], named: dict[str, Any]) -> Sequence[Any]:
        """The arguments in the first form. Raises TypeError if they fit no form."""
        found = self.first.bound(given, named)
        if found is not None:
            return found
        for form in self._others:
            found = form.bound(given, named)
            if found is not None:
                return form.as_first(self.first, found)
        called = [_text_of(value) for value in given]
        called += [f"{name}={_text_of(value)}" for name, value in named.items()]
        raise TypeError(
            f"{self.name} of a process group dfccl was called with ({', '.join(called)}); it takes "
            + " or ".join(form.text for form in (self.first, *self._others))
        )


def _check_options(name: str, size: int, options: Any) -> None:
    """Checks the settings of options that not all operations have."""
    root = getattr(options, "rootRank", 0)
    if not 0 <= root < size:
        raise errors.InvalidArgument(f"{name}: root {root} in a group of {size}")
    if getattr(options, "rootTensor", 0) != 0:
        raise errors.InvalidArgument(
            f"{name}: rootTensor is {options.rootTensor}, but a rank has one tensor, number 0"
        )


def operation(
    hook_name: str, options: type | None, text: str, *more: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a method that takes the arguments in each of the forms.

    hook_name: the operation's name for hooks; options: the class of the options, which are the last
    argument of the function; text: the first form without the options; more: the other forms.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        forms = Forms(function.__name__.removeprefix("_"), options, text, more)
        has_root, usual = hasattr(options, "rootRank"), forms.usual
        on_smaller = translated(function)

        @functools.wraps(function)
        def method(self: Any, *given: Any, **named: Any) -> Any:
            if named or tuple(map(type, given)) != usual:
                given = tuple(forms.arguments(given, named))
            call, size = function, self._size
            if len(self._alive) < size:
                call, size = on_smaller, len(self._alive)
            if has_root:
                _check_options(forms.name, size, given[-1])
            if self._hooks.any:
                return self._hooks.around(hook_name, forms, given, call, self)
            work = call(self, *given)
            if options is not None and (timeout := given[-1].timeout) > no_time:
                work._limit = timeout.total_seconds()
            return work

        method.forms = forms  # type: ignore[attr-defined]
        return method

    return decorate


def the_one(what: str, given: Sequence[Any]) -> Any:
    """The only element of a list that torch has for several devices of a rank."""
    if len(given) != 1:
        raise errors.InvalidArgument(
            f"{what}: {len(given)} tensors or lists of tensors; a rank passes one"
        )
    return given[0]


def check_pairs(what: str, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
    if len(outputs) != len(inputs):
        raise errors.InvalidArgument(f"{what}: {len(inputs)} inputs and {len(outputs)} outputs")
