"""Contexts: the ranks of a job."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from . import errors
from .arrays import DataTypeLike, Operator, RedOpLike, data_type, memory_of, red_op
from .collective import Collective, Run, inside_callback
from .library import CollOptions, Config, MemoryUse, Stats, UniqueId, check, lib
from .membership import Members, Membership, Notifier
from .registers import Registers

_BACKENDS = {"auto": 0, "cpu": 1, "cuda": 2}
_open: set[Context] = set()
_kinds = {
    "all_reduce": "AllReduce",
    "reduce": "Reduce",
    "broadcast": "Broadcast",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "all_to_all": "AllToAll",
    "gather": "Gather",
    "scatter": "Scatter",
}


def unique_id() -> bytes:
    """The id of a new job: 128 bytes, to be sent to every rank. This process must exist until all
    ranks have joined."""
    made = UniqueId()
    check(lib.dfcclGetUniqueId(byref(made)))
    return bytes(made)


def _config(
    notifier: Notifier,
    backend: str,
    device: int,
    max_blocks: int,
    queue_depth: int,
    timeout: float | None,
) -> Config:
    if backend not in _BACKENDS:
        raise errors.InvalidArgument(f"no backend {backend!r}: there are {', '.join(_BACKENDS)}")
    return Config(
        backend=_BACKENDS[backend],
        device=device,
        maxBlocks=max_blocks,
        queueDepth=queue_depth,
        timeoutMs=0 if timeout is None else max(1, int(timeout * 1000)),
        survive=notifier.survive,
        membership=notifier.address,
    )


class _Entered:
    __slots__ = ("context",)

    def __init__(self, context: Context):
        self.context = context

    def __enter__(self) -> int:
        self.context._calls.append(None)
        if self.context._handle is None:
            self.context._calls.pop()
            raise self.context._closed()
        return self.context._handle

    def __exit__(self, *_: Any) -> None:
        self.context._calls.pop()


class Context(Registers, Members):
    """One rank of a job. The constructor blocks until all ranks have joined.

    rank, size   this rank (0 to size - 1), and the number of ranks
    id           unique_id() of one process, the same on every rank
    backend      "auto", "cpu" or "cuda"
    timeout      seconds after which an incomplete run ends with Timeout; None: no limit
    survive      0: a lost rank ends the runs of all ranks with RemoteError. 1: the others go on,
                 and execute again what was under way. 2: the others go on, and what was under way
                 ends with RemoteError, alike on all. With the CPU device
    membership   with survive: called with a Membership for each new view, on a thread of the
                 library, before any run of the collectives that lost a member completes in it. It
                 may register and run collectives, and must not wait. An exception in it goes to
                 sys.unraisablehook, as those of callbacks do. Not called while the context closes

    A context is a context manager, which closes the context at the end of the block. A context that
    is open when the interpreter ends is closed then, and aborted first if runs are outstanding.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        id: bytes,
        *,
        backend: str = "auto",
        device: int = -1,
        max_blocks: int = 0,
        queue_depth: int = 0,
        timeout: float | None = None,
        survive: int = 0,
        membership: Callable[[Membership], Any] | None = None,
    ):
        if len(id) != 128:
            raise errors.InvalidArgument(f"an id of {len(id)} bytes; unique_id() gives 128")
        handle = c_void_p()
        notifier = Notifier(survive, membership)
        config = _config(notifier, backend, device, max_blocks, queue_depth, timeout)
        check(
            lib.dfcclInit(byref(handle), size, UniqueId.from_buffer_copy(id), rank, byref(config))
        )
        self._adopt(handle.value, notifier)

    @classmethod
    def from_environment(
        cls,
        *,
        backend: str = "auto",
        device: int = -1,
        max_blocks: int = 0,
        queue_depth: int = 0,
        timeout: float | None = None,
        survive: int = 0,
        membership: Callable[[Membership], Any] | None = None,
    ) -> Context:
        """Joins a job by the environment variables of torchrun, mpirun or Slurm
        (dfcclInitFromEnv)."""
        handle = c_void_p()
        notifier = Notifier(survive, membership)
        config = _config(notifier, backend, device, max_blocks, queue_depth, timeout)
        check(lib.dfcclInitFromEnv(byref(handle), byref(config)))
        made = cls.__new__(cls)
        made._adopt(handle.value, notifier)
        return made

    @classmethod
    def join(
        cls,
        id: bytes,
        *,
        survive: int,
        backend: str = "auto",
        device: int = -1,
        max_blocks: int = 0,
        queue_depth: int = 0,
        timeout: float | None = None,
        membership: Callable[[Membership], Any] | None = None,
    ) -> Context:
        """Joins a running job, and takes the number of a lost rank (dfcclJoin). Blocks until all
        members have called admit, for at most DFCCL_INIT_TIMEOUT_MS. Raises Timeout with the reason
        if it was not taken in.

        id        join_id() of a member on this host
        survive   the job's value
        """
        if len(id) != 128:
            raise errors.InvalidArgument(f"an id of {len(id)} bytes; join_id() gives 128")
        handle = c_void_p()
        notifier = Notifier(survive, membership)
        config = _config(notifier, backend, device, max_blocks, queue_depth, timeout)
        check(lib.dfcclJoin(byref(handle), byref(UniqueId.from_buffer_copy(id)), byref(config)))
        made = cls.__new__(cls)
        made._adopt(handle.value, notifier)
        return made

    def _adopt(self, handle: int | None, notifier: Notifier) -> None:
        rank, size = c_int(), c_int()
        check(lib.dfcclGetRank(handle, byref(rank), byref(size)))
        self.rank, self.size = rank.value, size.value
        self._handle, self._process = handle, os.getpid()
        self._notifier, self.survive = notifier, notifier.survive
        self._calls: deque[None] = deque()  # one entry for each call that executes in the library
        self._collectives: dict[int, Collective] = {}
        self._failure: tuple[int, str] | None = None  # the first failure since the last wait_all
        self._close_lock = threading.Lock()
        _open.add(self)

    def __repr__(self) -> str:
        return (
            f"<dfccl rank {self.rank} of {self.size}{', closed' if self._handle is None else ''}>"
        )

    def __enter__(self) -> Context:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None and self._handle is not None:
            # Runs that the block has left outstanding might never end.
            self.abort(f"an exception ended the block that uses the context: {kind.__name__}")
        self.close()

    def _closed(self) -> errors.Error:
        return errors.InvalidUsage(f"rank {self.rank} of {self.size} is closed")

    def _entered(self) -> _Entered:
        return _Entered(self)

    # ---- collectives

    def _register(
        self,
        kind: str,
        id: int,
        count: int,
        dtype: DataTypeLike,
        *,
        op: RedOpLike | None = None,
        root: int | None = None,
        **options: Any,
    ) -> Collective:
        kind_of_data = data_type(dtype)
        if count < 0:
            raise errors.InvalidArgument(f"id {id} or count {count} is out of range")
        arguments: list[Any] = [count, kind_of_data]
        if op is not None:
            arguments.append(red_op(op))
        if root is not None:
            arguments.append(root)
        return self._register_as(
            kind, id, _kinds[kind], arguments, count, kind_of_data, None, root=root or 0, **options
        )

    def _register_as(
        self,
        kind: str,
        id: int,
        function: str,
        arguments: Sequence[Any],
        count: int,
        dtype: DataTypeLike,
        sizes: tuple[int | None, int | None] | None,
        *,
        root: int = 0,
        ranks: Sequence[int] | None = None,
        priority: int = 0,
        name: str | None = None,
        algorithm: str | None = None,
        varying: bool = False,
    ) -> Collective:
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
        size = self.size if ranks is None else len(ranks)
        if (
            any(
                isinstance(each, ctypes.Array) and each._type_ is c_size_t and len(each) != size
                for each in arguments
            )
            and kind != "neighbours"
        ):
            raise errors.InvalidArgument(
                f"{kind} among {size} ranks needs {size} counts and displacements"
            )
        with self._entered() as handle:
            check(getattr(lib, "dfcclRegister" + function)(handle, id, *arguments, byref(options)))
        made = Collective(
            self, kind, id, count, data_type(dtype), root, ranks, name, varying, sizes
        )
        self._collectives[id] = made
        return made

    def _position(self, options: dict[str, Any]) -> int:
        ranks = options.get("ranks")
        if ranks is None:
            return self.rank
        if self.rank not in ranks:
            raise errors.InvalidArgument(f"rank {self.rank} is not in the group {list(ranks)}")
        return list(ranks).index(self.rank)

    def _group_size(self, options: dict[str, Any]) -> int:
        return self.size if options.get("ranks") is None else len(options["ranks"])

    def pre_mul_sum(self, scalar: Any, dtype: DataTypeLike) -> Operator:
        """An operator that multiplies the data of each member by the scalar of that member, and
        sums the products.

        scalar   one element of dtype, as an array or as bytes; members may have different scalars
        """
        kind, number = data_type(dtype), c_int()
        memory = memory_of(scalar, False)
        if memory.bytes != kind.bytes or memory.type not in (None, kind):
            raise errors.InvalidArgument(
                f"the scalar has {memory.bytes} bytes; one element of {kind.name} is needed"
            )
        with self._entered() as handle:
            check(lib.dfcclRedOpCreatePreMulSum(handle, byref(number), memory.address, kind, 0))
        return Operator(number.value)

    def destroy_operator(self, operator: Operator) -> None:
        """Destroys an operator. Collectives registered with it continue to work; new ones are
        refused."""
        with self._entered() as handle:
            check(lib.dfcclRedOpDestroy(handle, operator))

    def group(self, ranks: Iterable[int]) -> Group:
        """A group of ranks, in group order. Its register_* functions register collectives of this
        group."""
        return Group(self, list(ranks))

    def collective(self, id: int) -> Collective:
        """The collective registered under this id."""
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
        """Waits for all runs submitted before. Raises the first failure since the last wait_all."""
        end = None if timeout is None else time.monotonic() + timeout
        collectives = list(self._collectives.values())
        for collective, number in [(each, each._last()) for each in collectives]:
            collective._wait_up_to(
                number, None if end is None else max(0.0, end - time.monotonic())
            )
        for collective in collectives:
            collective._failure = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise errors.of_code(*failure)
        with self._entered() as handle:
            for collective in list(self._collectives.values())[:1]:
                check(
                    lib.dfcclTest(handle, collective.id, byref(c_int()))
                )  # the context is broken, and raises its failure

    def synchronize(self) -> None:
        """Blocks until the device is idle (dfcclDeviceSynchronize)."""
        with self._entered() as handle:
            check(lib.dfcclDeviceSynchronize(handle))

    # ---- the end

    def abort(self, reason: str | None = None) -> None:
        """Aborts the context. Outstanding runs end with Aborted on this rank, and with RemoteError
        on peers that need this rank. The errors of all ranks contain the reason, if there is
        one."""
        with self._entered() as handle:
            check(lib.dfcclAbortWithReason(handle, _reason(reason)))

    def abort_collectives(self, ids: Iterable[int], reason: str | None = None) -> None:
        """Aborts these collectives; all others continue."""
        given = list(ids)
        with self._entered() as handle:
            check(
                lib.dfcclAbortCollectivesWithReason(
                    handle, (c_uint64 * len(given))(*given), len(given), _reason(reason)
                )
            )

    def close(self) -> None:
        """Waits for outstanding runs and for calls of other threads, and leaves the job. A second
        call does nothing."""
        if inside_callback():
            raise errors.InvalidUsage("a callback cannot close a context")
        with self._close_lock:
            handle = self._handle
            if handle is None:
                return
            if os.getpid() != self._process:
                self._handle = (
                    None  # in a forked child: the object is a copy, and there is no context
                )
                _open.discard(self)
                return
            for collective in list(
                self._collectives.values()
            ):  # waits in slices, so that Ctrl-C works
                try:
                    collective.wait()
                except errors.Error:
                    pass
            self._handle = None  # From here on no run can be submitted.
            self._notifier.closing.add(handle)
            try:
                while self._calls:
                    time.sleep(0.001)
                for collective in list(
                    self._collectives.values()
                ):  # callbacks may have submitted more runs
                    number = collective._last()
                    if number is not None:
                        collective._drive(handle, number, None)
            except BaseException:
                self._notifier.closing.discard(handle)
                self._handle = handle  # Ctrl-C: the context is still open
                raise
            _open.discard(self)
            self._collectives.clear()
            check(lib.dfcclDestroy(handle))

    # ---- observation

    def dump(self) -> str:
        """A text that names, for each incomplete collective, what it waits for (dfcclDump)."""
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
        """The paragraph about one collective in the dump, as one line."""
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

    def memory(self) -> dict[str, int]:
        """The memory that the context has for its collectives, in bytes (dfcclGetMemory)."""
        struct = MemoryUse()
        with self._entered() as handle:
            check(lib.dfcclGetMemory(handle, byref(struct)))
        return {field[0]: getattr(struct, field[0]) for field in struct._fields_[3:]}


