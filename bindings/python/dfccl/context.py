"""Contexts, collectives and runs."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from collections import deque
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import Any, Callable, Iterable, Sequence

from . import errors
from .arrays import DataType, DataTypeLike, Memory, RedOp, RedOpLike, data_type, memory_of, red_op
from .library import (Callback, CollOptions, Config, Configuration, IN_PROGRESS, SUCCESS, Run as RunStruct, Stats,
                      UniqueId, check, last_error, lib)

_SLICE_MS = 200  # a wait returns to Python so often, for Ctrl-C
_BACKENDS = {"auto": 0, "cpu": 1, "cuda": 2}
_callbacks: dict[int, tuple[Callable[[errors.Error | None], Any], "Collective"]] = {}
_tokens = iter(range(1, 2**62))
_tokens_lock = threading.Lock()
_inside = threading.local()
_open: set["Context"] = set()


def unique_id() -> bytes:
    """The identity of a new job: 128 bytes for every rank. This process must live until all ranks have joined."""
    made = UniqueId()
    check(lib.dfcclGetUniqueId(byref(made)))
    return bytes(made)


@Callback
def _callback(coll: int, status: int, token: int) -> None:
    function, collective = _callbacks.pop(token)
    error = None
    if status != SUCCESS:
        error = errors.of_code(status, last_error(collective.context._handle))
    _inside.callback = True
    try:
        function(error)
    finally:
        _inside.callback = False


_callback_address = ctypes.cast(_callback, c_void_p).value


def _config(backend: str, device: int, max_blocks: int, queue_depth: int, timeout: float | None) -> Config:
    if backend not in _BACKENDS:
        raise errors.InvalidArgument(f"no backend {backend!r}: there are {', '.join(_BACKENDS)}")
    return Config(backend=_BACKENDS[backend], device=device, maxBlocks=max_blocks, queueDepth=queue_depth,
                  timeoutMs=0 if timeout is None else max(1, int(timeout * 1000)))


class Run:
    """One run of a collective. Its arrays are kept alive until it is complete."""

    __slots__ = ("collective", "number")

    def __init__(self, collective: "Collective", number: int):
        self.collective, self.number = collective, number

    def wait(self, timeout: float | None = None) -> None:
        """Waits until this run is complete and its callback has returned; drives the library meanwhile.

        Raises what the run failed of, or Timeout after so many seconds: then the run goes on.
        """
        self.collective._wait_run(self.number, timeout)

    def done(self) -> bool:
        """Whether the run is complete. Raises what it failed of."""
        code = self.collective._look(self.number)
        if code == IN_PROGRESS:
            return False
        check(code)
        return True

    def __repr__(self) -> str:
        return f"<run {self.number} of {self.collective!r}>"


class Collective:
    """A registered collective: run it any number of times, in any order beside others."""

    def __init__(self, context: "Context", kind: str, id: int, count: int, type: DataType, root: int,
                 ranks: Sequence[int] | None, name: str | None, varying: bool):
        self.context, self.kind, self.id, self.count, self.type, self.root = context, kind, id, count, type, root
        self.size = context.size if ranks is None else len(ranks)
        self.rank = context.rank if ranks is None else list(ranks).index(context.rank)
        self.name, self.varying = name, varying
        self._lock = threading.Lock()
        self._outstanding: deque[tuple[int, Any]] = deque()
        self._run = RunStruct()
        wide = self.size
        self._send_wide, self._recv_wide = {"all_gather": (1, wide), "reduce_scatter": (wide, 1),
                                            "all_to_all": (wide, wide)}.get(kind, (1, 1))

    def __repr__(self) -> str:
        name = self.name or f"{self.id}"
        return f"<collective {name}, {self.kind} of {self.count} {self.type.name}, group of {self.size}>"

    def run(self, send: Any = None, recv: Any = None, *, count: int = 0,
            callback: Callable[[errors.Error | None], Any] | None = None) -> Run:
        """Submits one run; never blocks.

        send, recv   arrays; one alone is in place. all_gather and reduce_scatter in place have the whole array, this
                     rank's part at its place in the group. What a rank does not need (reduce: recv, broadcast: send,
                     but on the root) may be None.
        count        only with varying: this run's elements, at most the registered ones
        callback     called with None, or with the error, on a thread of the library or inside a wait
        """
        elements = count or self.count
        if count and not self.varying and count != self.count:
            raise errors.InvalidArgument(f"a run of {count} elements of {self!r}, which was registered without varying")
        source, target = self._memories(send, recv, elements)
        send_at, recv_at = source.address if source else 0, target.address if target else 0
        if self.kind == "all_gather" and target is source and source:
            send_at += self.rank * elements * self.type.bytes
        if self.kind == "reduce_scatter" and target is source and source:
            recv_at += self.rank * elements * self.type.bytes
        token = 0
        if callback is not None:
            with _tokens_lock:
                token = next(_tokens)
            _callbacks[token] = (callback, self)
        try:
            return Run(self, self._submit(send_at or None, recv_at or None, count, (source, target), token))
        except BaseException:
            _callbacks.pop(token, None)
            raise

    def _memories(self, send: Any, recv: Any, elements: int) -> tuple[Memory | None, Memory | None]:
        in_place = send is None or recv is None or send is recv
        if in_place and send is None and recv is None:
            raise errors.InvalidArgument(f"a run of {self!r} without an array")
        if in_place and self.kind == "reduce" and self.rank != self.root:
            return self._checked(send if recv is None else recv, elements, False), None
        if in_place and self.kind == "broadcast" and self.rank == self.root:
            both = self._checked(send if recv is None else recv, elements, False)
            return both, both
        if in_place:
            both = self._checked(send if recv is None else recv, elements * max(self._send_wide, self._recv_wide), True)
            return both, both
        source = None if self.kind == "broadcast" and self.rank != self.root else self._checked(
            send, elements * self._send_wide, False)
        target = None if self.kind == "reduce" and self.rank != self.root else self._checked(
            recv, elements * self._recv_wide, True)
        return source, target

    def _checked(self, thing: Any, elements: int, writable: bool) -> Memory:
        memory = memory_of(thing, writable)
        if memory.type is not None and memory.type != self.type:
            raise errors.InvalidArgument(f"an array of {memory.type.name} for {self!r}")
        if memory.bytes != elements * self.type.bytes:
            raise errors.InvalidArgument(
                f"an array of {memory.bytes // self.type.bytes} elements where {self!r} needs {elements}")
        return memory

    def _submit(self, send: int | None, recv: int | None, count: int, keep: Any, token: int = 0) -> int:
        context, run = self.context, self._run
        context._calls.append(None)
        try:
            handle = context._handle
            if handle is None:
                raise context._closed()
            with self._lock:
                waiting = self._outstanding
                while waiting and lib.dfcclWaitRun(handle, self.id, waiting[0][0], 0) != IN_PROGRESS:
                    waiting.popleft()
                run.sendBuf, run.recvBuf, run.count = send, recv, count
                run.callback, run.arg = (_callback_address, token) if token else (None, None)
                code = lib.dfcclRun(handle, self.id, byref(run))
                if code != SUCCESS:
                    check(code)
                number = run.run
                waiting.append((number, keep))
                return number
        finally:
            context._calls.pop()

    def _look(self, number: int) -> int:
        context = self.context
        context._calls.append(None)
        try:
            if context._handle is None:
                raise context._closed()
            code = lib.dfcclWaitRun(context._handle, self.id, number, 0)
            if code != IN_PROGRESS:
                self._forget(number)
            return code
        finally:
            context._calls.pop()

    def _wait_run(self, number: int, timeout: float | None) -> None:
        context = self.context
        context._calls.append(None)
        try:
            handle = context._handle
            if handle is None:
                raise context._closed()
            end = None if timeout is None else time.monotonic() + timeout
            slice_ms = _SLICE_MS
            while True:
                if end is not None:
                    slice_ms = max(0, min(_SLICE_MS, int((end - time.monotonic()) * 1000) + 1))
                code = lib.dfcclWaitRun(handle, self.id, number, slice_ms)
                if code != IN_PROGRESS:
                    break
                if end is not None and time.monotonic() >= end:
                    raise errors.Timeout(f"run {number} of {self!r} is not complete after {timeout:g} s; it goes on. "
                                         + context._state_of(self.id))
            self._forget(number)
            if code != SUCCESS:
                check(code)
        finally:
            context._calls.pop()

    def _forget(self, number: int) -> None:
        """Runs of a collective end in order: all up to this one are complete."""
        with self._lock:
            waiting = self._outstanding
            while waiting and waiting[0][0] <= number:
                waiting.popleft()

    def _last(self) -> int | None:
        with self._lock:
            return self._outstanding[-1][0] if self._outstanding else None

    def wait(self, timeout: float | None = None) -> None:
        """Waits for all its runs submitted before; raises the first failure since the last such wait."""
        number = self._last()
        if number is not None:
            try:
                self._wait_run(number, timeout)
            except errors.Timeout as error:
                if "it goes on" in str(error):
                    raise
            except errors.Error:
                pass  # dfcclWait tells of the first failure
        with self.context._entered() as handle:
            check(lib.dfcclWait(handle, self.id))

    def done(self) -> bool:
        """Whether all its runs are complete."""
        number = self._last()
        return number is None or self._look(number) != IN_PROGRESS

    def deregister(self) -> None:
        """Forgets the collective. All its runs must be complete."""
        with self.context._entered() as handle:
            check(lib.dfcclDeregister(handle, self.id))
        self.context._collectives.pop(self.id, None)

    def configuration(self) -> dict[str, Any]:
        """How it travels, and why (dfcclGetConfiguration)."""
        struct = Configuration()
        with self.context._entered() as handle:
            check(lib.dfcclGetConfiguration(handle, self.id, byref(struct)))
        values = {field[0]: getattr(struct, field[0]) for field in struct._fields_[3:]}
        return {key: value.decode() if isinstance(value, bytes) else value for key, value in values.items()}


class _Registers:
    """What contexts and groups have in common."""

    def _register(self, kind: str, id: int, count: int, dtype: DataTypeLike, *, op: RedOpLike | None = None,
                  root: int | None = None, **options: Any) -> Collective:
        raise NotImplementedError

    def register_all_reduce(self, id: int, count: int, dtype: DataTypeLike, op: RedOpLike = RedOp.SUM,
                            **options: Any) -> Collective:
        """Announces an all-reduce. Local: waits for nobody.

        id         chosen by the program, the same on every member
        count      elements of the whole array
        dtype      a DataType, its name, a numpy or torch dtype
        options    ranks (the group, in group order), priority (larger first), name, algorithm, varying
        """
        return self._register("all_reduce", id, count, dtype, op=op, **options)

    def register_reduce(self, id: int, count: int, dtype: DataTypeLike, op: RedOpLike = RedOp.SUM, root: int = 0,
                        **options: Any) -> Collective:
        """Announces a reduce to `root`, a position in the group."""
        return self._register("reduce", id, count, dtype, op=op, root=root, **options)

    def register_broadcast(self, id: int, count: int, dtype: DataTypeLike, root: int = 0, **options: Any) -> Collective:
        """Announces a broadcast from `root`, a position in the group."""
        return self._register("broadcast", id, count, dtype, root=root, **options)

    def register_all_gather(self, id: int, count: int, dtype: DataTypeLike, **options: Any) -> Collective:
        """Announces an all-gather: each rank sends count elements and receives count of each member."""
        return self._register("all_gather", id, count, dtype, **options)

    def register_reduce_scatter(self, id: int, count: int, dtype: DataTypeLike, op: RedOpLike = RedOp.SUM,
                                **options: Any) -> Collective:
        """Announces a reduce-scatter: each rank sends count elements for each member and receives count."""
        return self._register("reduce_scatter", id, count, dtype, op=op, **options)

    def register_all_to_all(self, id: int, count: int, dtype: DataTypeLike, **options: Any) -> Collective:
        """Announces an all-to-all: count elements for each member and from each member."""
        return self._register("all_to_all", id, count, dtype, **options)


_kinds = {"all_reduce": "AllReduce", "reduce": "Reduce", "broadcast": "Broadcast", "all_gather": "AllGather",
          "reduce_scatter": "ReduceScatter", "all_to_all": "AllToAll"}


class _Entered:
    __slots__ = ("context",)

    def __init__(self, context: "Context"):
        self.context = context

    def __enter__(self) -> int:
        self.context._calls.append(None)
        if self.context._handle is None:
            self.context._calls.pop()
            raise self.context._closed()
        return self.context._handle

    def __exit__(self, *_: Any) -> None:
        self.context._calls.pop()


class Context(_Registers):
    """One rank of a job. Joins it; blocks until all ranks have.

    rank, size   0 to size-1, of so many
    id           unique_id() of one process, the same on every rank
    backend      "auto", "cpu" or "cuda"
    timeout      seconds after which a run that is not complete ends with Timeout; None: never

    A context is a context manager: at the end of the block it is closed. What is still open when the interpreter
    ends is closed then, and aborted first if runs are outstanding.
    """

    def __init__(self, rank: int, size: int, id: bytes, *, backend: str = "auto", device: int = -1,
                 max_blocks: int = 0, queue_depth: int = 0, timeout: float | None = None):
        if len(id) != 128:
            raise errors.InvalidArgument(f"an id of {len(id)} bytes; unique_id() gives 128")
        handle = c_void_p()
        config = _config(backend, device, max_blocks, queue_depth, timeout)
        check(lib.dfcclInit(byref(handle), size, UniqueId.from_buffer_copy(id), rank, byref(config)))
        self._adopt(handle.value)

    @classmethod
    def from_environment(cls, *, backend: str = "auto", device: int = -1, max_blocks: int = 0, queue_depth: int = 0,
                         timeout: float | None = None) -> "Context":
        """Joins by the variables of torchrun, mpirun or Slurm (dfcclInitFromEnv)."""
        handle = c_void_p()
        config = _config(backend, device, max_blocks, queue_depth, timeout)
        check(lib.dfcclInitFromEnv(byref(handle), byref(config)))
        made = cls.__new__(cls)
        made._adopt(handle.value)
        return made

    def _adopt(self, handle: int | None) -> None:
        rank, size = c_int(), c_int()
        check(lib.dfcclGetRank(handle, byref(rank), byref(size)))
        self.rank, self.size = rank.value, size.value
        self._handle, self._process = handle, os.getpid()
        self._calls: deque[None] = deque()  # one entry for each call that is inside the library
        self._collectives: dict[int, Collective] = {}
        self._close_lock = threading.Lock()
        _open.add(self)

    def __repr__(self) -> str:
        return f"<dfccl rank {self.rank} of {self.size}{', closed' if self._handle is None else ''}>"

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None and self._handle is not None:
            self.abort()  # what the block leaves outstanding might never end
        self.close()

    def _closed(self) -> errors.Error:
        return errors.InvalidUsage(f"rank {self.rank} of {self.size} is closed")

    def _entered(self) -> _Entered:
        return _Entered(self)

    # ---- collectives

    def _register(self, kind: str, id: int, count: int, dtype: DataTypeLike, *, op: RedOpLike | None = None,
                  root: int | None = None, ranks: Sequence[int] | None = None, priority: int = 0,
                  name: str | None = None, algorithm: str | None = None, varying: bool = False) -> Collective:
        kind_of_data = data_type(dtype)
        options = CollOptions(priority=priority, varying=int(varying))
        if ranks is not None:
            ranks = [int(rank) for rank in ranks]
            if self.rank not in ranks:
                raise errors.InvalidArgument(f"rank {self.rank} is not in the group {ranks}")
            options.ranks, options.nRanks = (c_int * len(ranks))(*ranks), len(ranks)
        options.name = name.encode() if name is not None else None
        options.algorithm = algorithm.encode() if algorithm is not None else None
        if count < 0 or not 0 <= id < 2**64:
            raise errors.InvalidArgument(f"id {id} or count {count} is out of range")
        arguments: list[Any] = [id, count, kind_of_data]
        if op is not None:
            arguments.append(red_op(op))
        if root is not None:
            arguments.append(root)
        with self._entered() as handle:
            check(getattr(lib, "dfcclRegister" + _kinds[kind])(handle, *arguments, byref(options)))
        made = Collective(self, kind, id, count, kind_of_data, root or 0, ranks, name, varying)
        self._collectives[id] = made
        return made

    def group(self, ranks: Iterable[int]) -> "Group":
        """Some ranks, in group order: its register_* are this context's with this group."""
        return Group(self, list(ranks))

    def collective(self, id: int) -> Collective:
        """The registered collective of an id."""
        found = self._collectives.get(id)
        if found is None:
            raise errors.InvalidArgument(f"no collective {id} is registered here")
        return found

    def run(self, id: int, send: Any = None, recv: Any = None, **options: Any) -> Run:
        """collective(id).run(...)"""
        return self.collective(id).run(send, recv, **options)

    def wait(self, id: int, timeout: float | None = None) -> None:
        """collective(id).wait(...)"""
        self.collective(id).wait(timeout)

    def wait_all(self, timeout: float | None = None) -> None:
        """Waits for all runs submitted before; raises the first failure since the last wait_all."""
        end = None if timeout is None else time.monotonic() + timeout
        failure = None
        for collective in list(self._collectives.values()):
            try:
                collective.wait(None if end is None else max(0.0, end - time.monotonic()))
            except errors.Timeout as error:
                if "it goes on" in str(error):
                    raise
                failure = failure or error
            except errors.Error as error:
                failure = failure or error
        with self._entered() as handle:
            check(lib.dfcclWaitAll(handle))
        if failure is not None:
            raise failure

    def synchronize(self) -> None:
        """Blocks until the device is idle (dfcclDeviceSynchronize)."""
        with self._entered() as handle:
            check(lib.dfcclDeviceSynchronize(handle))

    # ---- the end

    def abort(self) -> None:
        """Gives up: outstanding runs end with Aborted here, with RemoteError on peers that need this rank."""
        with self._entered() as handle:
            check(lib.dfcclAbort(handle))

    def abort_collectives(self, ids: Iterable[int]) -> None:
        """Gives up some collectives; all others go on."""
        given = list(ids)
        with self._entered() as handle:
            check(lib.dfcclAbortCollectives(handle, (c_uint64 * len(given))(*given), len(given)))

    def close(self) -> None:
        """Waits for outstanding runs and other threads' calls, and leaves the job. Twice does nothing."""
        if getattr(_inside, "callback", False):
            raise errors.InvalidUsage("a callback cannot close a context")
        with self._close_lock:
            handle = self._handle
            if handle is None:
                return
            if os.getpid() != self._process:
                self._handle = None  # a forked child has its parent's object, and no context
                _open.discard(self)
                return
            for collective in list(self._collectives.values()):  # in slices, for Ctrl-C
                try:
                    collective.wait()
                except errors.Error:
                    pass
            self._handle = None
            while self._calls:
                time.sleep(0.001)
            _open.discard(self)
            self._collectives.clear()
            check(lib.dfcclDestroy(handle))

    # ---- seeing

    def dump(self) -> str:
        """What each collective that is not complete waits for (dfcclDump)."""
        fd = os.memfd_create("dfccl-dump")
        try:
            with self._entered() as handle:
                check(lib.dfcclDump(handle, fd))
            os.lseek(fd, 0, os.SEEK_SET)
            with os.fdopen(os.dup(fd), errors="replace") as text:
                return text.read()
        finally:
            os.close(fd)

    def _state_of(self, id: int) -> str:
        """The dump's paragraph of one collective, as one line."""
        lines = self.dump().splitlines()
        for at, line in enumerate(lines):
            if line.startswith(f"  collective {id},") or line.startswith(f"  collective {id} "):
                own = [line]
                while at + 1 < len(lines) and lines[at + 1].startswith("    "):
                    at += 1
                    own.append(lines[at])
                return "; ".join(part.strip() for part in own)
        return "Nothing is known of it here."

    def stats(self) -> dict[str, int]:
        """The library's counters (dfcclGetStats)."""
        struct = Stats()
        with self._entered() as handle:
            check(lib.dfcclGetStats(handle, byref(struct)))
        return {field[0]: getattr(struct, field[0]) for field in struct._fields_[3:]}


