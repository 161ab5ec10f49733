"""The replays of bench/compare/training: traces, engines, and how their ranks are started on one
host or on several."""

import dataclasses
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

import groups
import hosts
import machine

GENERATE = machine.TOP / "bench/traces/generate"
# Options of generate, and factors of sizes and of numbers of calls.
TRACES: dict[str, tuple[list[str], float, float]] = {
    "resnet50-data": ([], 0.05, 1),
    "vit-base-hybrid": (["--microbatches", "2"], 0.02, 1),
    "gpt2-hybrid": (["--microbatches", "1"], 0.005, 0.25),
    "autoccl-phi2": ([], 0.005, 0.01),
    "autoccl-llama": ([], 0.005, 0.005),
    "autoccl-yi": ([], 0.005, 0.0005),
    "autoccl-vgg19": ([], 0.02, 1),
    "zero3-7b": ([], 0.001, 1),
    "zero3-13b": ([], 0.001, 1),
}
ENGINES = {
    "ordered": ["--engine", "ordered"],
    "disordered": ["--engine", "dfccl", "--order", "shuffle"],
    "coordinator": ["--engine", "coordinator", "--order", "shuffle"],
    "first-step": ["--engine", "first-step", "--order", "shuffle"],
    "mpi": ["--engine", "mpi"],
    "gloo": ["--engine", "gloo"],
}
PEERS = ("mpi", "gloo")
MODULES = {"mpi": ["openmpi", "mpich", "mpi"], "gloo": ["gloo"]}
MOST_FAILURES = 3  # after which an engine is left out of a trace


class Failure(Exception):
    """A replay has failed. The text has the reason."""


def module(bench, engine):
    """The module of the engine that was built with the program; None: there is none."""
    folder = bench.parent / "replay" / "peers"
    found = [folder / f"replay-{name}.so" for name in MODULES[engine]]
    return next((path for path in found if path.exists()), None)


def free_port():
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


def stop(processes):
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        process.wait()


@dataclasses.dataclass
class Jobs:
    """Starts replays. bed: the hosts; None: this one."""

    bench: pathlib.Path
    ranks: int
    bed: hosts.Bed | None
    rate: float
    seconds: int  # after which a replay hangs
    realtime: int = 0  # priority of the ranks; 0: ordinary

    def run(self, words):
        engine = words[words.index("--engine") + 1]
        if self.rate > 0:
            words = [*words, "--rate", f"{self.rate:.9g}"]
        command = [str(self.bench), "replay", *words, "--json"]
        folder = tempfile.mkdtemp(prefix="dfccl-training-")
        try:
            if self.bed is None:
                return self._collect([command], [{}], folder)
            if engine == "mpi":
                return self._mpi(command, folder)
            return self._ranks(command, engine, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _ranks(self, command, engine, folder):
        """One process for each rank, as torchrun starts them."""
        rendezvous = pathlib.Path(folder, "gloo")
        rendezvous.mkdir()
        more = ["--rendezvous", str(rendezvous)] if engine == "gloo" else []
        port, secret, commands, variables = free_port(), secrets.token_hex(32), [], []
        for rank in range(self.ranks):
            host = rank * self.bed.hosts // self.ranks
            commands.append(self.bed.on(host, [*command, "--env", *more]))
            variables.append(
                {
                    "RANK": str(rank),
                    "WORLD_SIZE": str(self.ranks),
                    "MASTER_ADDR": self.bed.address(0),
                    "MASTER_PORT": str(port),
                    "DFCCL_SECRET": secret,
                    "DFCCL_NET_INTERFACES": f"={self.bed.interface}",
                }
            )
        return self._collect(commands, variables, folder)

    def _mpi(self, command, folder):
        peer = module(self.bench, "mpi")
        make = groups.mpich if peer.name == "replay-mpich.so" else groups.openmpi
        library = make("mpi", None)
        start = library.command(self.ranks, folder, self.bed)
        words = [*start, *command, "--env", "--peer", str(peer)]
        variables = groups.environment(library, self.ranks, folder, self.bed)
        return self._collect([self.bed.on(0, words)], [variables], folder)

    def _collect(self, commands, variables, folder):
        started, texts = [], []
        if self.realtime:
            commands = [["chrt", "-r", str(self.realtime), *words] for words in commands]
        try:
            for number, command in enumerate(commands):
                out = pathlib.Path(folder, f"out{number}")
                with out.open("wb") as to, out.with_suffix(".err").open("wb") as errors:
                    started.append(
                        subprocess.Popen(
                            command,
                            env={**os.environ, **variables[number]},
                            stdin=subprocess.DEVNULL,
                            stdout=to,
                            stderr=errors,
                            preexec_fn=os.setpgrp,
                        )
                    )
                texts.append(out)
            deadline = time.monotonic() + self.seconds
            for process in started:
                try:
                    process.wait(max(deadline - time.monotonic(), 0.1))
                except subprocess.TimeoutExpired:
                    raise Failure(f"hangs ({self.seconds} s): {' '.join(commands[0])}") from None
            failed = [place for place, one in enumerate(started) if one.returncode != 0]
            if failed:
                place = failed[0]
                said = texts[place].with_suffix(".err").read_text(errors="replace").strip()
                command = " ".join(commands[0])
                raise Failure(f"status {started[place].returncode}: {command}: {said[-400:]}")
            return json.loads(texts[0].read_text())
        finally:
            stop(started)


def sizes_of(name, ranks):
    """Options that give a trace this number of ranks: hybrids have tensor, data and pipeline."""
    if "hybrid" not in name:
        return ["--ranks", str(ranks)]
    return ["--sizes", f"2x2x{ranks // 4}"]


class Trace:
    """A generated trace, and what its communication and its computing take."""

    def __init__(self, name, folder, jobs, options):
        words, self.sizes, self.counts = TRACES[name]
        self.sizes *= options.shrink
        self.name, self.file = name, pathlib.Path(folder, name + ".jsonl")
        self.jobs, self.iterations = jobs, str(options.iterations)
        self.more = ["--float", "float"] if options.float else []
        ranks = sizes_of(name, options.ranks)
        subprocess.run([GENERATE, name, *words, *ranks, "-o", self.file], check=True)
        self.compute = 0.0

    def play(self, *words, ratio_of_compute=1.0):
        scale = f"{self.sizes}:{self.counts}:{self.compute * ratio_of_compute:.9g}"
        words = words if "--engine" in words else ("--engine", "dfccl", *words)
        more = [*self.more, "--iterations", self.iterations]
        return self.jobs.run([str(self.file), "--scale", scale, *words, *more])

    def calibrate(self):
        """Computing shall take as long as the communication: the median of three replays."""
        plays = [self.play(ratio_of_compute=0) for _ in range(3)]
        alone = statistics.median(one["communication_s"] for one in plays)
        self.compute = 1.0
        planned = self.play("--compute", "sleep", ratio_of_compute=1e-6)["planned_compute_s"] * 1e6
        self.compute = alone / planned
        return alone
