"""Every entry of an explanation has what it should, and the totals are those of the entries.

    check_explain.py FILE AXIS...
"""

import collections
import json
import math
import sys

path, axes = sys.argv[1], set(sys.argv[2:])
with open(path, encoding="utf-8") as file:
    explained = json.load(file)
totals = collections.defaultdict(lambda: [0, 0, 0])
kinds = collections.Counter()
for entry in explained["collectives"]:
    assert entry["kind"] in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                             "permute", "send"), entry
    assert entry["axes"] and set(entry["axes"]) <= axes, entry
    assert entry["group"] > 1 and entry["count"] >= 1 and entry["elements"] >= 1, entry
    assert entry["dtype"] == "f32" and entry["wire_bytes"] > 0 and entry["seconds"] > 0, entry
    assert entry["phase"] in ("forward", "backward", "optimizer"), entry
    assert entry["reason"]["kind"] and entry["reason"]["text"] and entry["reason"]["loc"], entry
    assert all(text.startswith(("strategy: ", "ZeRO-")) for text in
               entry["reason"]["annotations"]), entry
    assert "op" in entry or "param" in entry, entry
    if "purpose" in entry:
        assert entry["elements"] == 1
        kinds[entry["purpose"]] += 1
        continue
    kinds["param" in entry, entry.get("layer")] += 1
    total = totals[tuple(entry["axes"])]
    total[0] += entry["count"]
    total[1] += entry["count"] * entry["wire_bytes"]
    total[2] += entry["count"] * entry["seconds"]
# Parameters are gathered and reduced where layers are called, activations inside.
assert kinds[True, None] and kinds[False, "block"] and not kinds[True, "block"], kinds
assert kinds["loss"] and kinds["grad_norm"], kinds
assert len(explained["totals"]) == len(totals)
for row in explained["totals"]:
    count, wire, seconds = totals[tuple(row["axes"])]
    assert row["count"] == count and row["wire_bytes"] == wire, row
    assert math.isclose(row["seconds"], seconds, rel_tol=1e-9), row
part, whole = explained["memory"], explained["memory_one_device"]
assert part["parameter"] < whole["parameter"] and part["moment1"] < whole["moment1"]
assert part["activations"] < whole["activations"]