class Group(_Registers):
    """Some ranks of a context, in group order."""

    def __init__(self, context: Context, ranks: list[int]):
        self.context, self.ranks = context, ranks

    def _register(self, kind: str, id: int, count: int, dtype: DataTypeLike, **options: Any) -> Collective:
        return self.context._register(kind, id, count, dtype, ranks=self.ranks, **options)


def contexts(size: int, *, backend: str = "auto", device: int = -1, max_blocks: int = 0, queue_depth: int = 0,
             timeout: float | None = None) -> list[Context]:
    """All ranks of a job in this process: one context each, for threads or for one thread."""
    if size < 1:
        raise errors.InvalidArgument(f"{size} ranks; a job has at least one")
    handles = (c_void_p * size)()
    config = _config(backend, device, max_blocks, queue_depth, timeout)
    check(lib.dfcclInitAll(handles, size, byref(config)))
    made = []
    for handle in handles:
        context = Context.__new__(Context)
        context._adopt(handle)
        made.append(context)
    return made


@atexit.register
def _close_all() -> None:
    """No library thread may call Python after this. Runs that nobody can wait for any more are given up."""
    for context in list(_open):
        if context._process != os.getpid() or context._handle is None:
            continue
        try:
            if not all(each.done() for each in list(context._collectives.values())):
                context.abort()
            context.close()
        except errors.Error:
            pass
