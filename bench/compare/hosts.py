"""Several hosts on one machine, of the bed of tests/hosts: network namespaces with host names, IPC
and /dev/shm of their own."""

import os
import pathlib
import subprocess

BED = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "hosts" / "bed.sh"


class Bed:
    """Host i (0, 1, ...) has address 10.77.0.(i + 1) on interface rail0, and cores of its own: else
    each library would take all cores for each host's, and none would know that ranks share them.
    Gone after close, or with this process."""

    interface = "rail0"

    def __init__(self, hosts, rate=None):
        self.hosts = hosts
        script = '. "$0"; bed_up "$1" ${2:+"$2"}; echo "${bed_keepers[@]}"; read -r _'
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
        """At least one; shared only if there are fewer than hosts."""
        all_cores = sorted(os.sched_getaffinity(0))
        first, end = (len(all_cores) * at // self.hosts for at in (host, host + 1))
        return all_cores[first:end] or [all_cores[first]]

    def on(self, host, words):
        """The command that runs words on that host."""
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
        """What a launcher takes for ssh: AGENT [OPTIONS] ADDRESS COMMAND..."""
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

    def close(self):
        self.process.stdin.close()
        self.process.wait()
