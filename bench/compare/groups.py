"""Groups of ranks. A group is started by the launcher of its library, controlled over a Unix
socket, and always removed."""

import dataclasses
import os
import pathlib
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time


class Failure(Exception):
    """A group hangs, has crashed or cannot start. The text has the reason."""


def cores():
    return len(os.sched_getaffinity(0))


def is_crowded(ranks, bed):
    """Whether a host has more ranks than processors."""
    return ranks > cores() if bed is None else ranks // bed.hosts > len(bed.cores(0))


def memory_directory(bed=None):
    """The folder for shared files of libraries. It is in memory, so that no disk influences a
    measurement. Hosts share no memory, so there it only has the files of the driver."""
    if bed is not None:
        return None
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@dataclasses.dataclass
class Turn:
    """One turn of a library at one point."""

    operation: str
    count: int  # elements, as for dfcclRegister*
    variant: int
    iterations: int
    checked: bool  # every element of the result of one more call
    keep: bool  # the buffers, for the next turn
    written: bool  # inputs are written before each call, and results read after it


class Library:
    """A library that is measured. variants: names by the numbers that its program uses."""

    def __init__(
        self,
        name,
        variants,
        program,
        is_peer=True,
        launcher=None,
        arguments=None,
        environment=None,
        between=None,
    ):
        self.name = name
        self.variants = variants
        self.program = program
        self.is_peer = is_peer
        self.launcher = launcher
        self.arguments = arguments or (lambda ranks, directory, bed: [])
        self.environment = environment or (lambda ranks, bed: {})
        self.between = between or (
            lambda bed, ranks, directory: ([], {})
        )  # the arguments and variables of the launcher for several hosts

    def command(self, ranks, directory, bed=None):
        words = self.between(bed, ranks, directory)[0] if bed else []
        return [self.launcher, *self.arguments(ranks, directory, bed), *words, "-n", str(ranks)]


def openmpi(name, program, more=(), spin=None):
    """spin None: a waiting rank yields the processor only if there are more ranks than
    processors."""

    def arguments(ranks, directory, bed):
        crowded = is_crowded(ranks, bed)
        give_up = crowded if spin is None else not spin
        words = [
            "--oversubscribe",
            "--mca",
            "btl_vader_backing_directory",
            directory,
            "--mca",
            "mpi_yield_when_idle",
            "1" if give_up else "0",
        ]
        if crowded or bed:  # a host of the bed cannot be bound to all cores that mpirun sees
            words += ["--bind-to", "none"]
        return words + list(more)

    def between(bed, ranks, directory):
        places = ",".join(f"{bed.address(i)}:{ranks // bed.hosts}" for i in range(bed.hosts))
        return [
            "--mca",
            "plm_rsh_agent",
            bed.agent(directory),
            "--mca",
            "oob_tcp_if_include",
            bed.interface,
            "--mca",
            "btl_tcp_if_include",
            bed.interface,
            "--mca",
            "pml",
            "ob1",
            "--mca",
            "btl",
            "self,vader,tcp",
            "--map-by",
            "slot",
            "--host",
            places,
        ], {}

    return Library(
        name,
        {0: name},
        program,
        launcher="mpirun.openmpi",
        arguments=arguments,
        between=between,
        environment=lambda ranks, bed: {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        },
    )


def mpich(name, program, polls=None):
    """polls: number of polls before a rank yields the processor; None: 1 if there are more ranks
    than processors."""

    def environment(ranks, bed):
        wanted = polls if polls is not None else 1 if is_crowded(ranks, bed) else None
        return {} if wanted is None else {"MPIR_CVAR_POLLS_BEFORE_YIELD": str(wanted)}

    def between(bed, ranks, directory):
        places = ",".join(f"{bed.address(i)}:{ranks // bed.hosts}" for i in range(bed.hosts))
        return (
            [
                "-launcher",
                "rsh",
                "-launcher-exec",
                bed.agent(directory),
                "-iface",
                bed.interface,
                "-hosts",
                places,
            ],
            {"UCX_TLS": "tcp,self,sysv,posix", "UCX_NET_DEVICES": bed.interface},
        )

    return Library(
        name, {0: name}, program, launcher="mpirun.mpich", environment=environment, between=between
    )


