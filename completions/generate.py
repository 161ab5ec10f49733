#!/usr/bin/env python3
"""Prints the completion of a program for a shell.

    generate.py bash|zsh PROGRAM

The tables below name the commands and options of each program. A test compares
them with the help texts of the programs.
"""

import dataclasses
import sys

FILE, DIRECTORY = "file", "directory"  # kinds of values; other words: no suggestion


@dataclasses.dataclass
class Option:
    names: tuple[str, ...]
    meaning: str
    value: str | list[str] | None = None  # None: the option has none; a list: one of these words

    @property
    def words(self) -> list[str]:
        return self.value if isinstance(self.value, list) else []


@dataclasses.dataclass
class Program:
    # Commands with their options and operands. A program without commands has one, "".
    commands: dict[str, list[Option]]
    # Values of the words behind each command: a kind, or a list of words. The last one repeats.
    operands: dict[str, list[str | list[str]]]
    meanings: dict[str, str] = dataclasses.field(default_factory=dict)


def option(names: str, meaning: str, value: str | list[str] | None = None) -> Option:
    return Option(tuple(names.split()), meaning, value)


OPERATIONS = (
    "allreduce reduce broadcast allgather reducescatter alltoall gather scatter sendrecv barrier "
    "scan exclusivescan allgatherv reducescatterv gatherv scatterv alltoallv neighbours"
).split()
ALGORITHMS = (
    "ring doubling rabenseifner direct allpairs halving binomial pairwise twolevel doubletree "
    "bruck hierarchical flat pat bcube binaryblocks trees ordered scatter-allgather"
).split()
TREE_OPERATIONS = "allreduce reduce broadcast allgather reducescatter".split()
TYPES = (
    "int8 uint8 int16 uint16 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2"
).split()
JSON = option("--json", "print one JSON object")
COMMON = [option("--help", "print the help text"), option("--version", "print the version")]
RANKS = option("-n --ranks", "ranks on this machine", "ranks")
PROCESSES = option("--processes", "one process for each rank instead of a thread")
ENV = option("--env", "this process is one rank of a job that a launcher has started")
BACKEND = option("--backend", "device that executes the collectives", ["cpu", "cuda"])

