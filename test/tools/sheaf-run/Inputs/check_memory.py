"""Checks that the bytes of each kind in `sheaf-run --info=json` add up."""

import json
import math
import sys

SIZES = {"f32": 4, "i32": 4}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        info = json.load(file)
    sizes = [math.prod(b["shape"]) * SIZES[b["dtype"]] for b in info["buffers"]]
    for name, entry in info["entries"].items():
        memory, arena = dict(info["memory"][name]), entry["arena"]
        assert sum(arena.values()) == entry["arena_bytes"], (name, arena)
        everything = memory.pop("all")
        assert sum(memory.values()) == everything, (name, memory)
        persistent = sum(sizes[i] for i in entry["arguments"])
        assert persistent + entry["arena_bytes"] == everything, (name, persistent)
    step = info["memory"]["step"]
    assert step["optimizer_state"] == 2 * step["parameters"] == 2 * step["gradients"], step
    assert step["activations"] > 0 and step["temporaries"] > 0, step
    print(f"{len(info['entries'])} entries add up")


if __name__ == "__main__":
    main()
