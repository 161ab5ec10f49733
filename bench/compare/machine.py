"""The facts that a result must have about its origin, and the programs that measure it."""

import datetime
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

import groups

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
OWN_PROGRAM = "bench/compare/compare-dfccl"
DEFAULT_OPERATIONS = ["allreduce", "allgather", "reducescatter", "broadcast", "reduce", "alltoall"]
# For DFCCL, Open MPI and MPICH. A barrier has no size, sendrecv has two ranks, and neighbours send
# to the next rank.
FURTHER_OPERATIONS = [
    "gather",
    "scatter",
    "allgatherv",
    "reducescatterv",
    "gatherv",
    "scatterv",
    "alltoallv",
    "alltoalldynamic",
    "neighbours",
    "scan",
    "barrier",
    "sendrecv",
]
OPERATIONS = DEFAULT_OPERATIONS + FURTHER_OPERATIONS


def output(*words):
    try:
        return subprocess.run(
            words, capture_output=True, text=True, timeout=20, check=False
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def settings():
    """The names of the library's settings, from the tables of docs/CONFIGURATION.md."""
    tables = (TOP / "docs/CONFIGURATION.md").read_text()
    return set(re.findall(r"^\| `(DFCCL_\w+)`", tables, re.MULTILINE))


def line_ns(program):
    """The round trip of a cache line between the first two processors, in ns; None: not known."""
    cores = sorted(os.sched_getaffinity(0))
    if program is None or len(cores) < 2:
        return None
    words = output(str(program), "--times", "1", "--cpus", f"{cores[0]},{cores[1]}").split()
    return int(words[-3]) if len(words) > 3 and words[-3].isdigit() else None


def describe(distance=None):
    """distance: the program bench-distance; None: there is none."""
    lines = dict(line.split(":", 1) for line in output("lscpu").splitlines() if ":" in line)
    lines = {name.strip(): value.strip() for name, value in lines.items()}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": lines.get("Model name", platform.machine()),
        "cores": groups.cores(),
        "caches": {
            name[:-6]: lines[name]
            for name in ("L1d cache", "L2 cache", "L3 cache")
            if name in lines
        },
        "virtual": lines.get("Hypervisor vendor", ""),
        "line_ns": line_ns(distance),
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "compiler": output("cc", "--version").split("\n")[0],
    }


def commit():
    """The last commit that changed the library."""
    name = output(
        "git", "-C", str(TOP), "log", "-1", "--format=%h", "--abbrev=12", "--", "src", "include"
    )
    changed = output(
        "git",
        "-C",
        str(TOP),
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        "src",
        "include",
    )
    return name + ("+changes" if changed else "")


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def command_line():
    return " ".join([os.path.relpath(sys.argv[0], TOP), *sys.argv[1:]])


