"""Propagation does not depend on the order of ops or functions in the file.

    shuffle.py <folder of the built programs>

Steps with a strategy applied are propagated as they are and with functions and ops in
random orders that keep definitions before uses; every op, found again by its location, and
every argument must get the same sharding.
"""

import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../oracle"))

import partition  # noqa: E402

NAME = re.compile(r"%[\w.]+")


class Item:
    """An op: its first line, the items of its body, its last line."""

    def __init__(self, line):
        self.line, self.body, self.end = line, [], None

    def defined(self):
        head = self.line.strip().partition(" = ")
        return set(NAME.findall(head[0])) if head[1] and head[0].startswith("%") else set()

    def used(self):
        text = self.line.strip()
        found = set(NAME.findall(text)) - self.defined()
        for item in self.body:
            found |= item.used()
        return found


def read(lines):
    """The items up to a line that closes the block."""
    items = []
    while lines:
        line = lines.pop(0)
        if line.strip().startswith("}"):
            return items, line
        item = Item(line)
        if line.rstrip().endswith("{"):
            item.body, item.end = read(lines)
        items.append(item)
    return items, None


def shuffled(items, chance):
    """A random order that keeps definitions before uses, labels first, terminators last."""
    first = [i for i in items if i.line.strip().startswith(("^", "dist.mesh"))]
    last = [i for i in items if re.match(r"\s*(func\.)?(return|nn\.yield)\b", i.line)]
    rest = [i for i in items if i not in first and i not in last]
    here = set().union(*(i.defined() for i in rest)) if rest else set()
    done, order = set(), []
    while rest:
        ready = [i for i in rest if i.used() & here <= done]
        item = chance.choice(ready)
        rest.remove(item)
        order.append(item)
        done |= item.defined()
    for item in order:
        item.body = shuffled(item.body, chance)
    return first + order + last


def label(items, count=0):
    """Gives every op a location of its own."""
    for item in items:
        count = label(item.body, count)
        text = item.line.strip()
        if text.startswith("^") or "func.func" in text:
            continue
        count += 1
        if item.end is None:
            item.line += f' loc("{count}")'
        else:
            item.end += f' loc("{count}")'
    return count


def write(items):
    lines = []
    for item in items:
        lines.append(item.line)
        if item.end is not None:
            lines += write(item.body) + [item.end]
    return lines


def shardings(bin_dir, items):
    """{op or argument: its shardings} after propagation."""
    text = partition.run(f"{bin_dir}/sheaf-opt", "--dist-propagate", "--mlir-print-debuginfo",
                         "--mlir-print-local-scope", "--mlir-print-op-generic",
                         stdin="\n".join(write(items)))
    found = {}
    for line in text.splitlines():
        function = re.search(r'sym_name = "(\w+)"', line)
        if function and "arg_attrs" in line:
            found[function[1]] = re.findall(r"dist\.sharding = (#dist\.sharding<.*?\]>)",
                                            line.partition("arg_attrs")[2])
        place = re.search(r'loc\("(\d+)"\)$', line)
        lists = re.search(r"dist\.shardings = \[(.*?\]>)\]", line)
        if place and lists:
            found[int(place[1])] = lists[1]
    return found


def main():
    bin_dir, failures, runs = sys.argv[1], 0, 0
    sizes = ["--layers=2", "--hidden=16", "--heads=4", "--vocab=32", "--seq=8", "--batch=8"]
    for model, strategy in (("gpt", "mesh=dp=2,tp=2 zero=1 sequence-parallel"),
                            ("llama", "mesh=dp=2,tp=4 zero=3 sequence-parallel"),
                            ("gpt", "mesh=dp=3,tp=2")):
        more = ["--kv-heads=2"] if model == "llama" else []
        step = partition.make_step(bin_dir, [model, *sizes, *more], 2)
        text = partition.run(f"{bin_dir}/sheaf-opt", "--pass-pipeline=builtin.module("
                             f"nn-decompose{{ops=step_mean,step_sum}},"
                             f"dist-apply-strategy{{{strategy}}})", stdin=step)
        items, _ = read([line for line in text.splitlines() if line.strip()])
        label(items[0].body)
        expected = shardings(bin_dir, items)
        sharded = sum('{"' in str(value) for value in expected.values())
        if len(expected) < 100 or sharded < 50:
            raise ValueError(f"{len(expected)} ops, {sharded} of them sharded")
        for seed in range(4):
            runs += 1
            items[0].body = shuffled(items[0].body, random.Random(seed))
            found = shardings(bin_dir, items)
            if found != expected:
                failures += 1
                wrong = [key for key in expected if found.get(key) != expected[key]]
                print(f"FAILED {model}, {strategy}, order {seed}: {len(wrong)} differ, "
                      f"{wrong[0]} has {found.get(wrong[0])}, expected {expected[wrong[0]]}")
    print(f"{runs} orders, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
