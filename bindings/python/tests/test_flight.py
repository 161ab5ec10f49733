"""Promise of python -m dfccl.flight: a dump becomes JSON, and no code in it is executed. A file of
DFCCL_FLIGHT becomes a pickle for torch's analyser."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import random
import tempfile
import unittest

from dfccl import flight

DUMP = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "entries": [
        {
            "record_id": 0,
            "process_group": ("0", "default_pg"),
            "profiling_name": "gloo:all_reduce",
            "big": 1 << 60,
            "duration_ms": 1.5,
            "less": -7,
            "none": None,
            "retired": True,
            "is_p2p": False,
            "text": "é" * 300,
        }
    ]
    * 3,
}


class Runs:
    def __reduce__(self):
        return os.system, ("touch ran",)


class Flight(unittest.TestCase):
    def test_plain_values_are_read(self):
        for protocol in (2, 3, 4, 5):
            self.assertEqual(flight.read(pickle.dumps(DUMP, protocol)), DUMP)

    def test_a_file_of_the_library_becomes_a_pickle(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "rank-3.flight.json")
            source.write_text(json.dumps(DUMP | {"rank": 3}))
            self.assertEqual(flight.main(["to-pickle", str(source)]), 0)
            pickled = pathlib.Path(folder, "rank_3").read_bytes()
            self.assertEqual(flight.read(pickled), json.loads(source.read_text()))
            for text in ("{", "[]", "{}", '{"rank": "3"}'):
                source.write_text(text)
                self.assertEqual(flight.main(["to-pickle", str(source)]), 2)

    def test_nothing_is_run(self):
        for protocol in range(6):
            with self.assertRaisesRegex(flight.Refused, "byte [0-9]+: the opcode"):
                flight.read(pickle.dumps({"entries": Runs()}, protocol))

    def test_hostile_dumps_are_refused(self):
        circle: list = []
        circle.append(circle)
        doubling = inner = []
        for _ in range(60):  # the text would have 2^60 values
            inner.append([])
            inner.append(inner[0])
            inner = inner[0]
        for value, sentence in [
            ({"entries": circle}, "contains itself"),
            ({"entries": doubling}, "more than"),
            ({1: 2}, "a key that is not a text"),
            ([DUMP], "not one dictionary"),
        ]:
            with self.assertRaisesRegex(flight.Refused, sentence):
                flight.read(pickle.dumps(value, 2))
        with self.assertRaisesRegex(flight.Refused, "number 9 was not put aside"):
            flight.read(b"\x80\x02}h\x09.")
        whole = pickle.dumps(DUMP, 2)
        for end in range(0, len(whole) - 1, 7):
            with self.assertRaises(flight.Refused):
                flight.read(whole[:end])
        chance = random.Random(1)
        for _ in range(3000):
            changed = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            try:
                flight.read(bytes(changed))
            except flight.Refused:
                pass

    def test_command(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "rank_0")
            source.write_bytes(pickle.dumps(DUMP, 2))
            self.assertEqual(flight.main(["to-json", str(source)]), 0)
            self.assertEqual(
                json.loads(pathlib.Path(folder, "rank_0.json").read_text())["entries"][2]["big"],
                1 << 60,
            )
            source.write_bytes(b"junk")
            self.assertEqual(flight.main(["to-json", str(source), "-o", folder]), 2)
            self.assertEqual(flight.main(["to-json", folder]), 2)


if __name__ == "__main__":
    unittest.main()
