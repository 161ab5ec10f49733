"""Collective communication that cannot deadlock: run collectives in any order on any rank.

    import dfccl, numpy

    ranks = dfccl.contexts(2)  # all ranks in this process; Context(...) makes one rank of a job
    data = [numpy.full(4, rank + 1, dtype="float32") for rank in (0, 1)]
    sums = [rank.register_all_reduce(7, 4, "float32") for rank in ranks]
    runs = [each.run(array) for each, array in zip(sums, data)]
    for run in runs:
        run.wait()

A collective is registered once, under an id that is the same on all members, and run any number of
times. A call that waits releases the GIL. Failures are exceptions (dfccl.Error) with the message of
the library. The manual is docs/PYTHON.md.
"""

from .arrays import DataType, Operator, RedOp
from .collective import Collective, Run
from .context import Context, Group, contexts, unique_id
from .errors import (
    Aborted,
    Error,
    InvalidArgument,
    InvalidUsage,
    Mismatch,
    OutOfMemory,
    RemoteError,
    Timeout,
)
from .library import version
from .membership import Admit, Membership

__version__ = version()

SUM, PROD, MAX, MIN, AVG, BAND, BOR, BXOR = RedOp

__all__ = [
    "__version__",
    "Aborted",
    "Admit",
    "AVG",
    "BAND",
    "BOR",
    "BXOR",
    "Collective",
    "Context",
    "DataType",
    "Error",
    "Group",
    "InvalidArgument",
    "InvalidUsage",
    "MAX",
    "Membership",
    "MIN",
    "Mismatch",
    "Operator",
    "OutOfMemory",
    "PROD",
    "RedOp",
    "RemoteError",
    "Run",
    "SUM",
    "Timeout",
    "contexts",
    "unique_id",
    "version",
]