class Builder:
    """Builds the programs of the comparison. A program that cannot be built is omitted, with the
    reason."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve() if build else TOP / "build-compare"
        self.own_build = build is None
        self.missing = {}

    def _run(self, *words):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr or done.stdout).strip().splitlines()
            raise RuntimeError(last[-1] if last else f"{words[0]} failed")

    def target(self, name):
        """The path of a program of meson. It is built if the build directory is that of this
        program."""
        if self.own_build:
            if not (self.build / "build.ninja").exists():
                self._run(
                    "meson",
                    "setup",
                    str(self.build),
                    str(TOP),
                    "-Dcuda=disabled",
                    "--buildtype=release",
                )
            self._run("ninja", "-C", str(self.build), name)
        return self.build / name

    def program(self, name, compiler, sources, common, headers, flags):
        """The program of another library, from its source and the common source in C. None if it
        cannot be built."""
        directory = self.build / "compare-peers"
        target = directory / name
        if target.exists() and all(
            target.stat().st_mtime > file.stat().st_mtime for file in [*sources, common, *headers]
        ):
            return target
        if shutil.which(compiler) is None:
            self.missing[name] = f"{compiler} is not installed"
            return None
        directory.mkdir(parents=True, exist_ok=True)
        compiled = directory / f"{name}.o"
        try:
            self._run("cc", "-O2", "-D_GNU_SOURCE", "-c", str(common), "-o", str(compiled))
            self._run(
                compiler,
                "-O2",
                "-D_GNU_SOURCE",
                *map(str, sources),
                str(compiled),
                "-o",
                str(target),
                *flags,
            )
        except (RuntimeError, OSError) as problem:
            self.missing[name] = str(problem)
            return None
        return target

    def peer(self, name, compiler, source, flags):
        return self.program(
            f"compare-{name}", compiler, [HERE / source], HERE / "peer.c", [HERE / "peer.h"], flags
        )

    def own(self, name, program, environment=None):
        """DFCCL. Each of its two kinds of memory is a variant. Between hosts it uses the same
        interface as the other libraries."""

        def variables(ranks, bed):
            return {
                **({"DFCCL_NET_INTERFACES": f"={bed.interface}"} if bed else {}),
                **(environment or {}),
            }

        return groups.Library(
            name, {0: name, 1: name + "-mem"}, program, is_peer=False, environment=variables
        )

    def distance(self):
        """The program that measures the round trip of a cache line; None if there is none."""
        try:
            program = self.target("bench/micro/bench-distance")
        except RuntimeError:
            return None
        return program if program.exists() else None

    def variants(self, wanted):
        """DFCCL with other settings, or from other builds."""
        found = []
        for one in wanted:
            build = one["build"].resolve() if one["build"] else None
            program = build / OWN_PROGRAM if build else self.target(OWN_PROGRAM)
            if program.exists():
                found.append(self.own(one["name"], program, one["environment"]))
            else:
                self.missing[one["name"]] = f"{program} does not exist"
        return found

    def libraries(self, wanted):
        """The libraries that can be measured, in the order of the given names."""
        bound = ["bound-direct", "bound-streamed", "bound-mailboxes", "bound-alone"]
        mpi = {
            "openmpi": ("mpicc.openmpi", "mpirun.openmpi"),
            "mpich": ("mpicc.mpich", "mpirun.mpich"),
        }
        modes = {
            "openmpi": lambda program: groups.openmpi("openmpi", program),
            "openmpi-spin": lambda program: groups.openmpi("openmpi-spin", program, spin=True),
            "openmpi-yield": lambda program: groups.openmpi("openmpi-yield", program, spin=False),
            "openmpi-sm": lambda program: groups.openmpi(
                "openmpi-sm", program, ("--mca", "coll_sm_priority", "100")
            ),
            "mpich": lambda program: groups.mpich("mpich", program),
            "mpich-default": lambda program: groups.mpich("mpich-default", program, 1000),
        }
        found = []
        for name in wanted:
            if name == "dfccl":
                found.append(self.own(name, self.target(OWN_PROGRAM)))
            elif name == "bound":
                found.append(
                    groups.Library(
                        name,
                        dict(enumerate(bound)),
                        self.target("bench/compare/compare-bound"),
                        is_peer=False,
                    )
                )
            elif name == "gloo":
                program = self.peer(
                    name, "c++", "library_gloo.cc", ["-std=c++17", "-lgloo", "-lpthread"]
                )
                found += [groups.Library(name, {0: name}, program)] if program else []
            else:
                library = name.split("-")[0]
                compiler, launcher = mpi[library]
                program = self.peer(library, compiler, "library_mpi.c", [])
                if program and shutil.which(launcher) is None:
                    self.missing[library] = f"{launcher} is not installed"
                elif program:
                    found.append(modes[name](program))
        return found


NAMES = [
    "dfccl",
    "bound",
    "openmpi",
    "openmpi-spin",
    "openmpi-yield",
    "openmpi-sm",
    "mpich",
    "mpich-default",
    "gloo",
]
PEERS = [name for name in NAMES if name not in ("dfccl", "bound")]
DEFAULT_NAMES = ["dfccl", "bound", "openmpi", "mpich", "gloo"]
