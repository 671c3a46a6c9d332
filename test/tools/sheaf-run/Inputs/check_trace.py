"""Checks a trace of `sheaf-run --trace`: events that lie on a track one after the other,
calls that lie in their step, parts of threads inside the calls, and what each says."""

import collections
import json
import sys

SLACK = 0.002  # microseconds: the times are rounded to nanoseconds


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        trace = json.load(file)
    threads, steps = int(sys.argv[2]), int(sys.argv[3])
    events = trace["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events
             if event["ph"] == "M" and event["name"] == "thread_name"}
    wanted = ["steps", "kernels and products"] + [f"thread {i}" for i in range(threads)]
    assert [names[i] for i in sorted(names)] == wanted, names
    tracks = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["ts"] >= 0, event
            tracks[event["tid"]].append(event)
    for track, list_ in tracks.items():
        list_.sort(key=lambda event: event["ts"])
        for before, after in zip(list_, list_[1:]):
            assert before["ts"] + before["dur"] <= after["ts"] + SLACK, (track, before, after)
    assert len(tracks[0]) == steps, len(tracks[0])
    calls = tracks[1]
    for call in calls:
        assert set(call["args"]) == {"bytes", "flops", "location"}, call
        assert call["args"]["bytes"] > 0, call
        if call["cat"] == "matmul":
            assert call["args"]["flops"] > 0 and "x" in call["name"], call
    assert {"matmul", "kernel"} <= {call["cat"] for call in calls}
    assert any(call["args"]["location"].startswith("model.mlir:") for call in calls)
    counts = set()
    for step in tracks[0]:
        inside = [call for call in calls if step["ts"] - SLACK <= call["ts"]
                  and call["ts"] + call["dur"] <= step["ts"] + step["dur"] + SLACK]
        share = sum(call["dur"] for call in inside) / step["dur"]
        assert share <= 1.0001, share
        counts.add(len(inside))
    # Each step has the same calls, and all of them lie in one.
    assert len(counts) == 1 and counts.pop() * steps == len(calls), len(calls)
    # Each thread's part lies in a call of the same name.
    for thread in range(threads):
        position = 0
        for part in tracks[thread + 2]:
            while calls[position]["ts"] + calls[position]["dur"] + SLACK < part["ts"]:
                position += 1
            call = calls[position]
            assert call["name"] == part["name"] and part["args"]["tasks"] > 0, (call, part)
            assert call["ts"] - SLACK <= part["ts"], (call, part)
            assert part["ts"] + part["dur"] <= call["ts"] + call["dur"] + SLACK, (call, part)
    print(f"trace of {len(tracks[0])} steps on {threads} threads is well formed")


if __name__ == "__main__":
    main()
