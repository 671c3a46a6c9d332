"""Functions that call one another, called with two shardings, take no time to propagate.

    copies.py <sheaf-opt> <folder to write to>

A chain in which each function calls the next one twice, and many functions beside one
another: prints how many functions there are behind propagation and what is sent, and fails
where a pass takes longer than some seconds.
"""

import os
import subprocess
import sys

TYPE = "tensor<4x8xf32>"
LIMIT = 10  # Seconds; a copy for every way through the chain takes minutes.
ENTRY = """dist.mesh @mesh ["a" = 2, "b" = 2]
func.func @entry(%x: {type} {{dist.sharding = #dist.sharding<[{{"a"}}, {{}}]>}},
                 %y: {type} {{dist.sharding = #dist.sharding<[{{}}, {{"b"}}]>}})
    -> ({type} {{dist.sharding = #dist.sharding<[{{"a"}}, {{}}]>}},
        {type} {{dist.sharding = #dist.sharding<[{{}}, {{"b"}}]>}}) {{
"""


def call(result, callee, operand):
    return f"  %{result} = func.call @{callee}(%{operand}) : ({TYPE}) -> {TYPE}\n"


def entry(calls):
    """Calls each function on both arguments."""
    text = ENTRY.format(type=TYPE)
    for i, callee in enumerate(calls):
        text += call(f"p{i}", callee, "x") + call(f"q{i}", callee, "y")
    return text + f"  return %p0, %q0 : {TYPE}, {TYPE}\n}}\n"


def function(name, body):
    return f"func.func private @{name}(%x: {TYPE}) -> {TYPE} {{\n{body}}}\n"


def chain(depth):
    text = entry(["f0"])
    for i in range(depth):
        text += function(f"f{i}", call("p", f"f{i + 1}", "x") + call("q", f"f{i + 1}", "p")
                         + f"  return %q : {TYPE}\n")
    return text + function(f"f{depth}", f"  %y = nn.exp %x : {TYPE}\n  return %y : {TYPE}\n")


def flat(count):
    names = [f"g{i}" for i in range(count)]
    # Each computes something else: copies of two functions never become one.
    return entry(names) + "".join(
        function(name, f"  %c = nn.constant dense<{i}.0> : {TYPE}\n"
                       f"  %y = nn.add %x, %c : {TYPE}\n  return %y : {TYPE}\n")
        for i, name in enumerate(names))


def main():
    tool, folder = sys.argv[1:]
    for title, text in {"chain": chain(17), "flat": flat(200)}.items():
        path = os.path.join(folder, f"{title}.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        out = subprocess.run([tool, "--dist-propagate", "--dist-partition", path], check=True,
                             capture_output=True, text=True, timeout=LIMIT).stdout
        print(f"{title}: {out.count('func.func private')} functions,",
              f"{out.count('dist.all') + out.count('dist.permute')} collectives")


if __name__ == "__main__":
    main()
