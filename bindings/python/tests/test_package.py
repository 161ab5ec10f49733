"""Promises: the package agrees with the header, its examples run, and it brings the tools."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
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
            "dfcclMembership_t": library.Membership,
            "dfcclCollOptions_t": library.CollOptions,
            "dfcclRun_t": library.Run,
            "dfcclStats_t": library.Stats,
            "dfcclConfiguration_t": library.Configuration,
        }
        text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
        for name, struct in structs.items():
            body = re.search(r"typedef struct \{([^}]*)\} " + name + ";", text).group(1)
            body = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", body)  # pointers to functions
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

    def test_one_version(self):
        self.assertEqual(dfccl.__version__, dfccl.version())
        for path in ("pyproject.toml", "meson.build", "../../meson.build"):
            text = (here.parent / path).read_text()
            found = re.search(r"""^ *version ?[=:] ?["']([^"']*)["']""", text, re.M)
            self.assertEqual(found.group(1), dfccl.__version__, path)

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


def _run(*command: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=INNER_SECONDS,
        env={**os.environ, **environment},
    )


@unittest.skipIf("DFCCL_TEST_LIBRARY" in os.environ, "the package is not installed")
class Tools(Case):
    def _both_ways(self, tool: str) -> list[list[str]]:
        script = os.path.join(os.path.dirname(sys.executable), tool)
        return [[script], [sys.executable, "-m", tool.replace("-", ".")]]

    def test_each_tool_runs_as_a_command_and_as_a_module(self):
        for tool in ("dfccl-info", "dfccl-sim", "dfccl-trace"):
            for command in self._both_ways(tool):
                ended = _run(*command, "--version")
                self.assertEqual(
                    (ended.returncode, ended.stdout), (0, f"{tool} {dfccl.__version__}\n"), command
                )
                self.assertEqual(_run(*command, "--no-such-option").returncode, 2, command)

    def test_a_trace_becomes_a_table(self):
        with tempfile.TemporaryDirectory() as folder:
            example = here.parent / "examples" / "processes.py"
            ended = _run(sys.executable, str(example), DFCCL_TRACE=folder)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            for command in self._both_ways("dfccl-trace"):
                ended = _run(*command, folder)
                self.assertEqual(ended.returncode, 0, ended.stderr)
                self.assertIn("squares", ended.stdout)

    def test_the_machine_is_described(self):
        for command in self._both_ways("dfccl-info"):
            ended = _run(*command, "net")
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertIn("interface", ended.stdout)

    def test_tools_that_are_missing_are_explained(self):
        with tempfile.TemporaryDirectory() as folder:
            program = f"from dfccl import tools; tools._folder = {folder!r}; tools.run('dfccl-sim')"
            ended = _run(sys.executable, "-c", program)
            self.assertEqual(ended.returncode, 1)
            self.assertRegex(ended.stderr, "^dfccl-sim: this installation .* libcjson-dev")
            pathlib.Path(folder, "dfccl-sim").touch(mode=0o600)
            ended = _run(sys.executable, "-c", program)
            self.assertEqual(ended.returncode, 1)
            self.assertIn(f"{folder}/dfccl-sim: Permission denied", ended.stderr)


_ranks = {"disorder": 4, "processes": 2}  # each example prints that its results are right
for path in sorted((here.parent / "examples").glob("*.py")):
    setattr(Examples, "test_" + path.stem, _example(path, _ranks[path.stem]))

if __name__ == "__main__":
    unittest.main()
