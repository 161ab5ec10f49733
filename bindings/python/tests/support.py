"""Functions that the tests share: a time limit that reports the position of each thread, and ranks
as threads or processes."""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
import traceback
import unittest
from collections.abc import Callable

import dfccl
import dfccl.context

SECONDS = int(os.environ.get("TEST_SECONDS", "120"))
# Limit of the processes of a test, which end first and print the reason
INNER_SECONDS = SECONDS * 3 // 4


def _strike(name: str) -> None:
    try:
        print(f"{name} has not ended in time", file=sys.stderr)
        faulthandler.dump_traceback(all_threads=True)
        for context in list(dfccl.context._open):
            try:
                print(context.dump(), file=sys.stderr)
            except Exception as error:
                print(f"no dump of {context!r}: {error}", file=sys.stderr)
    finally:
        os._exit(124)


def time_limit(name: str, seconds: float = SECONDS) -> Callable[[], None]:
    """Sets a time limit. Returns a function that removes it."""
    timer = threading.Timer(seconds, _strike, [name])
    timer.daemon = True
    timer.start()
    faulthandler.dump_traceback_later(
        seconds + 10, exit=True
    )  # in case the timer's thread does not run, or a dump blocks

    def lift() -> None:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()

    return lift


class Case(unittest.TestCase):
    """A test with a time limit. The ranks that it makes are closed at its end."""

    def setUp(self) -> None:
        self.addCleanup(time_limit(self.id()))

    def ranks(self, size: int, **options) -> list[dfccl.Context]:
        made = dfccl.contexts(size, **options)
        self.addCleanup(self._close, made)
        return made

    def _close(self, contexts: list[dfccl.Context]) -> None:
        for context in contexts:  # contexts are left if a test has failed
            if context._handle and not all(each.done() for each in context._collectives.values()):
                context.abort()
        for context in contexts:
            context.close()

    def on_threads(self, function, contexts) -> list:
        """Calls function(context) for each rank, in a thread each. Returns the results, or raises
        the first failure."""
        results: list = [None] * len(contexts)
        failures: list[BaseException] = []

        def body(at: int) -> None:
            try:
                results[at] = function(contexts[at])
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=body, args=(at,)) for at in range(len(contexts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return results


def _child(function, arguments, name, environment) -> None:
    """Ends as a program ends, with all that happens then, and does not return."""
    status = 0
    os.environ.clear()
    os.environ.update(environment)
    lift = time_limit(name, INNER_SECONDS)
    try:
        function(*arguments)
        lift()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.pythonapi.Py_Exit(status)


def meeting_place() -> str:
    """A file for torch's store. A port that is free now might be in use when it is needed."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return os.path.join(folder, "store")


def on_processes(function, size: int, *arguments) -> list[int]:
    """Calls function(rank, size, *arguments) in a new process for each rank. Returns the exit
    statuses. The processes are forked from one that has imported torch, which takes 1.5 s, and has
    one thread."""
    new = multiprocessing.get_context("forkserver")
    new.set_forkserver_preload(["torch.distributed"])
    environment = dict(os.environ)
    children = [
        new.Process(
            target=_child,
            args=(
                function,
                (rank, size, *arguments),
                f"rank {rank} of {function.__name__}",
                environment,
            ),
        )
        for rank in range(size)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return [child.exitcode for child in children]  # type: ignore[misc]
