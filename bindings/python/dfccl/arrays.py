"""Data types, operators, and the memory of arrays.

The memory of an array is found by the buffer protocol, or by DLPack if the array has no buffer.
"""

from __future__ import annotations

import ctypes
import enum
from ctypes import (
    POINTER,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_ssize_t,
    c_uint8,
    c_uint16,
    c_uint64,
    c_void_p,
    py_object,
)
from typing import Any, Union

from . import errors


class DataType(enum.IntEnum):
    int8 = 0
    uint8 = 1
    int32 = 2
    uint32 = 3
    int64 = 4
    uint64 = 5
    float16 = 6
    float32 = 7
    float64 = 8
    bfloat16 = 9
    float8_e4m3 = 10
    float8_e5m2 = 11
    int16 = 12
    uint16 = 13

    @property
    def bytes(self) -> int:
        return _bytes[self]


class RedOp(enum.IntEnum):
    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4
    BAND = 5  # operators of bits are for integers
    BOR = 6
    BXOR = 7


_bytes = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2]
_other_names = {
    "float8_e4m3fn": DataType.float8_e4m3,
    "half": DataType.float16,
    "float": DataType.float32,
    "double": DataType.float64,
    "int": DataType.int32,
    "long": DataType.int64,
}

DataTypeLike = Union[DataType, str, Any]  # noqa: UP007  the form of the next line
RedOpLike = Union[RedOp, "Operator", str]


class Operator(int):
    """A user-defined operator, made by Context.pre_mul_sum."""


def data_type(like: DataTypeLike) -> DataType:
    """A DataType from itself, its name, a numpy dtype or scalar type, or a torch dtype."""
    if isinstance(like, DataType):
        return like
    name = getattr(like, "name", None) or getattr(like, "__name__", None) or str(like)
    name = str(name).rpartition(".")[2]
    found = DataType.__members__.get(name, _other_names.get(name))
    if found is None:
        raise errors.InvalidArgument(
            f"no data type {like!r}: there are {', '.join(DataType.__members__)}"
        )
    return found


def red_op(like: RedOpLike) -> int:
    if isinstance(like, (RedOp, Operator)):
        return like
    found = RedOp.__members__.get(str(like).upper())
    if found is None:
        raise errors.InvalidArgument(
            f"no operator {like!r}: there are {', '.join(RedOp.__members__)}"
        )
    return found


class _Buffer(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [py_object, POINTER(_Buffer), c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [POINTER(_Buffer)], None
_WRITABLE, _FORMAT, _C_CONTIGUOUS = 0x1, 0x4, 0x38


class _Export:
    """Keeps the memory of an object in place as long as this object exists."""

    def __init__(self, thing: Any, flags: int):
        self.buffer = None
        buffer = _Buffer()
        _get_buffer(thing, ctypes.byref(buffer), flags)
        self.buffer = buffer

    def __del__(self, release: Any = _release_buffer) -> None:
        if self.buffer is not None:
            release(self.buffer)


class _DlTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = [py_object, c_char_p], c_void_p

_DL_HOST = (1, 3)  # ordinary memory, and memory that CUDA has locked
_dl_types = {
    (0, 8): DataType.int8,
    (0, 16): DataType.int16,
    (1, 16): DataType.uint16,
    (0, 32): DataType.int32,
    (0, 64): DataType.int64,
    (1, 8): DataType.uint8,
    (1, 32): DataType.uint32,
    (1, 64): DataType.uint64,
    (2, 16): DataType.float16,
    (2, 32): DataType.float32,
    (2, 64): DataType.float64,
    (4, 16): DataType.bfloat16,
    (10, 8): DataType.float8_e4m3,
    (12, 8): DataType.float8_e5m2,
}
_signed = {1: DataType.int8, 2: DataType.int16, 4: DataType.int32, 8: DataType.int64}
_unsigned = {1: DataType.uint8, 2: DataType.uint16, 4: DataType.uint32, 8: DataType.uint64}
_formats = {
    **dict.fromkeys("bhilqn", _signed),
    **dict.fromkeys("BHILQN", _unsigned),
    "e": {2: DataType.float16},
    "f": {4: DataType.float32},
    "d": {8: DataType.float64},
}
_raw = (bytes, bytearray)  # bytes have the type of the collective


class Memory:
    """The address and the size of an array, and the object that keeps its memory in place."""

    __slots__ = ("address", "bytes", "type", "keep")

    def __init__(self, address: int, size: int, type: DataType | None, keep: Any):
        self.address, self.bytes, self.type, self.keep = address, size, type, keep


def _by_buffer(thing: Any, writable: bool) -> Memory | None:
    try:
        export = _Export(thing, _C_CONTIGUOUS | _FORMAT | (_WRITABLE if writable else 0))
    except (TypeError, ValueError, BufferError) as error:
        if (
            isinstance(error, BufferError)
            or "contiguous" in str(error)
            or "read-only" in str(error)
        ):
            raise errors.InvalidArgument(
                f"the memory of a {type(thing).__name__} cannot be used: {error}"
            ) from None
        return None
    buffer = export.buffer
    assert buffer is not None  # the buffer has not been released
    code = (buffer.format or b"B").decode().lstrip("@=<")
    kind = None if isinstance(thing, _raw) else _formats.get(code, {}).get(buffer.itemsize)
    if kind is None and not isinstance(thing, _raw):
        raise errors.InvalidArgument(f"elements of format {code!r} have no data type here")
    return Memory(buffer.buf or 0, buffer.len, kind, export)


def _by_dlpack(thing: Any) -> Memory:
    capsule = thing.__dlpack__()
    tensor = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), POINTER(_DlTensor)).contents
    if tensor.device_type not in _DL_HOST:
        raise errors.InvalidArgument(
            f"a tensor on a device of DLPack type {tensor.device_type}: this takes host memory"
        )
    kind = _dl_types.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if kind is None:
        raise errors.InvalidArgument(
            f"DLPack type {tensor.code} of {tensor.bits} bits has no data type here"
        )
    elements = 1
    for axis in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[axis] > 1 and tensor.strides[axis] != elements:
            raise errors.InvalidArgument("a tensor must be contiguous")
        elements *= tensor.shape[axis]
    return Memory((tensor.data or 0) + tensor.byte_offset, elements * kind.bytes, kind, capsule)


def memory_of(thing: Any, writable: bool) -> Memory:
    """The memory of an array, which stays in place as long as the result exists."""
    dtype = getattr(thing, "dtype", None)
    name = getattr(dtype, "name", None)
    if name in (
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
    ):  # numpy arrays of ml_dtypes export no buffer
        memory = _by_buffer(thing.view("uint8"), writable)
        if memory is not None:
            memory.type = data_type(name)
            return memory
    memory = _by_buffer(thing, writable)
    if memory is not None:
        return memory
    if hasattr(thing, "__dlpack__"):
        return _by_dlpack(thing)
    raise errors.InvalidArgument(
        f"a {type(thing).__name__} has neither the buffer protocol nor DLPack"
    )
