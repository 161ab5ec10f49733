"""Promises of ends: errors and their reasons, aborts, and contexts, processes and forked children
that end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import unittest

import dfccl
import numpy
from support import Case, on_processes


class Reasons(Case):
    def test_each_run_has_its_own_error(self):
        context, peer = self.ranks(2)
        told = {}
        one, other = (context.register_all_reduce(id, 1, "int32") for id in (1, 2))
        runs = {
            id: each.run(
                numpy.ones(1, "int32"), callback=lambda error, id=id: told.setdefault(id, error)
            )
            for id, each in ((1, one), (2, other))
        }
        context.abort_collectives([1], "the first reason")
        context.abort_collectives([2], "the second reason")
        for run in runs.values():
            with self.assertRaises(dfccl.Aborted):
                run.wait()
        for id, words in ((1, "the first reason"), (2, "the second reason")):
            self.assertIn(words, str(told[id]))
            self.assertIn(words, str(runs[id].error()))
            self.assertIsInstance(runs[id].error(), dfccl.Aborted)

    def test_an_exception_in_a_block_is_the_reason_that_peers_see(self):
        context, peer = self.ranks(2)
        both = [each.register_all_reduce(1, 1, "int32") for each in (context, peer)]
        run = both[0].run(numpy.ones(1, "int32"))
        with self.assertRaises(ZeroDivisionError), peer:
            both[1].run(numpy.ones(1, "int32")).wait()
            run.wait()
            run = both[0].run(numpy.ones(1, "int32"))
            raise ZeroDivisionError
        with self.assertRaisesRegex(dfccl.RemoteError, "because: .*ZeroDivisionError") as raised:
            run.wait()
        self.assertNotIn("dfcclAbort", str(raised.exception))

    def test_the_end_of_a_program_is_the_reason_that_peers_see(self):
        program = """
import dfccl, numpy
contexts = dfccl.contexts(2)
for id in (1, 2):
    both = [context.register_all_reduce(id, 1, "int32") for context in contexts]
    both[id - 1].run(numpy.ones(1, "int32"), callback=lambda error: print(error, flush=True))
"""
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(ended.stdout.count("because: the program has ended"), 2, ended.stdout)
        self.assertNotIn("dfcclAbort", ended.stdout)
        self.assertEqual(ended.returncode, 0)


class Ends(Case):
    def test_errors_have_the_librarys_sentence(self):
        contexts = self.ranks(2)
        contexts[0].register_all_reduce(1, 4, "float32")
        with self.assertRaisesRegex(dfccl.InvalidUsage, "1"):
            contexts[0].register_all_reduce(1, 4, "float32")
        contexts[1].register_all_reduce(1, 5, "float32")
        for context, count in zip(
            contexts, (4, 5)
        ):  # refused at once if the other registration has already arrived
            with self.assertRaisesRegex(dfccl.Mismatch, "4.*5|5.*4"):
                context.run(1, numpy.ones(count, "float32")).wait()

    def test_abort(self):
        contexts = self.ranks(2)
        run = contexts[0].register_all_reduce(1, 1, "int32").run(numpy.ones(1, "int32"))
        contexts[0].abort()
        with self.assertRaises(dfccl.Aborted):
            run.wait()

    def test_some_collectives_are_given_up_and_others_go_on(self):
        contexts = self.ranks(2)
        both = [
            [context.register_all_reduce(id, 1, "int32") for id in (1, 2)] for context in contexts
        ]
        run = both[0][0].run(numpy.ones(1, "int32"))
        contexts[0].abort_collectives([1])
        with self.assertRaises(dfccl.Aborted):
            run.wait()
        for each in [both[rank][1].run(numpy.ones(1, "int32")) for rank in range(2)]:
            each.wait()

    def test_closed_is_said(self):
        (context,) = self.ranks(1)
        sums = context.register_all_reduce(1, 1, "int32")
        context.close()
        context.close()
        for call in (
            lambda: sums.run(numpy.ones(1, "int32")),
            lambda: context.dump(),
            lambda: context.wait_all(),
        ):
            with self.assertRaisesRegex(dfccl.InvalidUsage, "rank 0 of 1 is closed"):
                call()

    def test_close_waits_for_other_threads(self):
        contexts = self.ranks(2)
        both = [context.register_all_reduce(1, 1, "int32") for context in contexts]
        run = both[0].run(numpy.ones(1, "int32"))
        failures = []

        def caught(function):
            try:
                function()
            except Exception as error:
                failures.append(error)

        waits = threading.Thread(target=caught, args=(run.wait,))
        waits.start()
        closes = threading.Thread(target=caught, args=(contexts[0].close,))
        closes.start()
        time.sleep(0.05)
        self.assertTrue(closes.is_alive())
        both[1].run(numpy.ones(1, "int32")).wait()
        waits.join()
        closes.join()
        self.assertEqual(failures, [])
        with self.assertRaisesRegex(dfccl.InvalidUsage, "rank 0 of 2 is closed"):
            contexts[0].dump()

    def test_deregister_and_register_again(self):
        (context,) = self.ranks(1)
        for count in (1, 2):
            sums = context.register_all_reduce(1, count, "int32")
            sums.run(numpy.ones(count, "int32")).wait()
            sums.deregister()
        with self.assertRaisesRegex(dfccl.InvalidArgument, "no collective 1"):
            context.collective(1)

    def test_configuration_and_dump(self):
        (context,) = self.ranks(1)
        configuration = context.register_all_reduce(1, 1, "int32").configuration()
        self.assertIn("why", configuration)
        self.assertIn("rank 0 of 1", context.dump())


def _sum_of_ranks(rank, size, id):
    with dfccl.Context(rank, size, id, timeout=30) as context:
        array = numpy.full(1000, rank, "int64")
        context.register_all_reduce(1, 1000, "int64").run(array).wait()
        assert (array == size * (size - 1) // 2).all()


def _leave_without_closing(rank, size, id):
    context = dfccl.Context(rank, size, id)
    sums = context.register_all_reduce(1, 1, "int64")
    if rank == 0:
        sums.run(numpy.ones(1, "int64"))  # this run is outstanding at the end of the process
        time.sleep(0.2)
    else:
        try:
            sums.run(numpy.ones(1, "int64")).wait()
            sums.run(numpy.ones(1, "int64")).wait()
        except dfccl.RemoteError as error:
            assert "died" not in str(error), error  # rank 0 has left in order
            return
        raise AssertionError("rank 0 is gone, and no error reports it")


def _forks(rank, size, id):
    with dfccl.Context(rank, size, id, timeout=30) as context:
        sums = context.register_all_reduce(1, 1, "int64")
        child = os.fork()
        if child == 0:
            try:
                sums.run(numpy.ones(1, "int64"))
            except dfccl.Error as error:
                os._exit(0 if "forked" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        sums.run(numpy.ones(1, "int64")).wait()


class Processes(Case):
    def test_one_process_for_each_rank(self):
        self.assertEqual(on_processes(_sum_of_ranks, 2, dfccl.unique_id()), [0, 0])

    def test_a_process_ends_with_a_run_outstanding(self):
        self.assertEqual(on_processes(_leave_without_closing, 2, dfccl.unique_id()), [0, 0])

    def test_a_forked_child_is_refused_and_its_parent_goes_on(self):
        self.assertEqual(on_processes(_forks, 2, dfccl.unique_id()), [0, 0])


if __name__ == "__main__":
    unittest.main()
