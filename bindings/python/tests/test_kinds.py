"""Promise: each collective beyond the first six gives the documented result, and refuses invalid
arguments."""

from __future__ import annotations

import unittest

import dfccl
import numpy
from support import Case

SIZE = 3
COUNTS = [2, 0, 3]  # counts of the positions, in collectives with different counts


def part(rank: int, other: int, count: int) -> numpy.ndarray:
    return numpy.arange(count, dtype="int32") + 100 * rank + 10 * other


class Kinds(Case):
    def play(self, body) -> None:
        self.on_threads(body, self.ranks(SIZE))

    def test_gather_and_scatter(self):
        def body(context):
            mine, root = part(context.rank, 0, 4), context.rank == 1
            out = numpy.zeros(4 * SIZE, "int32") if root else None
            context.register_gather(1, 4, "int32", root=1).run(mine, out).wait()
            whole = numpy.concatenate([part(rank, 0, 4) for rank in range(SIZE)])
            if root:
                numpy.testing.assert_array_equal(out, whole)
            got = numpy.zeros(4, "int32")
            context.register_scatter(2, 4, "int32", root=1).run(whole if root else None, got).wait()
            numpy.testing.assert_array_equal(got, mine)

        self.play(body)

    def test_barrier_and_scan(self):
        def body(context):
            context.register_barrier(1).run().wait()
            out, mine = numpy.full(5, -1, "int16"), numpy.arange(5, dtype="int16") + context.rank
            context.register_scan(2, 5, "int16").run(mine, out).wait()
            wanted = sum(numpy.arange(5, dtype="int16") + rank for rank in range(context.rank + 1))
            numpy.testing.assert_array_equal(out, wanted)
            context.register_scan(3, 5, "int16", exclusive=True).run(mine, out).wait()
            numpy.testing.assert_array_equal(out, wanted - mine if context.rank else wanted)

        self.play(body)

    def test_send_and_receive_in_a_group(self):
        def body(context):
            group = context.group([2, 0, 1])
            if context.rank == 1:
                return
            channel = group.register_send_recv(
                1, 6, "int32", source=0, target=1
            )  # from rank 2 to rank 0
            if context.rank == 2:
                channel.run(part(2, 0, 6)).wait()
            else:
                got = numpy.zeros(6, "int32")
                channel.run(recv=got).wait()
                numpy.testing.assert_array_equal(got, part(2, 0, 6))

        self.play(body)

    def test_uneven_gathers(self):
        def body(context):
            rank, places = context.rank, [1, 0, 4]
            out = numpy.full(8, -7, "int32")
            context.register_all_gather_v(1, COUNTS, "int32", places).run(
                part(rank, 0, COUNTS[rank]), out
            ).wait()
            wanted = numpy.full(8, -7, "int32")
            for other in range(SIZE):
                wanted[places[other] : places[other] + COUNTS[other]] = part(
                    other, 0, COUNTS[other]
                )
            numpy.testing.assert_array_equal(out, wanted)
            root = rank == 0
            out = numpy.full(8, -7, "int32") if root else None
            context.register_gather_v(
                2, COUNTS[rank], "int32", 0, COUNTS if root else None, places if root else None
            ).run(part(rank, 0, COUNTS[rank]), out).wait()
            if root:
                numpy.testing.assert_array_equal(out, wanted)
            got = numpy.zeros(COUNTS[rank], "int32")
            context.register_scatter_v(
                3, COUNTS[rank], "int32", 0, COUNTS if root else None, places if root else None
            ).run(wanted if root else None, got).wait()
            numpy.testing.assert_array_equal(got, part(rank, 0, COUNTS[rank]))

        self.play(body)

    def test_uneven_reduce_scatter_and_own_scalars(self):
        def body(context):
            mine, got = part(context.rank, 0, 5), numpy.zeros(COUNTS[context.rank], "int32")
            total = sum(part(rank, 0, 5) for rank in range(SIZE))
            at = sum(COUNTS[: context.rank])
            context.register_reduce_scatter_v(1, COUNTS, "int32").run(mine, got).wait()
            numpy.testing.assert_array_equal(got, total[at : at + len(got)])
            op = context.pre_mul_sum(numpy.array([context.rank + 2], "int32"), "int32")
            out = numpy.zeros(5, "int32")
            summing = context.register_all_reduce(2, 5, "int32", op)
            context.destroy_operator(op)
            summing.run(mine, out).wait()
            numpy.testing.assert_array_equal(
                out, sum((rank + 2) * part(rank, 0, 5) for rank in range(SIZE))
            )

        self.play(body)

    def test_uneven_all_to_alls(self):
        def count(rank, other):
            return (rank + 2 * other) % 4

        def body(context):
            rank = context.rank
            sends, receives = (
                [count(rank, other) for other in range(SIZE)],
                [count(other, rank) for other in range(SIZE)],
            )
            sent = numpy.concatenate([part(rank, other, sends[other]) for other in range(SIZE)])
            wanted = numpy.concatenate(
                [part(other, rank, receives[other]) for other in range(SIZE)]
            )
            got = numpy.zeros(sum(receives), "int32")
            context.register_all_to_all_v(1, sends, receives, "int32").run(sent, got).wait()
            numpy.testing.assert_array_equal(got, wanted)
            got = numpy.zeros(sum(receives), "int32")
            context.register_neighbours(
                2, dict(enumerate(sends)), dict(enumerate(receives)), "int32"
            ).run(sent, got).wait()
            numpy.testing.assert_array_equal(got, wanted)
            dynamic, room = (
                context.register_all_to_all_dynamic(3, 4, "int32"),
                numpy.zeros(4 * SIZE, "int32"),
            )
            for _ in range(3):
                run = dynamic.run(sent, room, send_counts=sends)
                run.wait()
                self.assertEqual(run.received(), receives)
                numpy.testing.assert_array_equal(
                    numpy.concatenate(
                        [room[4 * other : 4 * other + receives[other]] for other in range(SIZE)]
                    ),
                    wanted,
                )

        self.play(body)

    def test_bits(self):
        def body(context):
            out = numpy.zeros(4, "uint16")
            context.register_all_reduce(1, 4, "uint16", dfccl.BOR).run(
                numpy.full(4, 1 << context.rank, "uint16"), out
            ).wait()
            numpy.testing.assert_array_equal(out, numpy.full(4, 7, "uint16"))

        self.play(body)

    def test_what_does_not_fit_is_refused(self):
        context = self.ranks(SIZE)[0]
        with self.assertRaisesRegex(dfccl.InvalidArgument, "needs 3 counts"):
            context.register_all_gather_v(1, [1, 2], "int32")
        with self.assertRaisesRegex(dfccl.InvalidArgument, "negative"):
            context.register_all_gather_v(1, [1, 2, -1], "int32")
        gathered = context.register_all_gather_v(1, COUNTS, "int32")
        with self.assertRaisesRegex(dfccl.InvalidArgument, "needs 5"):
            gathered.run(numpy.zeros(2, "int32"), numpy.zeros(4, "int32"))
        dynamic = context.register_all_to_all_dynamic(2, 4, "int32")
        with self.assertRaisesRegex(dfccl.InvalidArgument, "send_counts"):
            dynamic.run(numpy.zeros(2, "int32"), numpy.zeros(12, "int32"))
        with self.assertRaisesRegex(dfccl.InvalidArgument, "send_counts"):
            dynamic.run(numpy.zeros(9, "int32"), numpy.zeros(12, "int32"), send_counts=[5, 2, 2])
        with self.assertRaisesRegex(dfccl.InvalidArgument, "one element"):
            context.pre_mul_sum(numpy.zeros(2, "int32"), "int32")


if __name__ == "__main__":
    unittest.main()