ENGINES = ["dfccl", "ordered", "coordinator", "first-step", "mpi", "gloo"]
BENCH = [
    RANKS,
    PROCESSES,
    ENV,
    option("-b --minbytes", "first size", "size"),
    option("-e --maxbytes", "last size", "size"),
    option("-f --stepfactor", "ratio of a size to the one before", "factor"),
    option("-i --iters", "timed iterations", "number"),
    option("-w --warmup_iters", "untimed iterations before", "number"),
    option("-d --datatype", "data type", TYPES),
    option("-o --op", "reduction operator", "sum prod max min avg band bor bxor".split()),
    option("-a --algorithm", "name of an algorithm", ALGORITHMS),
    option("--rounds", "turns of disorder or tune", "number"),
    option("--seed", "seed of the random orders", "number"),
    option("--out", "file for the table of tune", FILE),
    option("--quick", "tune in 30 s, for the jobs of this machine"),
    option("--alloc", "ordinary memory, or memory of dfcclMemAlloc", ["user", "dfccl"]),
    option("--in-place", "in-place results only"),
    BACKEND,
    option("--survive", "behaviour when a rank is lost", ["0", "1", "2"]),
    option("--check", "check every element of one more run"),
    option("--explain", "print how the library would execute each size"),
    option("--bound", "print the lower bound beside each time"),
    option("--network", "with --bound: the bound for this network", FILE),
    option("--engine", "replay: who decides the order", ENGINES),
    option("--order", "replay: order of the program", ["given", "shuffle", "priority"]),
    option("--scale", "replay: factors BYTES:COUNTS:COMPUTE", "factors"),
    option("--compute", "replay: the computing", ["spin", "sleep", "memory"]),
    option("--float", "replay: type of all floating-point numbers", "type"),
    option("--rate", "replay: units of computing in a microsecond", "number"),
    option("--peer", "replay: module of the engine mpi or gloo", FILE),
    option("--rendezvous", "replay: directory of the ranks of gloo", DIRECTORY),
    option("--iterations", "replay: timed iterations", "number"),
    JSON,
    *COMMON,
]
DEMO = [
    RANKS,
    option("-c --collectives", "all-reduces in each iteration", "number"),
    option("-i --iterations", "iterations", "number"),
    option("--sync", "add device synchronisations at random places"),
    PROCESSES,
    ENV,
    option("--seed", "seed of the orders and the data", "number"),
    BACKEND,
    option("--in-order-baseline", "run the program on a blocking engine, which deadlocks"),
    option("--survive", "runs under way at a loss are executed again, or fail", ["1", "2"]),
    option("--interval", "milliseconds between kills, and between starts", "number"),
    JSON,
    *COMMON,
]
INFO_PLAN = [
    option("-n", "ranks", "ranks"),
    option("--root", "root of the operation", "rank"),
    option("--split", "ranks of a subgroup", "ranks"),
    option("--xml", "as a file in MSCCL's XML"),
    *COMMON,
]
TRACE = [
    option("-o --output", "write a file for Perfetto", FILE),
    option(
        "--sort",
        "order of the collectives",
        "id name operation bytes runs failed partial time wait total".split(),
    ),
    option("--each", "one line for each collective instead of each signature"),
    JSON,
    *COMMON,
]
SYNTHESISE = [
    option("-n", "ranks", "ranks"),
    option("-b --bytes", "bytes of a rank's larger buffer", "size"),
    option("--root", "root of a reduce and a broadcast", "rank"),
    option("--engine", "way of computing", "auto weighted forest balanced milp".split()),
    option("--xml", "write the plan in MSCCL's XML", FILE),
    option("-o --output", "write the trees as JSON", FILE),
    option("--explain", "print the load of each port, and the trees"),
    JSON,
    *COMMON,
]
TOP = [
    option("--once", "print the table once"),
    JSON,
    option("--svg", "write a picture", FILE),
    option("--flight", "write the latest runs of each rank", DIRECTORY),
    *COMMON,
]
ROUNDS = option("--rounds", "number of rounds", "number")
SEED = option("--seed", "seed of all rounds", "number")
THREADS = option("--threads", "threads", "number")
ORDER = option("--order", "order of a GPU's collectives", ["concat", "roundrobin"])
SIMULATOR = {
    "run": [
        ROUNDS,
        SEED,
        THREADS,
        ORDER,
        option("--check", "the definition, or the published program", ["exact", "reference"]),
        option("--engine", "the engine of the exact check", ["sparse", "dense", "oracle"]),
        JSON,
    ],
    "table1": [ROUNDS, SEED, THREADS, option("--reference", "the reference check, too"), JSON],
    "check": [option("--model", "how GPUs execute collectives", ["single", "sync"]), JSON],
    "sweep": [
        option("--disorder", "probabilities of a disorder, A:B:N", "range"),
        option("--sync", "probabilities of a synchronisation, A:B:N", "range"),
        option("--csv", "comma-separated values", FILE),
        option("--svg", "a picture", FILE),
        ROUNDS,
        SEED,
        THREADS,
        ORDER,
    ],
    "explain": [SEED, option("--round", "number of the round", "number"), ORDER],
    "time": [
        option("-n", "ranks", "ranks"),
        option("-b", "sizes, such as 16M..1G", "sizes"),
        option("--algorithm", "one algorithm instead of all", ALGORITHMS),
        option("--network", "rates and latencies", FILE),
        option("--slots", "slots of each connection", "number"),
        option("--slot", "bytes of a slot", "size"),
        option("--split", "subgroup size of twolevel and hierarchical", "number"),
        option("--lanes", "lanes of hierarchical", "number"),
        option("--blocks", "blocks of the collective", "number"),
        option("--trace", "a picture for Perfetto", FILE),
        JSON,
    ],
}
TIMED = (
    "allreduce reduce broadcast allgather reducescatter alltoall gather scatter scan exclusivescan"
).split()

