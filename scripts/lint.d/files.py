#!/usr/bin/env python3
"""Prints the files that a check of scripts/lint reads, one a line: files.py KIND [PATH...]

KIND is one of c, model, shell, python, meson, prose, text. "model" is every SPIN model, "prose" is
every Markdown document, "text" is every file of the other kinds. With PATHs, only those files, and
the files below those directories, are printed. A symbolic link is never printed, because its target
is printed.
"""

import os
import subprocess
import sys

C_ENDINGS = (".c", ".h", ".cc", ".cpp", ".cu", ".cuh")
# Files that other programs wrote, or that keep the words of their day.
EXCLUDED = ("bench/results/", "tests/fuzz/corpus/", "bindings/python/subprojects/")


def git_files(root: str) -> list[str] | None:
    """The tracked and the new files of a clone; None outside a clone."""
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if not os.path.exists(os.path.join(root, ".git")):
        return None
    listed = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    return listed.stdout.decode().split("\0")[:-1] if listed.returncode == 0 else None


def walked_files(root: str) -> list[str]:
    """The files of a tree that is not a clone, such as an unpacked release."""
    found = []
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if not name.startswith((".", "build", "__pycache__"))]
        found += [os.path.relpath(os.path.join(directory, file), root) for file in files]
    return found


def all_files(root: str) -> list[str]:
    """Paths relative to the root, sorted, of regular files that are not excluded."""
    listed = git_files(root)
    paths = walked_files(root) if listed is None else listed
    return sorted(
        path
        for path in set(paths)
        if not path.startswith(EXCLUDED)
        and os.path.isfile(os.path.join(root, path))
        and not os.path.islink(os.path.join(root, path))
    )


def interpreter(root: str, path: str) -> str:
    """The program of the first line "#!", without its folder: "python3", "bash" or "sh"."""
    with open(os.path.join(root, path), "rb") as file:
        first = file.readline(128)
    words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
    return os.path.basename(words[-1]) if words else ""


def kind_of(root: str, path: str) -> str:
    """The kind of a file; "" for a file that no check reads."""
    name = os.path.basename(path)
    if name.endswith(C_ENDINGS):
        return "c"
    if name.endswith(".pml"):
        return "model"
    if name.endswith(".py"):
        return "python"
    if name.endswith(".sh"):
        return "shell"
    if name in ("meson.build", "meson_options.txt"):
        return "meson"
    if name.endswith(".md"):
        return "prose"
    if "." not in name or path.startswith(".githooks/"):
        program = interpreter(root, path)
        if program.startswith("python"):
            return "python"
        if program in ("sh", "bash"):
            return "shell"
    return ""


def select(paths: list[str], wanted: list[str]) -> list[str]:
    """The paths that are wanted files, or that are below a wanted directory."""
    if not wanted:
        return paths
    names = [os.path.normpath(name) for name in wanted]
    return [
        path
        for path in paths
        if any(name in (".", path) or path.startswith(name + "/") for name in names)
    ]


def files_of(root: str, kind: str, wanted: list[str]) -> list[str]:
    """The files of one kind, "text" for those of all kinds."""
    paths = select(all_files(root), wanted)
    kinds = {path: kind_of(root, path) for path in paths}
    return [path for path in paths if kinds[path] and kind in ("text", kinds[path])]


def main() -> int:
    print("\n".join(files_of(os.getcwd(), sys.argv[1], sys.argv[2:])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
