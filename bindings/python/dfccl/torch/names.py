"""Names of collectives: calls of one name are matched, in whatever order each rank makes them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class _Local(threading.local):
    # A member of the class, which is fast to read in a thread without names
    name: str | None = None


local = _Local()


def current() -> str | None:
    return local.name


@contextlib.contextmanager
def name(text: str | None) -> Iterator[None]:
    """Names the calls of this thread in the block. Calls of equal shape and different names are
    never matched.

    with dfccl.torch.name("layer3.weight"):
        dist.all_reduce(tensor)
    """
    before = local.name
    local.name = text
    try:
        yield
    finally:
        local.name = before
