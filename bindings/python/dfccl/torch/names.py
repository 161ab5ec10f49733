"""Names of collectives: calls of one name meet, in whatever order each rank makes them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class _Local(threading.local):
    name: str | None = None  # of the class: a thread that never names anything finds it fast


local = _Local()


def current() -> str | None:
    return local.name


@contextlib.contextmanager
def name(text: str | None) -> Iterator[None]:
    """Names the calls of this thread inside the block: calls of equal shape, but different names,
    never meet.

    with dfccl.torch.name("layer3.weight"):
        dist.all_reduce(tensor)
    """
    before = local.name
    local.name = text
    try:
        yield
    finally:
        local.name = before
