"""The measurement: every library at each point, round after round, so that all are measured under
the same conditions."""

import random
import sys
import time

import groups
import machine

FLOAT_BYTES = 4
KEEP_BYTES = (
    64 << 20
)  # larger buffers are freed after each turn, so that many groups fit into memory
MAIL_BYTES = 4096  # the largest message of the mailboxes of the bound
MOST_ITERATIONS = 200000


def divided(operation):
    return operation.removesuffix("v").removesuffix("dynamic") in (
        "allgather",
        "reducescatter",
        "alltoall",
        "gather",
        "scatter",
    )


def count_of(operation, size, ranks):
    """The number of elements for dfcclRegister*; 0 if the size is too small for so many ranks."""
    if operation == "sendrecv" and ranks != 2:
        return 0
    elements = size // FLOAT_BYTES
    return elements // ranks if divided(operation) else elements


INPUTS = ("written", "untouched")


def key_of(ranks, operation, size, inputs):
    """Older files have only untouched inputs, and no word about them."""
    return f"{ranks} {operation} {size}" + (" written" if inputs == "written" else "")


class Comparison:
    """Adds rounds to data (see compare run --help for its form) until the time is up."""

    def __init__(self, data, libraries, options):
        self.data = data
        self.libraries = libraries
        self.options = options
        self.start = time.monotonic()
        self.groups = {}
        self.ranks = None
        self.tries = {}  # key: name of a library; value: failures in this run
        self.piece = len(data["runs"]) - 1

    def out_of_time(self):
        limit = self.options.time_limit
        return limit is not None and time.monotonic() - self.start > limit * 60

    def points(self):
        """The points, those with the fewest rounds first."""
        listed = [
            (ranks, operation, size, inputs)
            for ranks in self.options.ranks
            for operation in self.options.operations
            for size in self.options.sizes
            for inputs in self.options.inputs
            if count_of(operation, size, ranks) > 0
        ]
        return sorted(
            listed,
            key=lambda point: len(self.data["points"].get(key_of(*point), {}).get("rounds", [])),
        )

    def run(self):
        """Adds rounds. The caller closes the groups."""
        points = self.points()
        for number, point in enumerate(points):
            if self.out_of_time():
                print(
                    f"the time is up: {len(points) - number} of {len(points)} points are left",
                    file=sys.stderr,
                )
                break
            if sys.stderr.isatty():
                print(
                    f"\r{number + 1} of {len(points)}: {key_of(*point)}    ",
                    end="",
                    file=sys.stderr,
                )
            self.measure_point(point)
        if sys.stderr.isatty():
            print(file=sys.stderr)

    def close(self):
        for group in self.groups.values():
            group.ask_to_end()
        for group in self.groups.values():
            group.close()
        self.groups = {}

    def group(self, library, ranks):
        """The resident ranks of the library; None if they have failed too often."""
        if self.ranks != ranks:
            self.close()
            self.ranks = ranks
            self.tries = {}
        if (
            library.name not in self.groups
            and self.tries.get(library.name, 0) <= self.options.retries
        ):
            try:
                self.groups[library.name] = groups.Group(
                    library, ranks, self.options.timeout, self.options.bed
                )
                self.data["versions"][library.name] = self.groups[library.name].version
            except groups.Failure as failure:
                self.failed(library, f"{ranks} ranks", str(failure))
        return self.groups.get(library.name)

    def failed(self, library, where, reason):
        self.tries[library.name] = self.tries.get(library.name, 0) + 1
        print(f"\n{library.name}, {where}: {reason}", file=sys.stderr)
        self.data["failures"].append(
            {"library": library.name, "where": where, "reason": reason, "piece": self.piece}
        )
        group = self.groups.pop(library.name, None)
        if group is not None:
            group.kill()

    def turn(self, library, point, variant, iterations, check=False):
        """One turn of a library at a point: microseconds for each call, or None after a failure."""
        ranks, operation, size, inputs = point
        group = self.group(library, ranks)
        if group is None:
            return None
        count = count_of(operation, size, ranks)
        turn = groups.Turn(
            operation, count, variant, iterations, check, size <= KEEP_BYTES, inputs == "written"
        )
        try:
            time_us, wrong = group.measure(turn, self.options.timeout)
        except groups.Failure as failure:
            self.failed(library, key_of(*point), str(failure))
            return None
        if wrong > 0:
            name = library.variants[variant]
            self.data["points"][key_of(*point)]["wrong"][name] = wrong
            print(f"\n{name}, {key_of(*point)}: {wrong} wrong elements", file=sys.stderr)
        return time_us

    def calibrate(self, library, point, variant):
        """(iterations that take about the requested time, time), or None after a failure. Also
        checks the results."""
        wanted_us = self.options.milliseconds * 1000
        iterations, time_us = 1, self.turn(library, point, variant, 1, check=True)
        while time_us is not None:
            fitting = int(min(max(wanted_us / max(time_us, 0.01), 1), MOST_ITERATIONS))
            if fitting <= 2 * iterations:
                return max(fitting, 1), time_us
            iterations = min(fitting, 40 * iterations)
            time_us = self.turn(library, point, variant, iterations)
        return None

    def candidates(self, library, point):
        """The variants to be measured. The bound has only its fastest variant."""
        ranks, operation, size, _ = point
        if operation in machine.FURTHER_OPERATIONS and library.name in ("bound", "gloo"):
            return []
        if library.name != "bound":
            return list(library.variants)
        fitting = [0, 1] if size >= 65536 else [0]
        if count_of(operation, size, ranks) * FLOAT_BYTES <= MAIL_BYTES:
            fitting.append(2)
        if operation in ("allreduce", "reduce") and size <= 1 << 20:
            fitting.append(3)
        return fitting

    @staticmethod
    def shuffled(turns, key, number):
        """The turns in a different order in each round, since the preceding turn influences, for
        example, the cores on which ranks wake up."""
        return random.Random(f"{key} {number}").sample(turns, len(turns))

    def measure_point(self, point):
        ranks, operation, size, inputs = point
        head = {"ranks": ranks, "operation": operation, "bytes": size, "inputs": inputs}
        entry = self.data["points"].setdefault(key_of(*point), {**head, "rounds": [], "wrong": {}})
        turns = []
        for library in self.libraries:
            found = {}
            for variant in self.candidates(library, point):
                calibrated = self.calibrate(library, point, variant)
                if calibrated is not None:
                    found[variant] = calibrated
            if library.name == "bound" and found:
                best = min(found, key=lambda variant: found[variant][1])
                found = {best: found[best]}
            turns += [(library, variant, iterations) for variant, (iterations, _) in found.items()]
        for _ in range(self.options.rounds):
            times = {}
            for library, variant, iterations in self.shuffled(
                turns, key_of(*point), len(entry["rounds"])
            ):
                time_us = self.turn(library, point, variant, iterations)
                if time_us is not None:
                    name = "bound" if library.name == "bound" else library.variants[variant]
                    times[name] = round(time_us, 4)
            if times:
                entry["rounds"].append({"piece": self.piece, "us": times})
