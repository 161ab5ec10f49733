"""check_turns.py PERFETTO FIGURE PREEMPTIONS: checks two files that dfccl-trace has written from
traces with turns: numbers of preemptions, bars inside of bars, and numbers beside their bars."""

import collections
import json
import re
import sys
import xml.etree.ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def check_perfetto(path: str, preemptions: int) -> None:
    """Each turn is on the track of its block; bars of a thread are nested or side by side."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    threads = collections.defaultdict(list)
    tracks = []
    for event in (e for e in events if e["ph"] == "X"):
        thread = (event["pid"], event["tid"])
        threads[thread].append((round(event["ts"], 3), round(event["ts"] + event["dur"], 3)))
        if event.get("cat") == "turn" and names[thread].startswith("daemon, block"):
            tracks.append(event)
    stopped = [e for e in tracks if ", preempted: no " in e["name"]]
    assert len(stopped) == preemptions, (len(stopped), preemptions)
    assert all(re.search("(message from|free slot of) rank [0-9]+$", e["name"]) for e in stopped)
    under = sum(e.get("cat") == "turn" for e in events) - len(tracks)
    assert 0 < under <= len(tracks), (under, len(tracks))
    assert any(e["ph"] == "C" for e in events), "no task queue"
    assert any(e["ph"] == "i" and e["name"] == "the daemon quits" for e in events), "no quit"
    for name, bars in threads.items():
        open_until: list[float] = []
        for begin, end in sorted(bars, key=lambda bar: (bar[0], -bar[1])):
            while open_until and open_until[-1] <= begin + 0.002:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 0.002, (name, begin, end, open_until)
            open_until.append(end)


def check_figure(path: str, preemptions: int) -> None:
    """The bars' titles and the numbers beside them agree, and their sum is that of the job."""
    root = xml.etree.ElementTree.parse(path).getroot()
    group = root.find(f"{SVG}g[@id='preemptions']")
    assert group is not None
    titles = [title.text or "" for title in group.iter(f"{SVG}title")]
    counts = [int(re.findall(r": (\d+) preemptions in \d+ runs", title)[0]) for title in titles]
    shown = [int(text.text or "") for text in group.iter(f"{SVG}text")]
    assert counts == shown and sum(counts) == preemptions, (counts, shown, preemptions)
    heights = [float(bar.get("height", "")) for bar in group.iter(f"{SVG}rect")]
    assert len(heights) == len(counts)
    for count, height in zip(counts, heights, strict=True):
        assert abs(height - 180 * count / max(*counts, 1)) < 0.1, (count, height)
    queue = root.find(f"{SVG}g[@id='queue']")
    assert queue is not None and len(list(queue.iter(f"{SVG}rect"))) == len(counts)


check_perfetto(sys.argv[1], int(sys.argv[3]))
check_figure(sys.argv[2], int(sys.argv[3]))
