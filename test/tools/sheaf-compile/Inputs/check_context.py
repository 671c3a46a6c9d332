"""What --context=auto expects each way to send is what a step with that way sends for attention.

    check_context.py SHEAF_COMPILE MODEL MESH [OPTION...]
"""

import json
import subprocess
import sys

compiler, model, mesh, *options = sys.argv[1:]


def explain(way):
    return json.loads(subprocess.run([compiler, model, f"--mesh={mesh}", f"--context={way}",
                                      *options, "--explain=json", "-o", "/dev/null", "--emit=device"],
                                     check=True, capture_output=True, text=True).stdout)


def sent(explanation):
    """Bytes that a device sends over cp for attention."""
    return sum(row["count"] * row["wire_bytes"] for row in explanation["collectives"]
               if any(axis.split(":")[0] == "cp" for axis in row["axes"]) and
               ("attention" in row.get("op", "") or "Ulysses" in row["reason"].get("text", "")))


choice = explain("auto")
ways = choice["context"]["ways"]
best = min((way for way in ways if "seconds" in way), key=lambda way: way["seconds"])
assert choice["context"]["chosen"] == best["name"], choice["context"]
assert sent(choice) == best["bytes"], (sent(choice), best)
for way in ways:
    if "why_not" in way:
        print(f"{way['name']}: {way['why_not']}")
        continue
    found = sent(explain(way["name"]))
    print(f"{way['name']}: {found:.0f} bytes, expected {way['bytes']:.0f}")
    assert found == way["bytes"], way
print("chosen:", best["name"])
