#!/usr/bin/env python3
"""Runs clang-tidy over the C sources that meson compiles.

    tidy.py CLANG_TIDY BUILD_DIRECTORY [PATH...]

Each file is checked once, with its first compile command. A result is kept in
BUILD_DIRECTORY/tidy-cache under a hash of the programs, their configuration, the command, the file
and the project's headers that it includes, so that a second run checks only what has changed.
Prints the findings as "file:line: message"; the exit status is 0 if there are none. The last line
on standard error has how many files were checked and how many of them were in the cache.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys

import files

INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
FINDING = re.compile(r"^(/?[^\s:]+):(\d+):(\d+): (?:warning|error): (.*)$")
CONFIGURATIONS = (".clang-tidy", "tests/.clang-tidy", "scripts/lint.d/tidy.py")


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


class Includes:
    """The project's headers that a file includes, directly or through other headers."""

    def __init__(self) -> None:
        self.read: dict[str, tuple[str, list[str]]] = {}  # path -> digest of it, names it includes

    def facts(self, path: str) -> tuple[str, list[str]]:
        if path not in self.read:
            text = content(path)
            names = [name.decode() for name in INCLUDE.findall(text)]
            self.read[path] = (hashlib.sha256(text).hexdigest(), names)
        return self.read[path]

    def closure(self, path: str, folders: list[str]) -> list[str]:
        """The paths, sorted, of the file and of all headers found beside it or in the folders."""
        found, pending = {path}, [path]
        while pending:
            current = pending.pop()
            for name in self.facts(current)[1]:
                for folder in [os.path.dirname(current), *folders]:
                    candidate = os.path.normpath(os.path.join(folder, name))
                    if os.path.isfile(candidate):
                        if candidate not in found:
                            found.add(candidate)
                            pending.append(candidate)
                        break
        return sorted(found)


def first_commands(build: str) -> dict[str, dict[str, str]]:
    """The first entry of the compile database for each source file of the project."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    first: dict[str, dict[str, str]] = {}
    for entry in entries:
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]))
        if not path.startswith(("..", build)):
            first.setdefault(path, entry)
    return first


def key_of(entry: dict[str, str], path: str, includes: Includes, program: str) -> str:
    words = shlex.split(entry["command"])
    folders = [
        os.path.join(entry["directory"], word[2:]) for word in words if word.startswith("-I")
    ]
    digest = hashlib.sha256((program + entry["command"]).encode())
    for name in includes.closure(os.path.abspath(path), [os.path.relpath(f) for f in folders]):
        digest.update((os.path.relpath(name) + includes.facts(name)[0]).encode())
    return digest.hexdigest()


def check(tidy: str, database: str, path: str) -> tuple[bool, list[str]]:
    """Whether clang-tidy has run to its end, and the findings."""
    command = [tidy, "--quiet", "-p", database, "--extra-arg=-Wno-unknown-warning-option",
               "--extra-arg=-Wno-unused-command-line-argument", path]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    findings = []
    for line in run.stdout.splitlines():
        match = FINDING.match(line)
        if match:
            name = os.path.join(os.path.dirname(database), match[1])
            name = os.path.relpath(os.path.normpath(name))
            if name.startswith(".."):  # a header of the system
                continue
            findings.append(f"{name}:{match[2]}: {match[4]}")
    if run.returncode != 0 and not run.stdout:
        return False, [f"{path}:1: clang-tidy failed: {(run.stderr or run.stdout).strip()[-300:]}"]
    return True, findings


def cached_check(tidy: str, build: str, path: str, key: str) -> tuple[bool, list[str]]:
    """Whether the result was in the cache, and the findings."""
    kept = os.path.join(build, "tidy-cache", key)
    if os.path.exists(kept):
        return True, content(kept).decode().splitlines()
    complete, findings = check(tidy, os.path.join(build, "tidy-database"), path)
    if complete:
        with open(kept + f".{os.getpid()}", "w", encoding="utf-8") as file:
            file.write("\n".join(findings))
        os.replace(kept + f".{os.getpid()}", kept)
    return False, findings


def main() -> int:
    tidy, build, wanted = sys.argv[1], sys.argv[2], sys.argv[3:]
    first = first_commands(build)
    chosen = files.select(sorted(first), wanted)
    for folder in ("tidy-cache", "tidy-database"):
        os.makedirs(os.path.join(build, folder), exist_ok=True)
    # clang-tidy checks a file once for each of its commands, so it gets a database of first
    # commands.
    database = os.path.join(build, "tidy-database", "compile_commands.json")
    with open(database, "w", encoding="utf-8") as file:
        json.dump(list(first.values()), file)
    version = subprocess.run([tidy, "--version"], capture_output=True, text=True, check=True).stdout
    program = version + "".join(content(name).decode() for name in CONFIGURATIONS)
    includes = Includes()
    keys = {path: key_of(first[path], path, includes, program) for path in chosen}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda path: cached_check(tidy, build, path, keys[path]), chosen))
    # A finding in a header is reported once, though many sources include the header.
    findings = sorted({finding for _, found in results for finding in found})
    print("\n".join(findings), end="\n" if findings else "")
    print(len(chosen), sum(was_kept for was_kept, _ in results), file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
