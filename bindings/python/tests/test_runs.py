"""Promises of runs: results, order, arrays, waiting and callbacks."""

from __future__ import annotations

import _thread
import ctypes
import gc
import random
import threading
import time
import unittest
import weakref

import dfccl
import numpy
from dfccl import library
from support import Case

TYPES = [
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]


class Results(Case):
    def test_each_type_and_operator(self):
        contexts = self.ranks(3)
        functions = {
            "SUM": numpy.add,
            "PROD": numpy.multiply,
            "MAX": numpy.maximum,
            "MIN": numpy.minimum,
        }
        id = 0
        for type in TYPES:
            for op, function in functions.items():
                id += 1
                arrays = [numpy.arange(1, 6).astype(type) + rank for rank in range(3)]
                wanted = function(function(arrays[0], arrays[1]), arrays[2])
                runs = [
                    context.register_all_reduce(id, 5, type, op).run(array)
                    for context, array in zip(contexts, arrays)
                ]
                for run in runs:
                    run.wait()
                for array in arrays:
                    numpy.testing.assert_array_equal(array, wanted)

    def test_each_kind(self):
        size, count = 3, 4
        contexts = self.ranks(size)
        wide = [numpy.arange(size * count, dtype="int32") + 100 * rank for rank in range(size)]

        def body(context):
            rank, mine = context.rank, wide[context.rank]
            total = sum(wide)
            narrow = numpy.empty(count, "int32")
            context.register_reduce(1, size * count, "int32", root=2).run(
                mine, narrow if rank != 2 else (out := mine * 0)
            ).wait()
            if rank == 2:
                numpy.testing.assert_array_equal(out, total)
            box = mine.copy()
            context.register_broadcast(2, size * count, numpy.int32, root=1).run(box).wait()
            numpy.testing.assert_array_equal(box, wide[1])
            gathered = numpy.empty(size * size * count, "int32")
            context.register_all_gather(3, size * count, dfccl.DataType.int32).run(
                mine, gathered
            ).wait()
            numpy.testing.assert_array_equal(gathered, numpy.concatenate(wide))
            context.register_reduce_scatter(4, count, "int32").run(mine, narrow).wait()
            numpy.testing.assert_array_equal(narrow, total[rank * count : (rank + 1) * count])
            exchanged = numpy.empty(size * count, "int32")
            context.register_all_to_all(5, count, "int32").run(mine, exchanged).wait()
            numpy.testing.assert_array_equal(
                exchanged,
                numpy.concatenate([each[rank * count : (rank + 1) * count] for each in wide]),
            )
            return True

        self.assertEqual(self.on_threads(body, contexts), [True] * size)

    def test_in_place(self):
        contexts = self.ranks(2)
        gathered = [numpy.array([1.0, 0]), numpy.array([0, 2.0])]
        runs = [
            context.register_all_gather(1, 1, "float64").run(array)
            for context, array in zip(contexts, gathered)
        ]
        scattered = [numpy.array([1.0, 2]), numpy.array([10.0, 20])]
        runs += [
            context.register_reduce_scatter(2, 1, "float64").run(array)
            for context, array in zip(contexts, scattered)
        ]
        for run in runs:
            run.wait()
        self.assertEqual([list(each) for each in gathered], [[1, 2], [1, 2]])
        self.assertEqual([scattered[0][0], scattered[1][1]], [11, 22])

    def test_groups_have_their_order(self):
        contexts = self.ranks(3)
        box = {rank: numpy.array([rank], "int64") for rank in range(3)}
        runs = [
            contexts[rank].group([2, 0]).register_broadcast(9, 1, "int64", root=0).run(box[rank])
            for rank in (0, 2)
        ]
        for run in runs:
            run.wait()
        self.assertEqual([int(box[rank][0]) for rank in range(3)], [2, 1, 2])
        with self.assertRaisesRegex(dfccl.InvalidArgument, r"rank 1 is not in the group \[2, 0\]"):
            contexts[1].group([2, 0]).register_broadcast(9, 1, "int64")

    def test_varying_counts(self):
        contexts = self.ranks(2)
        both = [
            context.register_all_reduce(1, 100, "float32", varying=True) for context in contexts
        ]
        for count in (3, 100, 1):
            arrays = [numpy.full(count, rank + 1, "float32") for rank in range(2)]
            for run in [each.run(array, count=count) for each, array in zip(both, arrays)]:
                run.wait()
            self.assertEqual(arrays[0].tolist(), [3.0] * count)

    def test_any_order_on_any_rank(self):
        contexts = self.ranks(4)

        def body(context):
            chance = random.Random(context.rank)
            all = [context.register_all_reduce(id, 1000 * (id + 1), "int64") for id in range(8)]
            for _ in range(20):
                chance.shuffle(all)
                arrays = [numpy.full(each.count, context.rank, "int64") for each in all]
                for run in [each.run(array) for each, array in zip(all, arrays)]:
                    run.wait()
                for array in arrays:
                    self.assertTrue((array == 6).all())

        self.on_threads(body, contexts)


