"""Several hosts on one machine, made by the bed of tests/hosts: network namespaces that each have a
host name, an IPC namespace and a /dev/shm."""

import os
import pathlib
import subprocess

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "hosts"
BED = FOLDER / "bed.sh"
RATE = FOLDER / "rate.py"


class Bed:
    """Hosts i (0, 1, ...) with the addresses 10.77.0.(i + 1) on interface rail0. Each host has
    separate cores, because each library would otherwise assume that a host has all cores for
    itself. close(), or the end of this process, removes the hosts."""

    interface = "rail0"

    def __init__(self, hosts, rate=None):
        self.hosts = hosts
        script = (
            '. "$0"; bed_up "$1" ${2:+"$2"}; echo "${bed_keepers[@]}"; '
            "while read -r words; do $words && echo done || echo failed; done"
        )
        self.process = subprocess.Popen(
            ["bash", "-c", script, str(BED), str(hosts), rate or ""],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        line = self.process.stdout.readline().strip()
        self.keepers = line.split()
        if len(self.keepers) != hosts:
            raise RuntimeError(line.removeprefix("skipped: ") or "the bed of hosts did not come up")

    def address(self, host):
        return f"10.77.0.{host + 1}"

    def cores(self, host):
        """The cores of a host, at least one. Cores are shared only if there are fewer than
        hosts."""
        all_cores = sorted(os.sched_getaffinity(0))
        first, end = (len(all_cores) * at // self.hosts for at in (host, host + 1))
        return all_cores[first:end] or [all_cores[first]]

    def on(self, host, words):
        """The command that runs these words on the host."""
        return [
            "taskset",
            "-c",
            ",".join(map(str, self.cores(host))),
            "nsenter",
            "--target",
            self.keepers[host],
            "--net",
            "--uts",
            "--ipc",
            "--mount",
            *words,
        ]

    def agent(self, directory):
        """A replacement of ssh for a launcher: AGENT [OPTIONS] ADDRESS COMMAND..."""
        path = os.path.join(directory, "agent")
        cases = "\n".join(
            f"{self.address(i)}|host{i + 1}) keeper={keeper} "
            f"cores={','.join(map(str, self.cores(i)))} ;;"
            for i, keeper in enumerate(self.keepers)
        )
        with open(path, "w", encoding="utf-8") as script:
            script.write(
                '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nhost=$1\nshift\ncase $host in\n'
                + cases
                + '\n*) echo "no host $host" >&2; exit 1 ;;\nesac\n'
                'exec taskset -c "$cores" nsenter --target "$keeper" --net --uts --ipc --mount sh '
                '-c "$*"\n'
            )
        os.chmod(path, 0o755)
        return path

    def call(self, *words):
        """Calls a function of bed.sh, whose hosts are numbered from 1."""
        print(*words, file=self.process.stdin, flush=True)
        if self.process.stdout.readline().strip() != "done":
            raise RuntimeError(f"{' '.join(map(str, words))} failed")

    def limit(self, host, direction, mbit):
        """Limits what the host sends ("out") or receives ("in") on the first rail."""
        self.call("bed_rate", host + 1, 0, direction, f"{round(1000 * mbit)}kbit")

    def limit_pair(self, host, other, mbit):
        self.call("bed_pair", host + 1, other + 1, f"{round(1000 * mbit)}kbit")

    def measure(self, sender, receiver, bytes_sent):
        """The rate of a TCP connection in Mbit/s, while nothing else is sent."""
        address, port = self.address(receiver), "29501"
        with subprocess.Popen(
            self.on(receiver, [str(RATE), "receive", address, port]),
            text=True,
            stdout=subprocess.PIPE,
        ) as server:
            try:
                server.stdout.readline()
                words = [str(RATE), "send", address, port, str(bytes_sent)]
                subprocess.run(self.on(sender, words), check=True, timeout=120)
                received, seconds = map(float, server.stdout.readline().split())
            finally:
                server.kill()  # without a sender it would wait for ever
        return received * 8e-6 / seconds

    def close(self):
        self.process.stdin.close()
        self.process.wait()
