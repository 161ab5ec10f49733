"""Names of collectives: calls of one name meet, in whatever order each rank makes them."""

from __future__ import annotations

import contextlib
import threading
from typing import Iterator

_local = threading.local()


def current() -> str | None:
    return getattr(_local, "name", None)


@contextlib.contextmanager
def name(text: str) -> Iterator[None]:
    """Names the calls of this thread inside the block: calls of equal shape, but different names, never meet.

        with dfccl.torch.name("layer3.weight"):
            dist.all_reduce(tensor)
    """
    before = current()
    _local.name = text
    try:
        yield
    finally:
        _local.name = before