def environment(library, ranks, directory, bed=None):
    # Variables of a launcher that has started this program would confuse the one started here.
    launchers = ("OMPI_", "PMI_", "PMIX_", "SLURM_", "HYDRA_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    kept["TMPDIR"] = directory
    kept.update(library.environment(ranks, bed))
    if bed:
        kept.update(library.between(bed, ranks, directory)[1])
    return kept


class Group:
    """The resident ranks of one library. Between commands the ranks sleep in a read."""

    def __init__(self, library, ranks, start_seconds=60, bed=None):
        """bed: so many ranks on each of its hosts; None: all ranks on this host."""
        self.bed = bed
        self.library = library
        self.start_seconds = start_seconds
        self.ranks = ranks
        self.directory = tempfile.mkdtemp(prefix="dfccl-compare-", dir=memory_directory(bed))
        self.launched = []
        self.connections = {}  # rank -> (socket, bytes received)
        self.pids = []
        self.version = ""
        try:
            self._start()
        except BaseException:
            self.kill()
            raise

    def _launch(self, words, environment, log):
        # The ranks have a process group, by which they are ended, but no new session, because Linux
        # divides processors among sessions (sched_autogroup_enabled), and sched_yield only yields
        # within one session. mpirun keeps its ranks in one session.
        self.launched.append(
            subprocess.Popen(
                words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=os.setpgrp,
                cwd=self.directory,
            )
        )

    def _launch_rank(self, words, rank, variables, log):
        if self.bed:
            host = rank * self.bed.hosts // self.ranks
            variables = {**variables, "COMPARE_ADDRESS": self.bed.address(host)}
            words = self.bed.on(host, words)
        self._launch(words, variables, log)

    def _start(self):
        with open(os.path.join(self.directory, "shared"), "wb") as shared:
            shared.truncate(4096)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with listener, open(os.path.join(self.directory, "log"), "wb") as log:
            listener.bind(os.path.join(self.directory, "socket"))
            listener.listen(self.ranks)
            words = [str(self.library.program), self.directory, str(self.ranks)]
            variables = environment(self.library, self.ranks, self.directory, self.bed)
            if self.library.launcher:
                command = self.library.command(self.ranks, self.directory, self.bed) + words
                self._launch(self.bed.on(0, command) if self.bed else command, variables, log)
            else:
                for rank in range(self.ranks):
                    self._launch_rank(words + [str(rank)], rank, variables, log)
            self._welcome(listener)

    def _welcome(self, listener):
        deadline = time.monotonic() + self.start_seconds
        waiting = {}
        listener.settimeout(0.1)
        while len(self.connections) < self.ranks:
            if time.monotonic() > deadline:
                raise Failure(
                    f"did not start within {self.start_seconds:.0f} s{self._last_words()}"
                )
            if any(process.poll() is not None for process in self.launched):
                raise Failure(f"ended while starting{self._last_words()}")
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(self.start_seconds)
            waiting[connection] = b""
            while b"\n" not in waiting[connection]:
                part = connection.recv(4096)
                if not part:
                    raise Failure(f"a rank ended while starting{self._last_words()}")
                waiting[connection] += part
            _, rank, pid, self.version = waiting[connection].decode().rstrip("\n").split(" ", 3)
            connection.setblocking(False)
            self.connections[int(rank)] = connection
            self.pids.append(int(pid))

    def _last_words(self):
        """The last lines of the output of the ranks and their launcher."""
        try:
            text = pathlib.Path(self.directory, "log").read_text(errors="replace").strip()
        except OSError:
            return ""
        return ": " + " / ".join(line.strip() for line in text.splitlines()[-3:]) if text else ""

    def measure(self, turn, seconds):
        """Returns (time of one call in us, the slowest rank's; number of wrong elements)."""
        line = (
            f"measure {turn.operation} {turn.count} {turn.variant} {turn.iterations // 20 + 1} "
            f"{turn.iterations} {int(turn.checked)} {int(turn.keep)} {int(turn.written)}\n"
        ).encode()
        for connection in self.connections.values():
            try:
                connection.sendall(line)
            except OSError:
                raise Failure(f"a rank is gone{self._last_words()}") from None
        replies = self._replies(time.monotonic() + seconds, seconds)
        if any(reply[0] != "done" for reply in replies):
            raise Failure(f"a call failed{self._last_words()}")
        slowest = max(float(reply[1]) for reply in replies)
        return slowest * 1e6 / turn.iterations, sum(int(reply[2]) for reply in replies)

    def _replies(self, deadline, seconds):
        texts = dict.fromkeys(self.connections.values(), b"")
        with selectors.DefaultSelector() as selector:
            for connection in texts:
                selector.register(connection, selectors.EVENT_READ)
            while selector.get_map():
                left = deadline - time.monotonic()
                if left <= 0:
                    missing = len(selector.get_map())
                    raise Failure(
                        f"hangs: {missing} of {self.ranks} ranks have not come back after "
                        f"{seconds:.0f} s"
                    )
                for key, _ in selector.select(left):
                    part = key.fileobj.recv(4096)
                    if not part:
                        raise Failure(f"a rank ended{self._last_words()}")
                    texts[key.fileobj] += part
                    if b"\n" in part:
                        selector.unregister(key.fileobj)
        return [text.decode().split() for text in texts.values()]

    def ask_to_end(self):
        self.deadline = time.monotonic() + 10
        for connection in self.connections.values():
            try:
                connection.sendall(b"quit\n")
            except OSError:
                pass

    def close(self):
        """Waits for the processes that were asked to end, and kills those that do not end."""
        while time.monotonic() < self.deadline and any(
            process.poll() is None for process in self.launched
        ):
            time.sleep(0.01)
        if any(process.poll() is None for process in self.launched):
            print(f"{self.library.name}: had to be killed at the end", file=sys.stderr)
        self.kill()

    def kill(self):
        for process in self.launched:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        # Launchers put ranks into other process groups. The process number of a rank is valid while
        # its socket is open.
        for rank, pid in zip(list(self.connections), self.pids):
            if not self._ended(rank):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for process in self.launched:
            process.wait()
        for connection in self.connections.values():
            connection.close()
        self.launched, self.connections, self.pids = [], {}, []
        shutil.rmtree(self.directory, ignore_errors=True)

    def _ended(self, rank):
        try:
            while self.connections[rank].recv(4096):
                pass
            return True
        except BlockingIOError:
            return False
        except OSError:
            return True
