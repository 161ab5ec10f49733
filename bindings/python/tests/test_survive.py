"""Promises of contexts with `survive`: the other ranks go on when one is killed, leaves or is
excluded, each view is reported once, and wrong use is refused with a sentence."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
import unittest

import dfccl
import numpy
from support import Case, on_processes

RANKS, VICTIM, KILLED_AT, STEPS = 4, 1, 20, 40


def _wanted(ranks) -> int:
    return sum(1 << rank for rank in ranks)


def _go_on(rank: int, size: int, id: bytes, survive: int) -> None:
    views: list[dfccl.Membership] = []
    told = threading.Event()

    def membership(view: dfccl.Membership) -> None:
        views.append(view)
        told.set()

    everybody, others = range(size), [each for each in range(size) if each != VICTIM]
    with dfccl.Context(
        rank, size, id, backend="cpu", survive=survive, membership=membership
    ) as context:
        assert (context.membership().view, context.membership().members) == (0, tuple(everybody))
        sums, failed, outcomes = context.register_all_reduce(1, 1000, "int32"), [], []
        for step in range(STEPS):
            if rank == VICTIM and step == KILLED_AT:
                os.kill(os.getpid(), signal.SIGKILL)
            array = numpy.full(1000, 1 << rank, "int32")
            run = sums.run(array)
            try:
                run.wait(timeout=60)
            except dfccl.RemoteError as error:
                assert "when a member was lost (view 1)" in str(error), error
                failed.append(step)
                continue
            assert (array == array[0]).all(), array
            outcomes.append(int(array[0]))
        # All survivors have the same results, and the step of the death fails or is repeated
        wanted = [_wanted(everybody)] * KILLED_AT + [_wanted(others)] * (STEPS - KILLED_AT)
        if survive == 2:
            assert failed == [KILLED_AT], failed
            del wanted[KILLED_AT]
        else:
            assert not failed, failed
        assert outcomes == wanted, outcomes
        assert told.wait(60)
        first = views[0]  # others may have left since
        assert (first.view, first.rank, first.joined) == (1, rank, ()), first
        assert first.members == tuple(others) and first.lost == {VICTIM: "ended"}, first
        assert context.membership().view >= 1


def _fail_before_a_success(rank: int, size: int, id: bytes) -> None:
    """Several runs are outstanding when a rank is killed. The first of them fails, a later one
    succeeds, and wait() of the collective raises the failure, though the later run was awaited."""
    with dfccl.Context(rank, size, id, backend="cpu", survive=2) as context:
        sums = context.register_all_reduce(1, 10, "int32")
        sums.run(numpy.ones(10, "int32")).wait(timeout=60)
        if rank == VICTIM:
            os.kill(os.getpid(), signal.SIGKILL)
        failed = sums.run(numpy.ones(10, "int32"))
        while context.membership().view == 0:
            time.sleep(0.001)
        later = sums.run(numpy.ones(10, "int32"))
        later.wait(timeout=60)
        try:
            sums.wait()
            raise AssertionError("wait() has raised no failure")
        except dfccl.RemoteError:
            pass
        sums.wait()
        assert isinstance(failed.error(), dfccl.RemoteError), failed.error()
        assert later.error() is None


def _take_in(rank: int, size: int, id: bytes, folder: str) -> None:
    """The last process joins the job of the others, one of which is killed."""
    path, views, ranks = os.path.join(folder, "id"), [], size - 1
    if rank == ranks:
        while not os.path.exists(path):
            time.sleep(0.001)
        with open(path, "rb") as file:
            context = dfccl.Context.join(file.read(), survive=1, backend="cpu")
        assert (context.rank, context.size) == (VICTIM, ranks), context
    else:
        context = dfccl.Context(rank, ranks, id, backend="cpu", survive=1, membership=views.append)
    with context:
        if rank < ranks:
            context.register_all_reduce(1, 10, "int32").run(numpy.ones(10, "int32")).wait()
            if rank == VICTIM:
                os.kill(os.getpid(), signal.SIGKILL)
            while context.membership().view == 0:
                time.sleep(0.001)
            if rank == 0:
                with open(path + ".new", "wb") as file:
                    file.write(context.join_id())
                os.rename(path + ".new", path)
            ends: list[object] = []
            admit = context.admit(ends.append)
            admit.wait(timeout=60)
            while not ends:  # the function is called when done() is true already
                time.sleep(0.001)
            assert admit.done() and ends == [None], ends
            assert (views[-1].joined, views[-1].lost) == ((VICTIM,), {}), views
        assert context.membership().members == tuple(range(ranks)), context.membership()
        array = numpy.full(10, 1 << context.rank, "int32")
        context.register_all_reduce(2, 10, "int32").run(array).wait(timeout=60)
        assert (array == _wanted(range(ranks))).all(), array


class Joins(Case):
    def test_a_process_takes_the_number_of_a_lost_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            statuses = on_processes(_take_in, RANKS + 1, dfccl.unique_id(), folder)
        self.assertEqual(statuses, [0, -signal.SIGKILL, 0, 0, 0])

    def test_nobody_comes(self):
        before = os.environ.get("DFCCL_INIT_TIMEOUT_MS")
        os.environ["DFCCL_INIT_TIMEOUT_MS"] = "300"
        try:
            contexts = self.ranks(2, backend="cpu", survive=2)
        finally:
            if before is None:
                del os.environ["DFCCL_INIT_TIMEOUT_MS"]
            else:
                os.environ["DFCCL_INIT_TIMEOUT_MS"] = before
        for admit in [each.admit() for each in contexts]:
            with self.assertRaisesRegex(dfccl.Timeout, "no process has joined within 300 ms"):
                admit.wait(timeout=60)

    def test_different_runs(self):
        contexts = self.ranks(2, backend="cpu", survive=1)
        sums = [each.register_all_reduce(7, 4, "int32") for each in contexts]
        run = sums[0].run(numpy.ones(4, "int32"))
        for admit in [each.admit() for each in contexts]:
            with self.assertRaisesRegex(dfccl.Mismatch, "collective 7 had 1 runs .* 0 on rank 1"):
                admit.wait(timeout=60)
        sums[1].run(numpy.ones(4, "int32")).wait(timeout=60)
        run.wait(timeout=60)

    def test_a_wait_ends_and_the_admit_goes_on(self):
        (context,) = self.ranks(1, backend="cpu", survive=1)
        ends: list[object] = []
        admit = context.admit(ends.append)
        with self.assertRaisesRegex(dfccl.Timeout, "it goes on") as found:
            admit.wait(timeout=0.01)
        self.assertTrue(found.exception.goes_on)
        with self.assertRaisesRegex(dfccl.InvalidUsage, "before an earlier one has ended"):
            context.admit()
        context.close()
        with self.assertRaises(dfccl.Aborted):
            admit.wait(timeout=60)
        self.assertEqual([type(each) for each in ends], [dfccl.Aborted])


class Deaths(Case):
    def _killed(self, function, *arguments) -> None:
        statuses = on_processes(function, RANKS, dfccl.unique_id(), *arguments)
        self.assertEqual(statuses, [0, -signal.SIGKILL, 0, 0])

    def test_survive_1_executes_again(self):
        self._killed(_go_on, 1)

    def test_survive_2_fails_one_step_on_all(self):
        self._killed(_go_on, 2)

    def test_a_failure_before_a_success_is_not_lost(self):
        self._killed(_fail_before_a_success)


class Views(Case):
    def _reduced(self, contexts, wanted: int) -> None:
        """All-reduces until the sum is that of the members."""
        arrays = []
        while not arrays or any(array[0] != wanted for array in arrays):
            arrays = [numpy.full(4, 1 << each.rank, "int32") for each in contexts]
            runs = [each.run(1, array) for each, array in zip(contexts, arrays)]
            for run in runs:
                run.wait(timeout=60)

    def _until(self, condition) -> None:
        while not condition():
            time.sleep(0.001)

    def _job(self, size: int, membership=None):
        contexts = self.ranks(size, backend="cpu", survive=1, membership=membership)
        for each in contexts:
            each.register_all_reduce(1, 4, "int32")
        self._reduced(contexts, _wanted(range(size)))
        return contexts

    def test_a_rank_that_leaves(self):
        views = []
        contexts = self._job(3, views.append)
        contexts[2].close()
        self._reduced(contexts[:2], 3)
        self._until(lambda: len(views) == 2)
        self.assertEqual(
            sorted((each.rank, each.view, each.members, each.lost) for each in views),
            [(rank, 1, (0, 1), {2: "left"}) for rank in range(2)],
        )

    def test_an_excluded_rank(self):
        contexts = self._job(4)
        contexts[1].exclude([3])
        self._reduced(contexts[:3], 7)
        self.assertEqual(contexts[0].membership().lost, {3: "excluded"})
        with self.assertRaisesRegex(dfccl.RemoteError, "not a majority"):
            contexts[3].run(1, numpy.ones(4, "int32")).wait(timeout=60)
        contexts[1].exclude((3,))  # it is lost already

    def test_the_function_may_run_collectives_and_must_not_wait(self):
        refusals, runs = [], []

        def membership(view: dfccl.Membership) -> None:
            context = contexts[view.rank]
            for function in (context.wait_all, context.close):
                try:
                    function()
                except dfccl.InvalidUsage as error:
                    refusals.append(str(error))
            runs.append(context.run(1, numpy.ones(4, "int32")))

        contexts: list[dfccl.Context] = []
        contexts += self._job(3, membership)
        contexts[2].close()
        self._until(lambda: len(runs) == 2)
        for run in runs:
            run.wait(timeout=60)
        self.assertEqual(len(refusals), 4, refusals)

    def test_an_exception_of_the_function_is_reported(self):
        told = []
        before, sys.unraisablehook = sys.unraisablehook, lambda args: told.append(args.exc_value)
        self.addCleanup(setattr, sys, "unraisablehook", before)

        def membership(view: dfccl.Membership) -> None:
            raise ZeroDivisionError(view.rank)

        contexts = self._job(3, membership)
        contexts[2].close()
        self._reduced(contexts[:2], 3)
        self._until(lambda: len(told) == 2)
        self.assertEqual({type(each) for each in told}, {ZeroDivisionError})

    def test_a_closing_context_does_not_call_the_function(self):
        views = []
        contexts = self._job(2, views.append)
        for each in contexts:
            each.close()
        # Rank 1 may have been notified that rank 0 has left before it was closed itself
        self.assertNotIn(0, [each.rank for each in views])

    def test_views_are_read_while_others_come(self):
        contexts = self._job(6, lambda _: None)
        ended = threading.Event()
        counts = [0]

        def read() -> None:
            while not ended.is_set():
                view = contexts[0].membership()
                assert len(view.members) == 6 - view.view, view
                assert list(view.lost.values()) == ["left"] * (view.view > 0), view
                counts[0] += 1

        thread = threading.Thread(target=read)
        thread.start()
        try:
            for lost in (5, 4, 3, 2, 1):
                contexts[lost].close()
                self._reduced(contexts[:lost], _wanted(range(lost)))
        finally:
            ended.set()
            thread.join()
        self.assertEqual(contexts[0].membership().members, (0,))
        self.assertGreater(counts[0], 0)


class WrongUse(Case):
    def test_sentences(self):
        with self.assertRaisesRegex(dfccl.InvalidArgument, "survive is 3"):
            dfccl.contexts(2, backend="cpu", survive=3)
        with self.assertRaisesRegex(dfccl.InvalidArgument, "membership is called only with"):
            dfccl.contexts(2, backend="cpu", membership=print)
        (context,) = self.ranks(1, backend="cpu")
        with self.assertRaisesRegex(dfccl.InvalidUsage, "config.survive"):
            context.membership()
        with self.assertRaisesRegex(dfccl.InvalidUsage, "config.survive"):
            context.exclude([0])
        with self.assertRaisesRegex(dfccl.InvalidUsage, "config.survive"):
            context.join_id()
        with self.assertRaisesRegex(dfccl.InvalidUsage, "config.survive"):
            context.admit()
        with self.assertRaisesRegex(dfccl.InvalidArgument, "an id of 3 bytes"):
            dfccl.Context.join(b"abc", survive=1)
        with self.assertRaisesRegex(dfccl.InvalidArgument, "not made by dfcclGetJoinId"):
            dfccl.Context.join(dfccl.unique_id(), survive=1, backend="cpu")
        with self.assertRaisesRegex(dfccl.InvalidUsage, "needs config.survive 1 or 2"):
            dfccl.Context.join(dfccl.unique_id(), survive=0, backend="cpu")
        contexts = self.ranks(3, backend="cpu", survive=2)
        for ranks in ([], [0], [3], [1, 2]):
            with self.assertRaises(dfccl.InvalidArgument):
                contexts[0].exclude(ranks)
        with self.assertRaisesRegex(dfccl.InvalidUsage, "AllToAllDynamic"):
            contexts[0].register_all_to_all_dynamic(1, 10, "int32")


if __name__ == "__main__":
    unittest.main()
