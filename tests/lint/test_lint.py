#!/usr/bin/env python3
"""Promise: scripts/lint finds each kind of fault and names its file and line; it accepts a file
without faults, and an exception that has a reason. test_lint.py

The program makes a small project in a temporary directory, with the tools and the settings of this
one. It plants one fault at a time and runs the tool that must find it. It prints "ok NAME" or "not
ok NAME" for each fault.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = [
    *("scripts/lint", "scripts/lint.d", "scripts/lib", ".clang-format", ".clang-tidy"),
    *("tests/.clang-tidy", ".shellcheckrc", "ruff.toml", "mypy.ini"),
]
# In two parts, so that the lint does not read the strings below as exceptions
MARK = "lint: " + "allow"

GOOD = {
    "meson.build": "project('small', 'c')\nexecutable('small', 'src/good.c', 'src/loop.c')\n",
    "meson_options.txt": "option('cuda', type: 'feature', value: 'auto')\n"
    "option('tests', type: 'boolean', value: false)\n",
    "src/good.c": "/* Returns the sum of two numbers. */\nint main(void) { return 0; }\n",
    "src/loop.c": "int df_unused(void);\nint df_unused(void) { return 1; }\n",
    "scripts/good": '#!/usr/bin/env bash\n# Prints its first argument.\necho "$1"\n',
    "bindings/python/dfccl/__init__.py": '"""A package."""\n',
    "bindings/python/dfccl/good.py": "def double(value: int) -> int:\n    return 2 * value\n",
    "docs/GOOD.md": "# A heading\n\nThe sender waits for credit.\n",
}

# name, tool, file, text, the line of the finding and a part of its message
FAULTS = [
    (
        "a misformatted source",
        "clang-format",
        "src/a.c",
        "int main(void)\n{\n  return 0;\n}\n",
        1,
        "format",
    ),
    (
        "a loop that may not end",
        "clang-tidy",
        "src/loop.c",
        "int df_sum(int most);\nint df_sum(int most) {\n  int sum = 0;\n"
        "  for (unsigned char i = 0; i < most; i++) sum += i;\n  return sum;\n}\n",
        4,
        "bugprone-too-small-loop-variable",
    ),
    (
        "an unquoted variable",
        "shellcheck",
        "scripts/a",
        "#!/usr/bin/env bash\nrm $1\n",
        2,
        "SC2086",
    ),
    (
        "a fault of a sourced script",
        "shellcheck",
        "scripts/a.sh",
        "# shellcheck shell=sh\nrm $1\n",
        2,
        "SC2086",
    ),
    ("an unused import", "ruff", "scripts/a.py", '"""A program."""\nimport os\n', 2, "F401"),
    ("a misformatted program", "ruff", "scripts/a.py", "value = [ 1,2 ]\n", 1, "format"),
    (
        "an untyped function of the package",
        "mypy",
        "bindings/python/dfccl/a.py",
        "def double(value):\n    return 2 * value\n",
        1,
        "missing a type annotation",
    ),
    (
        "an untyped function of the scripts",
        "mypy",
        "scripts/a.py",
        "def f(a):\n    return a\n",
        1,
        "missing a type",
    ),
    ("a wrong type", "mypy", "scripts/a.py", "value: int = 'text'\n", 1, "Incompatible types"),
    (
        "a misspelling",
        "codespell",
        "docs/A.md",
        "# A heading\n\nIt is " + "recie" + "ved.\n",
        3,
        "received",
    ),
    (
        "a long line of a source",
        "columns",
        "src/a.c",
        "\n/* " + "word " * 22 + "*/\n",
        2,
        "115 columns",
    ),
    ("a long line of a document", "columns", "docs/A.md", "word " * 25 + "\n", 1, "limit is 120"),
    ("blanks at an end", "columns", "docs/A.md", "A word. \n", 1, "ends in blanks"),
    ("no last newline", "columns", "src/a.c", "int a;", 1, "newline"),
    (
        "a first word of a comment",
        "words",
        "src/a.c",
        "/* What the sender keeps. */\n",
        1,
        '"What"',
    ),
    (
        "a first word of a sentence",
        "words",
        "src/a.c",
        "/* The lock is held.\n * Who waits? */\n",
        2,
        '"Who"',
    ),
    ("a first word in a model", "words", "docs/a.pml", "/* Of a ring. */\n", 1, '"Of"'),
    ("a first word in Python", "words", "scripts/a.py", '"""Of the ranks."""\n', 1, '"Of"'),
    ("a first word in a script", "words", "scripts/a", "#!/bin/sh\n# Else it ends.\n", 2, '"Else"'),
    (
        "a first word of a paragraph",
        "words",
        "docs/A.md",
        "# A\n\nA word. Whoever waits.\n",
        3,
        '"Whoever"',
    ),
    ("a question as a heading", "words", "docs/A.md", "# Is it fast?\n", 1, "question"),
    (
        "a replaced word",
        "words",
        "docs/A.md",
        "The " + "man" + "ner of a run.\n",
        1,
        "configuration",
    ),
    (
        "a replaced phrase on two lines",
        "words",
        "src/a.c",
        "/* A type\n * that is\n * none. */\n",
        2,
        "invalid",
    ),
    (
        "a replaced word of a message",
        "words",
        "src/a.c",
        'char *a = "the " "greet" "ing of x";\n',
        1,
        "handshake",
    ),
    ("a replaced name", "words", "src/a.c", "int df_" + "shield_open;\n", 1, "df_protection"),
    (
        "an exception without a reason",
        "words",
        "src/a.c",
        f"/* {MARK}(what) */\n/* What a test needs. */\n",
        1,
        "has no reason",
    ),
    (
        "a useless exception",
        "words",
        "src/a.c",
        f"/* {MARK}(what) a quotation */\n",
        1,
        "excepts nothing",
    ),
]

# Texts that must pass: an exception in its place, and words in a sense that is common.
ACCEPTED = [
    (
        "an exception on the line",
        "words",
        "src/a.c",
        f"/* What a test needs. {MARK}(what) a quotation */\n",
    ),
    (
        "an exception on the line before",
        "words",
        "docs/A.md",
        f"<!-- {MARK}(heading) the name of a chapter elsewhere -->\n# Is it fast?\n",
    ),
    (
        "an exception for a file",
        "words",
        "src/a.c",
        f"/* {MARK}-file(opening) quotations */\n\n\n/* What. */\n",
    ),
    (
        "an exception for a long line",
        "columns",
        "src/a.c",
        f"/* {MARK}(columns) a table */\n/* " + "word " * 22 + "*/\n",
    ),
    (
        "code in a document",
        "words",
        "docs/A.md",
        "# A\n\n    What greeting? whoever\n\n```\nWhat\n```\n",
    ),
    ("words in backticks", "words", "docs/A.md", "The option `--greeting` is new.\n"),
    ("a wide table", "columns", "docs/A.md", "| " + "word " * 30 + "|\n"),
]


def lint(project: pathlib.Path, *arguments: str, **variables: str) -> tuple[int, str]:
    environment = {**os.environ, "DFCCL_TEST_NO_INSTALL": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    # Tools that scripts/lint has installed for the real project serve the small one.
    environment["PATH"] = f"{ROOT / 'build-lint/venv/bin'}:{environment['PATH']}"
    environment.update(variables)
    run = subprocess.run(
        [project / "scripts/lint", *arguments],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout


def make_project(project: pathlib.Path) -> None:
    for name in COPIED:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, project / name)
    for name, text in GOOD.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)


class Report:
    failed = 0

    def tell(self, name: str, is_so: bool, output: str) -> None:
        print(("ok " if is_so else "not ok ") + name)
        if not is_so:
            self.failed += 1
            print("    " + output.strip().replace("\n", "\n    "))


def check_planted(project: pathlib.Path, report: Report) -> None:
    for name, tool, path, text, line, message in FAULTS:
        (project / path).write_text(text)
        status, output = lint(project, "--tool", tool)
        if f"lint: {tool}: skipped" in output:
            print(f"skipped: {name}: {tool} is not installed")
        else:
            found = [said for said in output.splitlines() if said.startswith(f"{path}:{line}: ")]
            report.tell(name, status == 1 and any(message in said for said in found), output)
        restore(project, path)


def check_accepted(project: pathlib.Path, report: Report) -> None:
    for name, tool, path, text in ACCEPTED:
        (project / path).write_text(text)
        status, output = lint(project, "--tool", tool, path)
        report.tell(name, status == 0, output)
        restore(project, path)


def restore(project: pathlib.Path, path: str) -> None:
    if path in GOOD:
        (project / path).write_text(GOOD[path])
    else:
        (project / path).unlink()


def check_mending(project: pathlib.Path, report: Report) -> None:
    (project / "src/a.c").write_text("int main( void )\n{ return 0; }  \n")
    (project / "scripts/a.py").write_text("import sys\nimport os\nprint( os.name,sys.argv )\n")
    status, output = lint(project, "--fix", "--quick", "src/a.c", "scripts/a.py")
    report.tell("--fix mends layout, imports and blanks", status == 0, output)
    (project / "src/a.c").unlink()
    (project / "scripts/a.py").unlink()


def check_missing(project: pathlib.Path, report: Report) -> None:
    """A tool that is not installed and cannot be fetched is skipped."""
    with tempfile.TemporaryDirectory(prefix="dfccl-programs-") as folder:
        for directory in os.get_exec_path():
            for program in pathlib.Path(directory).glob("*"):
                link = pathlib.Path(folder, program.name)
                if program.name != "ruff" and not link.is_symlink():
                    link.symlink_to(program.resolve())
        for name, no_install in (("may not", "1"), ("cannot", "0")):
            variables = {"PATH": folder, "PIP_NO_INDEX": "1", "DFCCL_TEST_NO_INSTALL": no_install}
            status, output = lint(project, "--tool", "ruff", **variables)
            is_skipped = status == 0 and "lint: ruff: skipped: it is not installed" in output
            report.tell(f"a missing tool that {name} be fetched is skipped", is_skipped, output)


def check_hook(project: pathlib.Path, report: Report) -> None:
    """The hook refuses a commit of a file with a fault, and looks at staged files only."""

    def git(*arguments: str) -> int:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        run = subprocess.run(command, cwd=project, capture_output=True, check=False)
        return run.returncode

    for name in (".githooks/pre-commit", "scripts/setup-hooks"):
        (project / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, project / name)
    git("init")
    subprocess.run([project / "scripts/setup-hooks"], check=True, capture_output=True)
    (project / "docs/A.md").write_text("What a document says.\n")
    git("add", "docs/A.md")
    report.tell("the hook refuses a fault", git("commit", "-m", "a") != 0, "")
    git("rm", "--cached", "docs/A.md")
    git("add", "docs/GOOD.md")
    report.tell("the hook accepts a file without a fault", git("commit", "-m", "b") == 0, "")


def main() -> int:
    report = Report()
    with tempfile.TemporaryDirectory(prefix="dfccl-lint-") as folder:
        project = pathlib.Path(folder)
        make_project(project)
        status, output = lint(project)
        report.tell("a project without faults", status == 0, output)
        check_planted(project, report)
        check_accepted(project, report)
        check_mending(project, report)
        check_missing(project, report)
        check_hook(project, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
