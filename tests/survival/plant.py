#!/usr/bin/env python3
"""Plants faults in a copy of the agreement on views, to test the searches.

    plant.py ROOT OUTPUT_DIRECTORY SOURCE...   writes planted_NAME.c for each source
    plant.py --places ROOT                     checks that every fault has its place
    plant.py --check PROGRAM [NUMBER...]       searches for each fault, or those with these numbers
    plant.py --list                            prints number, name and search of each fault

A fault is a name, edits as in tests/schedules/plant.py, and the options of survival that find it.
PLANTED is the condition that the running program has chosen the fault (--planted NUMBER).
"""

import importlib.util
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 60  # the limit of one search


def module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


plant = module("schedules_plant", os.path.join(HERE, "..", "schedules", "plant.py"))


def returns(function, value):
    return (function, "{", "if (PLANTED) return %s;" % value)


def world(*numbers):
    """All states of one world."""
    return ["--world", "three_crashes", *(word for number in numbers for word in ("--set", number))]


LATE_PROOFS = [
    returns("is_weaker", "evidence > peer->suspected"),
    ("note", "if had_proof", "!PLANTED && (CONDITION)"),
]

SEEDS = ["--seeds", "10000000"]


def walks(*numbers):
    """Walks through one world."""
    return [*SEEDS, *(word for number in numbers for word in ("--set", number))]


ALL_STOP = ("crashes=0", "silences=1", "runs=0", "may_all_stop=0")

FAULTS = [
    (
        "INSTALL is sent before all members have accepted",
        [returns("all_have_accepted", "1")],
        SEEDS,
    ),
    (
        "a coordinator forgets the content that was accepted",
        [
            ("propose", "if best", "!PLANTED && (CONDITION)"),
            ("propose", "if df_view_content_is_set", "PLANTED || (CONDITION)"),
        ],
        SEEDS,
    ),
    (
        "deaths are subtracted from the half, and late proofs count",
        [
            (
                "df_view_has_quorum",
                ".members",
                "(MEMBER - (PLANTED ? parts->members - parts->present - parts->unproved : 0))",
            ),
            *LATE_PROOFS,
        ],
        SEEDS,
    ),
    (
        "late proofs count, and a newcomer joins",
        [*LATE_PROOFS, ("parts_of", ".held", "(PLANTED ? DF_HELD_NOT : MEMBER)")],
        walks("members=3", "joins=1", "crashes=2", "silences=1", "proofs=2", "runs=0"),
    ),
    (
        "a proof counts between hosts",
        [
            (
                "df_view_has_quorum",
                "if unproved",
                "PLANTED ? quorum == DF_QUORUM_DEFAULT && parts->unproved == 0 : (CONDITION)",
            )
        ],
        SEEDS,
    ),
    ("base is the highest count", [returns("lower", "a > b ? a : b")], SEEDS),
    (
        "a notice is lost",
        [
            ("df_view_send_notice", "{", "if (PLANTED && evidence != DF_EVIDENCE_LEFT) return;"),
            ("was_cut", ".word", "(*(PLANTED ? &(uint8_t){0} : &MEMBER))"),
        ],
        SEEDS,
    ),
    ("a run completes without settling", [returns("completes_without_settling", "1")], SEEDS),
    ("members of an older view get no INSTALL", [returns("df_view_catch_up", "")], SEEDS),
    (
        "a notice ends its reader",
        [
            (
                "df_view_take_notice",
                "{",
                "if (PLANTED) { df_view_end(view, DF_VIEW_STOPPED); return; }",
            )
        ],
        world("members=2", *ALL_STOP),
    ),
    (
        "the end of a lower rank's connection is not held back",
        [("df_view_disconnected", "if config", "!PLANTED && (CONDITION)")],
        ["--world", "four_pair", "--set", "may_all_stop=0"],
    ),
    ("suspicions are forgotten by INSTALL", [returns("go_on", "")], SEEDS),
    (
        "a member that has not registered counts as complete",
        [("add_outcomes", ".reporters", "(PLANTED ? merged->runs.survivors : MEMBER)")],
        SEEDS,
    ),
]


def texts(root):
    found = {}
    for folder in ("src/control", "tests/survival"):
        for file in os.listdir(os.path.join(root, folder)):
            if re.match(r"(view.*|runs|world)\.c$", file):
                path = os.path.join(folder, file)
                with open(os.path.join(root, path), encoding="utf-8") as opened:
                    found[path] = opened.read()
    return found


def planted(root):
    edited, why = plant.planted_sources(root, FAULTS, texts(root))
    for number, reason in why.items():
        name = FAULTS[number - 1][0]
        print("NOT PLANTED: %d %s: plant it anew (%s)" % (number, name, reason))
    chosen = "survival_planted_number =="
    return {path: text.replace("sim_planted ==", chosen) for path, text in edited.items()}, why


def generate(root, directory, sources):
    edited, why = planted(root)
    for source in sources:
        path = os.path.relpath(os.path.abspath(source), os.path.abspath(root))
        with open(source, encoding="utf-8") as opened:
            text = edited.get(path) or opened.read()
        output = os.path.join(directory, "planted_" + os.path.basename(source))
        with open(output, "w", encoding="utf-8") as file:
            file.write('extern int survival_planted_number;\n#line 1 "%s"\n%s' % (path, text))
    return 1 if why else 0


def look_for(program, number, options):
    """Seconds until the fault was found (None: not found), and the output."""
    begin = time.monotonic()
    run = subprocess.run(
        [program, "--planted", str(number), "--seconds", str(SECONDS), *options],
        capture_output=True, text=True, check=False, timeout=2 * SECONDS + 10,
    )  # fmt: skip
    seconds = time.monotonic() - begin
    how = re.search(r"FAILED: (.*)", run.stdout)
    return (seconds, how[1]) if run.returncode and how else (None, (run.stdout + run.stderr)[-100:])


def check(program, numbers):
    missed = 0
    for options in {tuple(fault[2]) for fault in FAULTS}:  # otherwise each fault would be found
        seconds, how = look_for(program, 0, [*options, "--seconds", "2"])
        if seconds is not None:
            print("FAILED without a planted fault: %s (%s)" % (how, " ".join(options)))
            return 1
    for number in numbers or range(1, len(FAULTS) + 1):
        name, _, options = FAULTS[number - 1]
        seconds, how = look_for(program, number, options)
        if seconds is None:
            missed += 1
            print("NOT FOUND: %2d %s (%s)" % (number, name, how.strip()), flush=True)
        else:
            print("found: %2d %-60s %5.1f s: %s" % (number, name, seconds, how[:90]), flush=True)
    return 1 if missed else 0


def main(arguments):
    if arguments[0] == "--places":
        return 1 if planted(arguments[1])[1] else 0
    if arguments[0] == "--check":
        return check(arguments[1], [int(number) for number in arguments[2:]])
    if arguments[0] == "--list":
        for number, (name, _, options) in enumerate(FAULTS, 1):
            print(number, name + ":", " ".join(options))
        return 0
    return generate(arguments[0], arguments[1], arguments[2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
