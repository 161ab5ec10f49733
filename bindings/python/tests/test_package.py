"""Promise: the package agrees with the header, and its examples run."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import unittest

import dfccl
from dfccl import arrays, library
from support import INNER_SECONDS, Case

here = pathlib.Path(__file__).resolve().parent
header = (here.parents[2] / "include" / "dfccl.h").read_text()


class Header(Case):
    def test_structs_begin_as_the_headers(self):
        structs = {
            "dfcclConfig_t": library.Config,
            "dfcclCollOptions_t": library.CollOptions,
            "dfcclRun_t": library.Run,
            "dfcclStats_t": library.Stats,
            "dfcclConfiguration_t": library.Configuration,
        }
        text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
        for name, struct in structs.items():
            body = re.search(r"typedef struct \{([^}]*)\} " + name + ";", text).group(1)
            names = [
                re.search(r"(\w+)(\[\d+\])?$", part.strip()).group(1)
                for statement in body.split(";")
                if statement.strip()
                for part in statement.split(",")
            ]
            ours = [field[0] for field in struct._fields_]
            self.assertEqual(ours, names[: len(ours)], name)
            self.assertIn(f"0x{struct.magic_number:08x}u", header)

    def test_numbers_are_the_headers(self):
        for type in dfccl.DataType:
            name = "".join(part[0].upper() + part[1:] for part in type.name.split("_")).replace(
                "Float8E", "Float8e"
            )
            self.assertRegex(header, rf"dfccl{name} = {int(type)}\b")
        for op in dfccl.RedOp:
            self.assertRegex(header, rf"dfccl{op.name.capitalize()} = {int(op)}\b")
        major, minor, patch = (
            re.search(rf"DFCCL_{part} (\d+)", header).group(1)
            for part in ("MAJOR", "MINOR", "PATCH")
        )
        self.assertEqual(dfccl.version(), f"{major}.{minor}.{patch}")

    def test_types_by_any_name(self):
        import numpy

        for like in (
            "float32",
            numpy.float32,
            numpy.dtype("float32"),
            dfccl.DataType.float32,
            "torch.float32",
        ):
            self.assertIs(arrays.data_type(like), dfccl.DataType.float32)


class Examples(Case):
    pass


def _example(path: pathlib.Path, ranks: int):
    def test(self):
        ended = subprocess.run(
            [sys.executable, str(path)], capture_output=True, text=True, timeout=INNER_SECONDS
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(
            len(re.findall(r"rank \d+: right", ended.stdout)), ranks, ended.stdout + ended.stderr
        )

    return test


_ranks = {"disorder": 4, "processes": 2}  # each example prints that its results are right
for path in sorted((here.parent / "examples").glob("*.py")):
    setattr(Examples, "test_" + path.stem, _example(path, _ranks[path.stem]))

if __name__ == "__main__":
    unittest.main()
