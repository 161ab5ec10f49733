#!/usr/bin/env python3
"""Promise: the completions of bash and zsh offer exactly the commands and options of the programs'
help texts, and words that the programs accept.

    test_completions.py GENERATOR PROGRAM...
"""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SECONDS = 60
OPTION = re.compile(r"(?<![\w-])(?:--[a-z][a-z_-]*|-[a-z])(?![\w-])")

wrong: list[str] = []


def check(condition: bool, what: str) -> None:
    if not condition:
        wrong.append(what)


def output(*command: str) -> str:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
    )
    return done.stdout + done.stderr


def offered(options) -> set[str]:
    return {name for option in options for name in option.names}


def compare(what: str, ours: set[str], help_has: set[str]) -> None:
    check(
        ours == help_has,
        f"{what}: only the completion has {sorted(ours - help_has)}, "
        f"only the help text has {sorted(help_has - ours)}",
    )


def usage_of_simulator(text: str) -> dict[str, set[str]]:
    """The options of each command, by the usage lines."""
    found, command = {}, ""
    for line in text.split("\nOptions:")[0].splitlines():
        if match := re.match(r"  dfccl-sim ([a-z0-9]+) ", line):
            command = match[1]
            found[command] = set()
        elif re.match(r" {0,6}\S", line):
            command = ""
        if command:
            found[command] |= set(OPTION.findall(line))
    return found


def check_options(generator, path: pathlib.Path) -> None:
    program = generator.PROGRAMS[path.name]
    text = output(str(path), "--help")
    everything = set().union(*(offered(options) for options in program.commands.values()))
    compare(path.name, everything, set(OPTION.findall(text)))
    if path.name == "dfccl-sim":
        common = offered(generator.COMMON)
        for command, options in usage_of_simulator(text).items():
            compare(
                f"{path.name} {command}",
                offered(program.commands.get(command, [])) - common,
                options,
            )
    for options in program.commands.values():
        for option in options:
            for word in option.words:
                if option.value is not generator.ALGORITHMS:
                    check(
                        re.search(rf"\b{word}\b", text) is not None,
                        f"{path.name} {option.names[-1]}: the help text lacks {word}",
                    )
    for command, operands in program.operands.items():
        for operand in operands:
            for word in operand if isinstance(operand, list) else []:
                if path.name in ("dfccl-bench", "dfccl-demo"):
                    check(
                        re.search(rf"\b{word}\b", text) is not None,
                        f"{path.name} {command}: the help text lacks {word}",
                    )


def check_algorithms(generator, simulator: str) -> None:
    known: set[str] = set()
    for operation in generator.TIMED:
        sentence = output(simulator, "time", operation, "-n", "4", "--algorithm", "none-of-these")
        check(" has " in sentence, f"{operation} is no operation of dfccl-sim time: {sentence}")
        known |= set(sentence.split(" has ")[-1].strip().split(", "))
    compare("algorithms", set(generator.ALGORITHMS), known)


BASH = r"""
source "$1"
shift
name=$1
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
"_${name//-/_}"
printf '%s\n' "${COMPREPLY[@]}"
"""


def bash(script: str, *words: str) -> set[str]:
    return set(output("bash", "-c", BASH, "bash", script, *words).split())


def check_bash(folder: str) -> None:
    def expect(wanted: set[str], *words: str, exactly: bool = True) -> None:
        got = bash(f"{folder}/{words[0]}.bash", *words)
        check(got == wanted if exactly else wanted <= got, f"bash: {words}: {sorted(got)}")

    sorts = {"time", "total"}
    expect(sorts, "dfccl-trace", "--sort", "t")
    expect(sorts, "dfccl-trace", "traces", "--sort", "=", "t")
    expect({"runs"}, "dfccl-trace", "--json", "--sort", "r")
    expect({"--sort"}, "dfccl-trace", "--so")
    expect(set(), "dfccl-trace", "traces", "")
    expect({"allreduce", "allgather", "alltoall", "allgatherv", "alltoallv"}, "dfccl-bench", "al")
    expect({"allreduce"}, "dfccl-bench", "-n", "4", "--op", "=", "sum", "allr")
    expect({"--warmup_iters"}, "dfccl-bench", "allreduce", "--w")
    expect({"half"}, "dfccl-bench", "allreduce", "-d", "h")
    expect(set(), "dfccl-bench", "allreduce", "-n", "")
    expect(
        {"run", "table1", "check", "sweep", "explain", "time", "--help", "--version"},
        "dfccl-sim",
        "",
    )
    expect({"--engine"}, "dfccl-sim", "run", "--e")
    expect(set(), "dfccl-sim", "check", "--e")
    expect({"sparse"}, "dfccl-sim", "run", "a.json", "--engine", "s")
    expect({"reduce", "reducescatter"}, "dfccl-sim", "time", "redu")
    expect({"ring"}, "dfccl-info", "plan", "allreduce", "ri")
    expect({"disorder", "survive"}, "dfccl-demo", "")
    with tempfile.TemporaryDirectory() as work:
        pathlib.Path(work, "file").touch()
        pathlib.Path(work, "folder").mkdir()
        expect({f"{work}/folder"}, "dfccl-trace", f"{work}/f")
        expect({f"{work}/file", f"{work}/folder"}, "dfccl-sim", "run", f"{work}/f")
        expect({f"{work}/file", f"{work}/folder"}, "dfccl-trace", "-o", f"{work}/f")


def main() -> int:
    spec = importlib.util.spec_from_file_location("generate", sys.argv[1])
    assert spec and spec.loader
    generator = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = generator
    spec.loader.exec_module(generator)
    programs = [pathlib.Path(program) for program in sys.argv[2:]]
    compare("programs", {path.name for path in programs}, set(generator.PROGRAMS))
    for path in programs:
        check_options(generator, path)
        if path.name == "dfccl-sim":
            check_algorithms(generator, str(path))
    zsh = shutil.which("zsh")
    with tempfile.TemporaryDirectory() as folder:
        for name in generator.PROGRAMS:
            for shell in ("bash", "zsh"):
                path = pathlib.Path(folder, f"{name}.{shell}")
                path.write_text(output(sys.executable, sys.argv[1], shell, name), encoding="utf-8")
                if shell == "bash" or zsh:
                    said = output(shell, "-n", str(path))
                    check(not said, f"{shell} -n {name}: {said}")
        check_bash(folder)
    print("\n".join(wrong) if wrong else "the completions are those of the help texts")
    if not zsh:
        print("no zsh here: its completions were not parsed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
