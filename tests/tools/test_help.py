#!/usr/bin/env python3
"""Promise: every program and script prints its help on standard output, with status 0, without any
other effect, in lines of at most 80 columns, and with enumerations as lists.

    test_help.py SOURCES PROGRAM...

Scripts are all executable files of SOURCES that a person may call.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

COLUMNS = 80
SECONDS = 60
LONGEST_ENUMERATION = 10  # words between commas in one paragraph of text
FOLDERS = ["scripts", "bench", "docs", "bindings", "completions"]
# Scripts that no person calls.
CALLED_BY_OTHERS = {
    "scripts/after-install": "meson install",
    "scripts/gpu/photograph": "scripts/gpu-suite",
    "scripts/gpu/report": "scripts/gpu-suite",
    "scripts/lint.d/columns.py": "scripts/lint",
    "scripts/lint.d/files.py": "scripts/lint",
    "scripts/lint.d/tidy.py": "scripts/lint",
    "scripts/lint.d/words.py": "scripts/lint",
    "bindings/python/dist.py": "meson dist",
}
COMMANDS = {
    "compare": ["run", "report"],
    "dfccl-bench": ["replay"],
    "dfccl-sim": ["run", "table1", "check", "sweep", "explain", "time"],
}


def scripts(top: pathlib.Path) -> list[pathlib.Path]:
    found = []
    for folder in FOLDERS:
        for directory, names, files in os.walk(top / folder):
            names[:] = [name for name in names if name not in ("__pycache__", "build")]
            for file in files:
                path = pathlib.Path(directory, file)
                if not path.is_file() or path.is_symlink() or not os.access(path, os.X_OK):
                    continue
                if path.read_bytes()[:2] == b"#!":
                    found.append(path)
    return sorted(found)


def faults(command: list[str], folder: str) -> list[str]:
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    try:
        done = subprocess.run(
            [*command, "--help"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return [f"--help has not ended after {SECONDS} s"]
    found = []
    if done.returncode != 0:
        found.append(f"status {done.returncode} of --help: {done.stderr[:300]}")
    if done.stderr:
        found.append(f"--help prints on standard error: {done.stderr[:300]}")
    if not done.stdout.strip():
        found.append("--help prints nothing")
    for line in done.stdout.splitlines():
        if len(line) > COLUMNS:
            found.append(f"{len(line)} columns: {line}")
        if line != line.rstrip() or "\t" in line:
            found.append(f"tabs, or blanks at the end: {line!r}")
    for paragraph in re.split(r"\n\s*\n", done.stdout):
        text = " ".join(paragraph.split())
        for words in re.findall(rf"(?:[\w:*-]+, ){{{LONGEST_ENUMERATION},}}[\w:*-]+", text):
            found.append(f"an enumeration that is not a list: {words}")
    if os.listdir(folder):
        found.append(f"--help leaves files: {os.listdir(folder)}")
    return found


def main() -> int:
    top = pathlib.Path(sys.argv[1]).resolve()
    paths = [pathlib.Path(program).resolve() for program in sys.argv[2:]]
    known = scripts(top)
    paths += [path for path in known if str(path.relative_to(top)) not in CALLED_BY_OTHERS]
    wrong = [
        f"{name}: not an executable script any more: remove it from this test"
        for name in CALLED_BY_OTHERS
        if top / name not in known
    ]
    for path in paths:
        for words in [[], *([word] for word in COMMANDS.get(path.name, []))]:
            with tempfile.TemporaryDirectory() as folder:
                command = [str(path), *words]
                wrong += [
                    f"{' '.join([path.name, *words])}: {fault}" for fault in faults(command, folder)
                ]
    print("\n".join(wrong) if wrong else f"{len(paths)} help texts are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