class Arrays(Case):
    def test_bytes_and_dlpack(self):
        class OnlyDlpack:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **_):
                return self.array.__dlpack__()

        contexts = self.ranks(2)
        arrays = [
            bytearray(numpy.array([5, 6], "int32").tobytes()),
            OnlyDlpack(numpy.array([7, 8], "int32")),
        ]
        for run in [
            context.register_all_reduce(1, 2, "int32").run(array)
            for context, array in zip(contexts, arrays)
        ]:
            run.wait()
        self.assertEqual(numpy.frombuffer(arrays[0], "int32").tolist(), [12, 14])
        self.assertEqual(arrays[1].array.tolist(), [12, 14])

    def test_what_cannot_be_used_is_said(self):
        (context,) = self.ranks(1)
        sums = context.register_all_reduce(1, 4, "float32")
        frozen = numpy.zeros(4, "float32")
        frozen.flags.writeable = False
        for array, sentence in [
            (numpy.zeros(4, "float64"), "an array of float64 for"),
            (numpy.zeros(5, "float32"), "an array of 5 elements where .* needs 4"),
            (numpy.zeros((4, 2), "float32")[:, 0], "cannot be used"),
            (frozen, "cannot be used"),
            (numpy.zeros(4, "complex64"), "format 'Zf' have no data type"),
            (3, "neither the buffer protocol nor DLPack"),
            (None, "without an array"),
        ]:
            with self.assertRaisesRegex(dfccl.InvalidArgument, sentence):
                sums.run(array)
        with self.assertRaisesRegex(dfccl.InvalidArgument, "no data type 'complex64'"):
            context.register_all_reduce(2, 4, "complex64")
        with self.assertRaisesRegex(dfccl.InvalidArgument, "no operator 'xor'"):
            context.register_all_reduce(2, 4, "int32", "xor")

    def test_arrays_live_as_long_as_their_run(self):
        contexts = self.ranks(2)
        both = [context.register_all_reduce(1, 4, "float32") for context in contexts]
        array = numpy.ones(4, "float32")
        seen = weakref.ref(array)
        run = both[0].run(array)
        del array
        gc.collect()
        self.assertIsNotNone(seen())
        growing = bytearray(16)
        other = both[1].run(growing)
        run.wait()
        other.wait()
        gc.collect()
        self.assertIsNone(seen())
        growing.append(0)  # no run keeps it in place any more

    def test_a_bytearray_cannot_be_resized_meanwhile(self):
        contexts = self.ranks(2)
        both = [context.register_all_reduce(1, 4, "float32") for context in contexts]
        growing = bytearray(16)
        run = both[0].run(growing)
        with self.assertRaises(BufferError):
            growing.append(0)
        both[1].run(numpy.ones(4, "float32")).wait()
        run.wait()


