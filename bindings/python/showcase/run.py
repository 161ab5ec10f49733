"""Runs the programs of this folder on Gloo and on dfccl, two processes each, and prints the
results.

    python run.py [--backend gloo] [--backend dfccl] [--seconds 20] [PROGRAM...]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

here = pathlib.Path(__file__).resolve().parent


def outcome(program: pathlib.Path, backend: str, seconds: float) -> tuple[str, str]:
    """The result of a program, and the last line that a rank printed."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            subprocess.Popen(
                [sys.executable, str(program)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "RANK": str(rank),
                    "WORLD_SIZE": "2",
                    "LOCAL_RANK": str(rank),
                    "PLACE": os.path.join(folder, "store"),
                    "BACKEND": backend,
                },
            )
            for rank in range(2)
        ]
        return _judged(ranks, seconds)


def _judged(ranks: list[subprocess.Popen[str]], seconds: float) -> tuple[str, str]:
    end = time.monotonic() + seconds
    hung = False
    said = ""
    for rank in ranks:
        try:
            text = rank.communicate(timeout=max(0.1, end - time.monotonic()))[1]
        except subprocess.TimeoutExpired:
            hung = True
            rank.kill()
            text = rank.communicate()[1]
        errors = [line for line in text.splitlines() if "Error" in line or "Timeout" in line]
        if errors and (not said or "reached its timeout" in errors[-1]):
            said = errors[-1].strip()
    statuses = [rank.returncode for rank in ranks]
    if hung:
        return "hangs", said
    killed = [signal.Signals(-status).name for status in statuses if status < 0]
    if killed:
        return f"killed ({killed[0]})", said
    if all(status == 0 for status in statuses):
        return "right", ""
    if all(status in (0, 3) for status in statuses):
        return "wrong data", ""
    return ("ends at the timeout" if "reached its timeout" in said else "fails"), said


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", action="append")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("program", nargs="*")
    options = parser.parse_args()
    backends = options.backend or ["gloo", "dfccl"]
    programs = [here / f"{name.removesuffix('.py')}.py" for name in options.program] or sorted(
        path for path in here.glob("*.py") if path.name not in ("run.py", "start.py")
    )
    print("| program | " + " | ".join(backends) + " |")
    print("| --- " * (len(backends) + 1) + "|")
    told = []
    for program in programs:
        cells = []
        for backend in backends:
            result, said = outcome(program, backend, options.seconds)
            cells.append(result)
            told += [f"{program.stem}, {backend}: {said}"] if said else []
        print(f"| {program.stem} | " + " | ".join(cells) + " |", flush=True)
    print()
    for line in told:
        print(line)


if __name__ == "__main__":
    main()
