"""The C library by ctypes: the structs and functions of include/dfccl.h under their names."""

from __future__ import annotations

import ctypes
import os
from ctypes import (
    POINTER,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_size_t,
    c_uint,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

from . import errors

SUCCESS = 0
IN_PROGRESS = 7

VERSION_CODE = 100  # major * 10000 + minor * 100 + patch of the header that the structs below match


class _Struct(ctypes.Structure):
    """A struct that begins with size, magic and version."""

    magic_number = 0

    def __init__(self, **fields: Any) -> None:
        super().__init__(ctypes.sizeof(type(self)), self.magic_number, VERSION_CODE, **fields)


_head: Any = [("size", c_size_t), ("magic", c_uint), ("version", c_uint)]


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", c_char * 128)]


class Config(_Struct):
    magic_number = 0xDFCC1C0F
    _fields_ = _head + [
        ("backend", c_int),
        ("device", c_int),
        ("maxBlocks", c_int),
        ("queueDepth", c_int),
        ("timeoutMs", c_int),
        ("reserved", c_int),
        ("survive", c_int),
        ("maxRanks", c_int),
        ("membership", c_void_p),
        ("membershipArg", c_void_p),
    ]


class Membership(_Struct):
    magic_number = 0xDFCCC05E
    _fields_ = _head + [
        ("view", c_uint64),
        ("members", POINTER(c_int)),
        ("nMembers", c_int),
        ("lost", POINTER(c_int)),
        ("reasons", POINTER(c_int)),
        ("nLost", c_int),
        ("joined", POINTER(c_int)),
        ("nJoined", c_int),
    ]


class CollOptions(_Struct):
    magic_number = 0xDFCC10B7
    _fields_ = _head + [
        ("ranks", POINTER(c_int)),
        ("nRanks", c_int),
        ("priority", c_int),
        ("name", c_char_p),
        ("algorithm", c_char_p),
        ("varying", c_int),
    ]


class Run(_Struct):
    magic_number = 0xDFCC4089
    _fields_ = _head + [
        ("sendBuf", c_void_p),
        ("recvBuf", c_void_p),
        ("count", c_size_t),
        ("sendCounts", c_void_p),
        ("sendDispls", c_void_p),
        ("recvCounts", c_void_p),
        ("recvDispls", c_void_p),
        ("stream", c_void_p),
        ("flags", c_uint),
        ("callback", c_void_p),
        ("arg", c_void_p),
        ("run", c_uint64),
    ]


class Stats(_Struct):
    magic_number = 0xDFCC157A
    _fields_ = (
        _head
        + [
            (name, c_uint64)
            for name in (
                "sqesSubmitted sqesFetched cqesWritten callbacksRun preemptions contextSaves "
                "contextLoads "
                "daemonStarts voluntaryQuits primitivesExecuted bytesSent"
            ).split()
        ]
        + [(name, c_uint32) for name in ("taskQueueLength", "taskQueueHighWater", "blocks")]
    )


class MemoryUse(_Struct):
    magic_number = 0xDFCC3E30
    _fields_ = _head + [
        (name, c_uint64)
        for name in "collectives recordBytes ringBytes reservedBytes userBytes".split()
    ]


class Configuration(_Struct):
    magic_number = 0x64666367
    _fields_ = _head + [
        ("algorithm", c_char * 24),
        ("form", c_char * 16),
        ("blocks", c_uint32),
        ("loops", c_uint32),
        ("primitives", c_uint32),
        ("subgroup", c_uint32),
        ("chunkBytes", c_uint64),
        ("slotBytes", c_uint64),
        ("slots", c_uint32),
        ("lendsBuffers", c_uint32),
        ("pastCaches", c_uint32),
        ("borrowedTurn", c_uint32),
        ("predictedUs", c_double),
        ("measuredUs", c_double),
        ("boundUs", c_double),
        ("why", c_char * 1536),
    ]


Callback = ctypes.CFUNCTYPE(None, c_uint64, c_int, c_void_p)
MembershipCallback = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Membership), c_void_p)
AdmitCallback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)