class Waiting(Case):
    def test_a_wait_for_one_run_does_not_wait_for_the_next(self):
        contexts = self.ranks(2)
        both = [context.register_all_reduce(1, 1, "int32") for context in contexts]
        first, second = both[0].run(numpy.ones(1, "int32")), both[0].run(numpy.ones(1, "int32"))
        both[1].run(numpy.ones(1, "int32"))
        first.wait()
        self.assertTrue(first.done())
        self.assertFalse(second.done())
        self.assertFalse(both[0].done())
        both[1].run(numpy.ones(1, "int32"))
        both[0].wait()
        self.assertTrue(second.done())

    def test_a_time_limit_names_what_is_missing(self):
        contexts = self.ranks(2)
        both = [context.register_all_reduce(1, 1, "int32", name="weights") for context in contexts]
        run = both[0].run(numpy.ones(1, "int32"))
        with self.assertRaisesRegex(dfccl.Timeout, "weights.*waits.*rank 1") as raised:
            run.wait(0.05)
        self.assertEqual(type(raised.exception).__name__, "Timeout")
        self.assertTrue(raised.exception.goes_on)
        self.assertIsNone(run.error())
        with self.assertRaises(TimeoutError):
            both[0].wait(0.05)
        both[1].run(numpy.ones(1, "int32")).wait()
        run.wait(10)

    def test_other_threads_go_on_during_a_wait(self):
        contexts = self.ranks(2)
        # A PyDLL would keep the GIL during calls
        self.assertNotIsInstance(library.lib, ctypes.PyDLL)
        both = [context.register_all_reduce(1, 1, "int32") for context in contexts]
        run = both[0].run(numpy.ones(1, "int32"))
        waits = threading.Thread(target=run.wait)
        waits.start()
        both[1].run(numpy.ones(1, "int32")).wait()
        waits.join()

    def test_wait_all(self):
        contexts = self.ranks(2)
        arrays = [[numpy.ones(1, "int32") for _ in range(5)] for _ in contexts]
        for context, mine in zip(contexts, arrays):
            for id, array in enumerate(mine):
                context.register_all_reduce(id, 1, "int32")
                context.run(id, array)
        for context in contexts:
            context.wait_all(20)
        self.assertEqual({int(array[0]) for mine in arrays for array in mine}, {2})
        contexts[0].wait(3)
        self.assertEqual(contexts[0].stats()["sqesSubmitted"], contexts[1].stats()["sqesSubmitted"])

    def test_callbacks_come_once_and_may_run_again(self):
        contexts = self.ranks(2)
        both = [context.register_all_reduce(1, 1, "int64") for context in contexts]
        done = threading.Semaphore(0)
        calls = [0, 0]

        def again(rank):
            def called(error):
                self.assertIsNone(error)
                calls[rank] += 1
                if calls[rank] < 10:
                    both[rank].run(numpy.ones(1, "int64"), callback=again(rank))
                else:
                    done.release()

            return called

        for rank in range(2):
            both[rank].run(numpy.ones(1, "int64"), callback=again(rank))
        for _ in range(2):
            done.acquire()
        self.assertEqual(calls, [10, 10])

    def _resubmitting(self):
        """Rank 0 submits a run in each callback. The peer runs once when rank 0 waits, and then
        stops."""
        contexts = self.ranks(2)
        both = [context.register_all_reduce(1, 1, "int64") for context in contexts]
        stop = threading.Event()

        def again(error):
            if error is None and not stop.is_set():
                both[0].run(numpy.ones(1, "int64"), callback=again)

        def peer():
            while not contexts[0]._calls:
                time.sleep(0.001)
            both[1].run(numpy.ones(1, "int64"))

        both[0].run(numpy.ones(1, "int64"), callback=again)
        runs = threading.Thread(target=peer)
        runs.start()
        self.addCleanup(runs.join)

        def let_go():
            stop.set()
            both[1].run(numpy.ones(1, "int64"))

        return both[0], let_go

    def test_a_wait_is_not_for_what_callbacks_submit_meanwhile(self):
        for wait in (lambda each: each.wait(60), lambda each: each.context.wait_all(60)):
            sums, let_go = self._resubmitting()
            waits = threading.Thread(target=wait, args=(sums,))
            waits.start()
            waits.join(20)
            went_on = waits.is_alive()
            with self.assertRaises(dfccl.Timeout):
                sums.wait(0.05)
            with self.assertRaises(dfccl.Timeout):
                sums.context.wait_all(0.05)
            let_go()
            waits.join()
            sums.wait(20)
            self.assertFalse(went_on)

    def test_an_interrupted_close_leaves_the_context_open(self):
        sums, let_go = self._resubmitting()
        interrupts = threading.Timer(0.5, _thread.interrupt_main)
        interrupts.start()
        with self.assertRaises(KeyboardInterrupt):
            sums.context.close()
        self.assertFalse(sums.done())
        let_go()
        sums.context.close()

    def test_a_run_of_a_callback_keeps_the_arrays_of_others(self):
        contexts = self.ranks(2)
        both = [context.register_all_reduce(1, 1, "int64") for context in contexts]
        submitted = threading.Event()

        def again(_):
            both[0].run(numpy.ones(1, "int64"))
            submitted.set()

        array = numpy.ones(1, "int64")
        seen = weakref.ref(array)
        both[0].run(numpy.ones(1, "int64"), callback=again)
        both[0].run(array)
        del array
        both[1].run(numpy.ones(1, "int64")).wait()
        submitted.wait()
        gc.collect()
        self.assertIsNotNone(seen())  # the run is not complete
        for _ in range(2):
            both[1].run(numpy.ones(1, "int64"))
        both[0].wait()
        self.assertIsNone(seen())

    def test_a_failure_is_told_by_each_kind_of_wait_once(self):
        contexts = self.ranks(2)
        both = [context.register_all_reduce(1, 1, "int32") for context in contexts]
        runs = [both[0].run(numpy.ones(1, "int32")) for _ in range(3)]
        contexts[0].abort_collectives([1])
        for wait in (runs[1].wait, runs[2].wait, runs[0].wait, both[0].wait, contexts[0].wait_all):
            with self.assertRaises(dfccl.Aborted):
                wait()
        both[0].wait()
        contexts[0].wait_all()

    def test_a_callback_cannot_close(self):
        (context,) = self.ranks(1)
        told = []
        done = threading.Event()

        def called(_):
            try:
                context.close()
            except dfccl.InvalidUsage as error:
                told.append(str(error))
            done.set()

        context.register_all_reduce(1, 1, "int64").run(numpy.ones(1, "int64"), callback=called)
        done.wait()
        self.assertEqual(told, ["a callback cannot close a context"])


if __name__ == "__main__":
    unittest.main()
