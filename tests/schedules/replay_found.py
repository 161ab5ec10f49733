#!/usr/bin/env python3
"""Replays the failures that the simulation has found: replay_found.py SIMULATE FOUND

Each line of FOUND has the form: [FLAG]... SEED WORLD SCHEDULES DESCRIPTION.
"""

import subprocess
import sys


def main(simulate, path):
    failed = lines = 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("#") or not line.strip():
                continue
            words = [word for word in line.split()[:3] if word.startswith("--")]
            seed, world, schedules, what = line.split(None, 3 + len(words))[len(words) :]
            flags = [part for word in words for part in word.split("=")]
            lines += 1
            run = subprocess.run(
                [
                    simulate,
                    "--seed",
                    seed,
                    "--first-world",
                    world,
                    "--each",
                    schedules,
                    "--schedules",
                    schedules,
                    *flags,
                ],
                capture_output=True,
                text=True,
                check=False,
                timeout=100,
            )
            print("%s: %s" % ("good" if run.returncode == 0 else "FAILED", what.strip()))
            if run.returncode != 0:
                failed += 1
                print(run.stdout + run.stderr)
    print("%d findings replayed, %d failed" % (lines, failed))
    return 1 if failed or lines == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