_register = [c_void_p, c_uint64, c_size_t, c_int]
_counts = POINTER(c_size_t)
_functions = {
    "GetVersion": [POINTER(c_int)],
    "GetUniqueId": [POINTER(UniqueId)],
    "Init": [POINTER(c_void_p), c_int, UniqueId, c_int, POINTER(Config)],
    "InitAll": [POINTER(c_void_p), c_int, POINTER(Config)],
    "InitFromEnv": [POINTER(c_void_p), POINTER(Config)],
    "Destroy": [c_void_p],
    "AbortWithReason": [c_void_p, c_char_p],
    "GetRunError": [c_void_p, c_uint64, c_uint64, POINTER(c_int), c_char_p, c_size_t],
    "GetMembership": [c_void_p, POINTER(Membership)],
    "Exclude": [c_void_p, POINTER(c_int), c_int],
    "GetJoinId": [c_void_p, POINTER(UniqueId)],
    "Join": [POINTER(c_void_p), POINTER(UniqueId), POINTER(Config)],
    "Admit": [c_void_p, AdmitCallback, c_void_p],
    "GetRank": [c_void_p, POINTER(c_int), POINTER(c_int)],
    "RegisterAllReduce": _register + [c_int, POINTER(CollOptions)],
    "RegisterReduce": _register + [c_int, c_int, POINTER(CollOptions)],
    "RegisterBroadcast": _register + [c_int, POINTER(CollOptions)],
    "RegisterAllGather": _register + [POINTER(CollOptions)],
    "RegisterReduceScatter": _register + [c_int, POINTER(CollOptions)],
    "RegisterAllToAll": _register + [POINTER(CollOptions)],
    "RegisterGather": _register + [c_int, POINTER(CollOptions)],
    "RegisterScatter": _register + [c_int, POINTER(CollOptions)],
    "RegisterSendRecv": _register + [c_int, c_int, POINTER(CollOptions)],
    "RegisterBarrier": [c_void_p, c_uint64, POINTER(CollOptions)],
    "RegisterScan": _register + [c_int, c_int, POINTER(CollOptions)],
    "RegisterAllGatherV": [c_void_p, c_uint64, _counts, _counts, c_int, POINTER(CollOptions)],
    "RegisterReduceScatterV": [c_void_p, c_uint64, _counts, c_int, c_int, POINTER(CollOptions)],
    "RegisterGatherV": [
        c_void_p,
        c_uint64,
        c_size_t,
        _counts,
        _counts,
        c_int,
        c_int,
        POINTER(CollOptions),
    ],
    "RegisterScatterV": [
        c_void_p,
        c_uint64,
        _counts,
        _counts,
        c_size_t,
        c_int,
        c_int,
        POINTER(CollOptions),
    ],
    "RegisterAllToAllV": [
        c_void_p,
        c_uint64,
        _counts,
        _counts,
        _counts,
        _counts,
        c_int,
        POINTER(CollOptions),
    ],
    "RegisterNeighbours": [
        c_void_p,
        c_uint64,
        c_int,
        POINTER(c_int),
        _counts,
        c_int,
        POINTER(c_int),
        _counts,
        c_int,
        POINTER(CollOptions),
    ],
    "RegisterAllToAllDynamic": _register + [POINTER(CollOptions)],
    "RedOpCreatePreMulSum": [c_void_p, POINTER(c_int), c_void_p, c_int, c_int],
    "RedOpDestroy": [c_void_p, c_int],
    "Deregister": [c_void_p, c_uint64],
    "Run": [c_void_p, c_uint64, POINTER(Run)],
    "Test": [c_void_p, c_uint64, POINTER(c_int)],
    "WaitRun": [c_void_p, c_uint64, c_uint64, c_int],
    "AbortCollectivesWithReason": [c_void_p, POINTER(c_uint64), c_int, c_char_p],
    "DeviceSynchronize": [c_void_p],
    "MemAlloc": [c_void_p, POINTER(c_void_p), c_size_t],
    "MemFree": [c_void_p, c_void_p],
    "GetStats": [c_void_p, POINTER(Stats)],
    "GetMemory": [c_void_p, POINTER(MemoryUse)],
    "GetCollectiveMemory": [c_void_p, c_uint64, POINTER(MemoryUse)],
    "GetConfiguration": [c_void_p, c_uint64, POINTER(Configuration)],
    "Dump": [c_void_p, c_int],
}


def _load() -> ctypes.CDLL:
    path = os.environ.get("DFCCL_TEST_LIBRARY") or os.path.join(
        os.path.dirname(__file__), "libdfccl.so"
    )
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"the package dfccl cannot load its library: {error}") from None
    for name, arguments in _functions.items():
        function = getattr(library, "dfccl" + name)
        function.argtypes, function.restype = arguments, c_int
    library.dfcclGetErrorString.argtypes, library.dfcclGetErrorString.restype = [c_int], c_char_p
    library.dfcclGetLastError.argtypes, library.dfcclGetLastError.restype = [c_void_p], c_char_p
    return library


lib = _load()


def last_error(handle: int | None = None) -> str:
    return lib.dfcclGetLastError(handle).decode(errors="replace")


def run_error(handle: int | None, id: int, number: int) -> errors.Error | None:
    """The error of this run; None if the run has not failed, or is not known any more."""
    status, text = c_int(), ctypes.create_string_buffer(512)
    found = lib.dfcclGetRunError(handle, id, number, byref(status), text, len(text))
    if found != SUCCESS or status.value in (SUCCESS, IN_PROGRESS):
        return None
    return errors.of_code(status.value, text.value.decode(errors="replace"))


def check(code: int) -> None:
    """Raises the error of a result code, with the message of the calling thread's last error."""
    if code != SUCCESS:
        raise errors.of_code(code, last_error())


def version() -> str:
    """The library's version, such as "0.1.0"."""
    number = c_int()
    check(lib.dfcclGetVersion(byref(number)))
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"