class Group(Registers):
    """Some ranks of a context, in group order."""

    def __init__(self, context: Context, ranks: list[int]):
        self.context, self.ranks = context, ranks

    def _register(
        self, kind: str, id: int, count: int, dtype: DataTypeLike, **options: Any
    ) -> Collective:
        return self.context._register(kind, id, count, dtype, ranks=self.ranks, **options)

    def _register_as(self, kind: str, id: int, *arguments: Any, **options: Any) -> Collective:
        return self.context._register_as(kind, id, *arguments, ranks=self.ranks, **options)

    def _position(self, options: dict[str, Any]) -> int:
        return self.context._position({"ranks": self.ranks})

    def _group_size(self, options: dict[str, Any]) -> int:
        return len(self.ranks)


def contexts(
    size: int,
    *,
    backend: str = "auto",
    device: int = -1,
    max_blocks: int = 0,
    queue_depth: int = 0,
    timeout: float | None = None,
    survive: int = 0,
    membership: Callable[[Membership], Any] | None = None,
) -> list[Context]:
    """Makes a job of which all ranks are in this process. Returns one context for each rank, for
    use by one thread or by several. Options are those of Context; membership is called for each
    rank."""
    if size < 1:
        raise errors.InvalidArgument(f"{size} ranks; a job has at least one")
    handles = (c_void_p * size)()
    notifier = Notifier(survive, membership)
    config = _config(notifier, backend, device, max_blocks, queue_depth, timeout)
    check(lib.dfcclInitAll(handles, size, byref(config)))
    made = []
    for handle in handles:
        context = Context.__new__(Context)
        context._adopt(handle, notifier)
        made.append(context)
    return made


def _reason(text: str | None) -> bytes | None:
    return None if text is None else text.encode(errors="replace")


@atexit.register
def _close_all() -> None:
    """Closes all contexts, since no thread of the library may call Python once the interpreter
    ends. Outstanding runs are aborted, because no thread can wait for them any more."""
    for context in list(_open):
        if context._process != os.getpid() or context._handle is None:
            continue
        try:
            if not all(each.done() for each in list(context._collectives.values())):
                context.abort("the program has ended while runs were outstanding")
            context.close()
        except errors.Error:
            pass
