"""The way of a job's id from rank 0 to the other ranks, through torch's store.

The store may have keys of earlier attempts of a job, because torchrun restarts all ranks under the
same store, and the nodes of a job do not agree on the number of the attempt. So a rank requests the
id with a number that the store gives only once, and rank 0 answers that number. All other keys of a
job carry a digest of its id.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from typing import Any

_POLL_S = (0.001, 0.05)  # interval at which rank 0 polls: at first, and after a long time
_STOP_S = 2.0  # time for the end of a poll, in case the store's host does not answer


def request(store: Any, key: str) -> bytes:
    """The answer of rank 0 to this rank. Waits for it, within the store's time limit."""
    answer = f"{key} answer {store.add(f'{key} requests', 1)}"
    told = bytes(store.get(answer))
    with contextlib.suppress(RuntimeError, NotImplementedError):
        store.delete_key(answer)
    return told


def _answer(store: Any, key: str, told: bytes, joined: threading.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the store is gone, and joining fails
        # Requests of earlier attempts that were not answered are answered now, in vain
        answered, pause = store.add(f"{key} answered", 0), _POLL_S[0]
        while not joined.is_set():
            requests = store.add(f"{key} requests", 0)
            for number in range(answered + 1, requests + 1):
                store.set(f"{key} answer {number}", told)
            if requests > answered:
                store.add(f"{key} answered", requests - answered)
                answered, pause = requests, _POLL_S[0]
            joined.wait(pause)
            pause = min(1.2 * pause, _POLL_S[1])


@contextlib.contextmanager
def answers(store: Any, key: str, told: bytes) -> Iterator[None]:
    """Answers the requests of other ranks during the block, in which rank 0 joins the job. The
    block ends when all ranks have joined, so they have had their answers then."""
    joined = threading.Event()
    thread = threading.Thread(
        target=_answer, args=(store, key, told, joined), name="dfccl rendezvous", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        joined.set()
        thread.join(_STOP_S)


def name_of(id: bytes) -> str:
    """The beginning of a job's keys in the store."""
    return f"dfccl {hashlib.blake2b(id, digest_size=8).hexdigest()}"
