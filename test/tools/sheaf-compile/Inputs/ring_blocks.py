"""How many blocks of keys, and of values, a ring holds at once: of each chain of permutes in a
program on buffers (--emit=exec, before or behind exec-place) the most that are alive at an op."""

import re
import sys


def functions(text):
    """The lines of each function with a body."""
    body = None
    for line in text.splitlines():
        if line.lstrip().startswith("func.func"):
            body = []
        elif body is not None and line == "  }":
            yield body
            body = None
        elif body is not None:
            body.append(line)


def most_alive(body):
    """For each chain, the most of its buffers that are alive at once."""
    root = {}
    places = {}
    hands_on = {}
    for number, line in enumerate(body):
        view = re.match(r"\s*(%\w+) = exec\.(?:view|part) (%\w+)", line)
        if view:
            root[view[1]] = root.get(view[2], view[2])
            continue
        if re.match(r"\s*%\w+ = exec\.buffer", line):
            continue
        for name in set(re.findall(r"%\w+", line)):
            name = root.get(name, name)
            first, _ = places.get(name, (number, number))
            places[name] = (first, number)
        permute = re.search(r"exec\.collective permute reads\((%\w+) .* writes\((%\w+)", line)
        if permute and "keys and values go" in line:
            source, target = (root.get(name, name) for name in permute.groups())
            hands_on[source] = target
    result = []
    for source in set(hands_on) - set(hands_on.values()):
        chain = [source]
        while chain[-1] in hands_on:
            chain.append(hands_on[chain[-1]])
        # What came in as an argument stays.
        lives = [(0, len(body)) if name.startswith("%arg") else places[name] for name in chain]
        result.append((len(chain), max(sum(first <= at <= last for first, last in lives)
                                       for at in range(len(body)))))
    return sorted(result)


chains = [chain for body in functions(sys.stdin.read()) for chain in most_alive(body)]
print(f"{len(chains)} chains, the longest of {max(length for length, _ in chains)} blocks, "
      f"at most {max(alive for _, alive in chains)} alive at once")
