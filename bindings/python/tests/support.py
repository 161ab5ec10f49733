"""What the tests share: a time limit that says what was stuck, and ranks as threads or processes."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import sys
import threading
import unittest

import dfccl
import dfccl.context

SECONDS = int(os.environ.get("TEST_SECONDS", "120"))


def _strike(name: str) -> None:
    print(f"{name} has not ended after {SECONDS} s", file=sys.stderr)
    for context in list(dfccl.context._open):
        print(context.dump(), file=sys.stderr)
    faulthandler.dump_traceback(all_threads=True)
    os._exit(124)


def time_limit(name: str) -> threading.Timer:
    timer = threading.Timer(SECONDS, _strike, [name])
    timer.daemon = True
    timer.start()
    return timer


class Case(unittest.TestCase):
    """Each test has a time limit; the ranks that it makes are closed at its end."""

    def setUp(self) -> None:
        self.addCleanup(time_limit(self.id()).cancel)

    def ranks(self, size: int, **options) -> list[dfccl.Context]:
        made = dfccl.contexts(size, **options)
        self.addCleanup(self._close, made)
        return made

    def _close(self, contexts: list[dfccl.Context]) -> None:
        for context in contexts:  # of a test that failed in the middle
            if context._handle and not all(each.done() for each in context._collectives.values()):
                context.abort()
        for context in contexts:
            context.close()

    def on_threads(self, function, contexts) -> list:
        """function(context) of each rank in a thread of its own: the results, or the first failure."""
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


def _child(function, arguments, name) -> None:
    timer = time_limit(name)
    function(*arguments)
    timer.cancel()


def on_processes(function, size: int, *arguments) -> list[int]:
    """function(rank, size, *arguments) in a new process for each rank: their exit statuses."""
    spawn = multiprocessing.get_context("spawn")
    children = [spawn.Process(target=_child, args=(function, (rank, size, *arguments), f"rank {rank} of {function.__name__}"))
                for rank in range(size)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return [child.exitcode for child in children]