PROGRAMS = {
    "dfccl-bench": Program(
        {"": BENCH}, {"": [[*OPERATIONS, "overhead", "tune", "disorder", "events", "replay"], FILE]}
    ),
    "dfccl-demo": Program({"": DEMO}, {"": [["disorder", "survive"], ""]}),
    "dfccl-info": Program(
        {"net": [ENV, JSON, *COMMON], "files": [JSON, *COMMON], "plan": INFO_PLAN},
        {"net": [""], "files": [DIRECTORY, ""], "plan": [OPERATIONS, ALGORITHMS, ""]},
        {
            "net": "network interfaces, and the paths between ranks",
            "files": "algorithms in MSCCL's XML",
            "plan": "a plan of the library as such a file",
        },
    ),
    "dfccl-sim": Program(
        {name: [*options, *COMMON] for name, options in SIMULATOR.items()},
        {
            "run": [FILE, ""],
            "table1": [""],
            "check": [FILE],
            "sweep": [FILE, ""],
            "explain": [FILE, ""],
            "time": [TIMED, ""],
        },
        {
            "run": "how often a job deadlocks",
            "table1": "the rows of Table 1 of the paper",
            "check": "whether a recorded schedule deadlocks",
            "sweep": "the risk over both probabilities",
            "explain": "the events of one round",
            "time": "the time of a collective on a network",
        },
    ),
    "dfccl-synthesise": Program({"": SYNTHESISE}, {"": [FILE, TREE_OPERATIONS, ""]}),
    "dfccl-top": Program({"": TOP}, {"": [""]}),
    "dfccl-trace": Program({"": TRACE}, {"": [DIRECTORY, ""]}),
}


# ---- bash


def bash_answer(value: str | list[str]) -> str:
    """The statement that suggests values of this kind for the word at the cursor."""
    if value == FILE:
        return 'mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null'
    if value == DIRECTORY:
        return 'mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null'
    words = " ".join(value) if isinstance(value, list) else ""
    return f"mapfile -t COMPREPLY < <(compgen -W '{words}' -- \"$cur\")"


def bash_command(program: Program, command: str) -> list[str]:
    """The suggestions behind one command."""
    options = program.commands[command]
    lines = ["      case $prev in"]
    for one in options:
        if one.value is not None:
            lines.append(f"        {' | '.join(one.names)}) {bash_answer(one.value)}; return ;;")
    names = [name for one in options for name in one.names]
    lines += ["      esac", "      if [[ $cur == -* ]]; then", f"        {bash_answer(names)}"]
    lines += ["        return", "      fi", "      case $n in"]
    operands = program.operands[command]
    for number, operand in enumerate(operands):
        pattern = "*" if number == len(operands) - 1 else str(number)
        lines.append(f"        {pattern}) {bash_answer(operand)} ;;")
    return [*lines, "      esac"]


