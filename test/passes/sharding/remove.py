"""Without the annotations that an explanation names there is no such collective.

    remove.py <folder of the built programs> <folder to write to>

For models and strategies written as files, with and without buckets: every set of rows that some collective names
as its reason is left out of the file, and that collective must be gone, unless another row asks for
the same: then it must name that one.
"""

import itertools
import json
import os
import re
import subprocess
import sys

ROWS = {
    "tensor": ["parameter heads -> tp", "parameter kv_heads -> tp shared", "parameter mlp -> tp",
               "parameter vocab -> tp"],
    "sequence": ["parameter heads -> tp", "parameter kv_heads -> tp shared",
                 "parameter mlp -> tp", "value seq of batch, embed -> tp priority 1"],
    "zero-1": ["batch batch -> dp", "state largest -> dp"],
    "zero-2": ["batch batch -> dp", "state largest -> dp", "gradient largest -> dp"],
    "all": ["parameter heads -> tp", "parameter kv_heads -> tp shared", "parameter mlp -> tp",
            "parameter vocab -> tp", "batch batch -> dp", "state largest -> dp"],
}
MODELS = {"gpt": ["gpt"], "llama": ["llama", "--kv-heads=2"]}
SIZES = ["--layers=2", "--hidden=16", "--heads=4", "--vocab=64", "--seq=8", "--batch=8",
         "--ffn=32"]


def explain(bin_dir, model, path, rows, bucket):
    with open(path, "w", encoding="utf-8") as file:
        file.write("# A strategy.\n" + "\n".join(rows) + "\n")
    text = subprocess.run([f"{bin_dir}/sheaf-compile", model, "--mesh=dp=2,tp=2",
                           f"--strategy={path}", f"--bucket-bytes={bucket}", "--explain=json"],
                          check=True, capture_output=True, text=True).stdout
    return json.loads(text)["collectives"]


def identity(entry):
    """What a collective is, whatever it costs."""
    return (entry["kind"], tuple(entry["axes"]), entry["phase"], entry["dtype"],
            entry.get("layer"), entry.get("param"), entry.get("op"), entry["reason"]["loc"],
            entry["reason"]["text"])


def named(entry, rows):
    """The rows that the annotations of a reason come from."""
    texts = entry["reason"].get("annotations", [])
    found = {match.group(1) for text in texts
             for match in re.finditer(r"strategy: (.*?) at \S+:\d+:\d+", text)}
    return frozenset(row for row in rows if row in found)


def without(rows, some):
    """Accumulators are only sharded where the state is."""
    if "state largest -> dp" in some:
        some = some | {"gradient largest -> dp"}
    return [row for row in rows if row not in some]


def main():
    bin_dir, folder = sys.argv[1:]
    failures = removed = kept = 0
    for name, options in MODELS.items():
        model = os.path.join(folder, f"{name}.mlir")
        subprocess.run([f"{bin_dir}/sheaf-model", *options, *SIZES, "-o", model], check=True)
        for (title, rows), bucket in itertools.product(ROWS.items(), ["0", "auto"]):
            path = os.path.join(folder, "strategy")
            entries = explain(bin_dir, model, path, rows, bucket)
            reasons = {}
            for entry in entries:
                who = named(entry, rows)
                if not who:
                    failures += 1
                    print(f"FAILED {name}, {title}, {bucket}: no row is named for {entry}")
                reasons.setdefault(who, set()).add(identity(entry))
            for who, collectives in reasons.items():
                left = without(rows, who)
                # A table has at least one row; this one changes nothing.
                rest = explain(bin_dir, model, path, left or ["batch batch -> ep"],
                               bucket)
                # What two rows ask for is named by one and then by the other.
                still = {identity(entry): named(entry, left) for entry in rest}
                for collective in sorted(collectives, key=str):
                    if still.get(collective) == frozenset():
                        failures += 1
                        print(f"FAILED {name}, {title}, {bucket}: without {sorted(who)} there is still "
                              f"{collective}")
                    removed += collective not in still
                    kept += collective in still
    print(f"{removed} removed, {kept} asked for by another row, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
