"""Runs the tools in C that the package brings: dfccl-info, dfccl-trace and dfccl-sim."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

_folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def run(name: str) -> NoReturn:
    """Replaces this process by a tool, with this process's arguments."""
    path = os.path.join(_folder, name)
    try:
        os.execv(path, [name, *sys.argv[1:]])
    except OSError as error:
        reason = (
            "this installation of the package has no tools, since libcjson was missing when the "
            "package was built; install libcjson-dev, and install the package again"
            if isinstance(error, FileNotFoundError)
            else f"{path}: {error.strerror}"
        )
        sys.exit(f"{name}: {reason}")


def info() -> NoReturn:
    run("dfccl-info")


def sim() -> NoReturn:
    run("dfccl-sim")


def trace() -> NoReturn:
    run("dfccl-trace")