def bash(name: str, program: Program) -> str:
    function = "_" + name.replace("-", "_")
    valued = sorted(
        {
            name
            for options in program.commands.values()
            for one in options
            if one.value is not None
            for name in one.names
        }
    )
    has_commands = "" not in program.commands
    lines = [
        f"# Completion of {name} for bash 4 and later.",
        f"{function}() {{",
        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command='' n=0 i",
        "  COMPREPLY=()",
        "  # Bash makes three words of --option=value.",
        "  [[ $cur != = ]] || cur=''",
        "  [[ $prev != = ]] || prev=${COMP_WORDS[COMP_CWORD - 2]}",
        "  # n: words before the cursor that are no options, and no values of options.",
        "  for ((i = 1; i < COMP_CWORD; i++)); do",
        "    case ${COMP_WORDS[i]} in",
        f"      {' | '.join(valued)})",
        "        ((i++))",
        "        [[ ${COMP_WORDS[i]-} != = ]] || ((i++)) ;;",
        "      -*) ;;",
    ]
    if has_commands:
        lines.append(
            "      *) if [[ -z $command ]]; then command=${COMP_WORDS[i]}; else ((n++)); fi ;;"
        )
    else:
        lines.append("      *) ((n++)) ;;")
    lines += ["    esac", "  done", "  case $command in"]
    for command in program.commands:
        lines += [f"    '{command}')", *bash_command(program, command), "      ;;"]
    if has_commands:
        words = [*program.commands, "--help", "--version"]
        lines += ["    '')", f"      {bash_answer(words)}", "      ;;"]
    lines += ["  esac", "}", f"complete -F {function} {name}"]
    return "\n".join(lines)


# ---- zsh


def zsh_quoted(text: str) -> str:
    return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def zsh_value(name: str, value: str | list[str]) -> str:
    """The message and the action of one value."""
    if value == FILE:
        return "file:_files"
    if value == DIRECTORY:
        return "directory:_files -/"
    if isinstance(value, list):
        return f"{name}:({' '.join(value)})"
    return f"{value or name}: "


def zsh_option(one: Option) -> str:
    meaning = zsh_quoted(one.meaning)
    value = "" if one.value is None else ":" + zsh_value(one.names[-1].lstrip("-"), one.value)
    # The value is the next word, or joined by =, or behind a letter.
    forms = [
        name if one.value is None else name + ("=" if name.startswith("--") else "+")
        for name in one.names
    ]
    if len(one.names) == 1:
        return f"'{forms[0]}[{meaning}]{value}'"
    names = ",".join(forms)
    return f"'({' '.join(one.names)})'{{{names}}}'[{meaning}]{value}'"


def zsh_arguments(program: Program, command: str, indent: str) -> list[str]:
    specs = [zsh_option(one) for one in program.commands[command]]
    operands = program.operands[command]
    for number, operand in enumerate(operands):
        if operand == "":
            continue
        place = "*" if number == len(operands) - 1 else str(number + 1)
        specs.append(f"'{place}:{zsh_value('word', operand)}'")
    lines = [f"{indent}_arguments -s \\"]
    lines += [f"{indent}  {spec} \\" for spec in specs]
    lines[-1] = lines[-1].removesuffix(" \\")
    return lines


def zsh(name: str, program: Program) -> str:
    lines = [f"#compdef {name}", ""]
    if "" in program.commands:
        return "\n".join([*lines, *zsh_arguments(program, "", "")])
    described = " ".join(
        f"{command}\\:\"{zsh_quoted(program.meanings[command])}\"" for command in program.commands
    )
    lines += [
        "local curcontext=$curcontext state",
        "_arguments -C \\",
        "  '(- *)--help[print the help text]' \\",
        "  '(- *)--version[print the version]' \\",
        f"  '1:command:(({described}))' \\",
        "  '*::word:->words'",
        "[[ $state == words ]] || return 0",
        "case $words[1] in",
    ]
    for command in program.commands:
        lines += [f"  {command})", *zsh_arguments(program, command, "    "), "    ;;"]
    return "\n".join([*lines, "esac"])


def main() -> int:
    if sys.argv[1:] in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        return 0
    shells = {"bash": bash, "zsh": zsh}
    if len(sys.argv) != 3 or sys.argv[1] not in shells or sys.argv[2] not in PROGRAMS:
        print("usage: generate.py bash|zsh PROGRAM (see --help)", file=sys.stderr)
        return 2
    print(shells[sys.argv[1]](sys.argv[2], PROGRAMS[sys.argv[2]]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
