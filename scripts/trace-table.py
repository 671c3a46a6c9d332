#!/usr/bin/env python3
"""What the time of steps went into, of a trace that `sheaf-run --trace=FILE.json` wrote.

    scripts/trace-table.py FILE.json [--json]

Of CPU ranks and of the simulated device alike: for each rank the time of its steps, and the parts of
it that kernels, products and attention ran, that transfers were waited for (exposed) and that nothing
was done (idle); for each kind of transfer how many there were, their bytes and how long they were
waited for. The first step of CPU ranks is left out where there are others: it touches the memory.
With --json the same as a JSON list.
"""

import argparse
import collections
import json
import sys

PARTS = {"matmul": "products", "grouped matmul": "products", "attention": "attention",
         "attention gradient": "attention", "copy": "copies"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("--json", action="store_true", help="write JSON")
    arguments = parser.parse_args()
    try:
        with open(arguments.trace, encoding="utf-8") as file:
            events = json.load(file)
        events = events["traceEvents"] if isinstance(events, dict) else events
        names = {(event["pid"], event["tid"], event["name"]): event["args"]["name"]
                 for event in events if event["ph"] == "M"}
        events = [event for event in events if event["ph"] == "X"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"trace-table.py: {arguments.trace} is no trace of sheaf-run: {error}")
    tracks = {(pid, tid): text for (pid, tid, what), text in names.items() if what == "thread_name"}
    ranks = []
    for pid in sorted({event["pid"] for event in events}):
        own = [event for event in events if event["pid"] == pid]
        steps = [event for event in own if tracks.get((pid, event["tid"])) == "steps"]
        if len(steps) > 1:
            steps = steps[1:]
        spans = [(step["ts"], step["ts"] + step["dur"]) for step in steps]
        own = [event for event in own
               if any(begin <= event["ts"] <= end for begin, end in spans)]
        parts = collections.Counter()
        transfers = collections.defaultdict(lambda: [0, 0, 0.0])
        for event in own:
            track, kind = tracks.get((pid, event["tid"]), ""), event.get("cat")
            if track in ("kernels and products", "compute stream") and kind != "wait":
                parts[PARTS.get(kind, "kernels")] += event["dur"]
            # CPU ranks note starts, which take no time, and waits on one track.
            waits = kind == "wait" or (track == "transfers" and event["name"].startswith("wait"))
            starts = kind == "transfer" and not waits
            if waits or (starts and track == "transfers"):
                parts["exposed"] += event["dur"]
                transfers[event["name"].removeprefix("wait for ")][2] += event["dur"]
            if starts:
                row = transfers[event["name"]]
                row[0] += 1
                row[1] += event["args"]["bytes"]
        total = sum(end - begin for begin, end in spans)
        count = max(1, len(spans))
        ranks.append({
            "rank": names.get((pid, 0, "process_name"), str(pid)), "steps": len(spans),
            "step_seconds": total / count / 1e6,
            **{f"{part}_seconds": parts[part] / count / 1e6
               for part in ("products", "attention", "kernels", "copies", "exposed")},
            "idle_seconds": (total - sum(parts.values())) / count / 1e6,
            "transfers": [{"kind": kind, "count": row[0] / count, "bytes": row[1] / count,
                           "exposed_seconds": row[2] / count / 1e6}
                          for kind, row in sorted(transfers.items())]})
    if arguments.json:
        json.dump(ranks, sys.stdout, indent=2)
        print()
        return 0
    print(f"{'':<18}{'step':>11}{'products':>10}{'attention':>10}{'kernels':>9}{'copies':>8}"
          f"{'exposed':>9}{'idle':>7}")
    for rank in ranks:
        step = rank["step_seconds"] or 1
        print(f"{rank['rank']:<18}{1e3 * rank['step_seconds']:>8.1f} ms" + "".join(
            f"{100 * rank[f'{part}_seconds'] / step:>{width}.1f}%" for part, width in
            (("products", 9), ("attention", 9), ("kernels", 8), ("copies", 7), ("exposed", 8),
             ("idle", 6))))
    for rank in ranks:
        for row in rank["transfers"]:
            print(f"{rank['rank']:<18}{row['kind']:<15}{row['count']:>8.0f} a step"
                  f"{row['bytes'] / 2**20:>11.2f} MiB{1e3 * row['exposed_seconds']:>10.3f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
