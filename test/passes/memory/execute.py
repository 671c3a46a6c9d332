"""Places random programs and executes them on the placed memory.

    execute.py <sheaf-opt> [COUNT [FIRST SEED]]

A program has functions with buffers, views, loops and calls. It is executed line by
line of 64 bytes: what writes a buffer leaves its name in each of its lines, and what
reads one must find it there. So two buffers that overlap while both are needed, or a
callee's scratch memory over its caller's, are found whatever the pass believes about
lifetimes."""

import random
import re
import subprocess
import sys

LINE = 64


class Function:
    """Statements: ("buffer", name, lines), ("view", name, source, offset, lines),
    ("launch", reads, writes), ("call", function, reads, writes), ("loop", body)."""

    def __init__(self, name, reads, writes):
        self.name, self.reads, self.writes, self.body = name, reads, writes, []
        self.sizes = {}  # of arguments, buffers and views, in lines


def make(rng, name, callees):
    function = Function(name, *([f"{kind}{i}" for i in range(rng.randint(0, 2))]
                                for kind in ("r", "w")))
    for argument in function.reads + function.writes:
        function.sizes[argument] = rng.choice((1, 2, 5))
    counter = [0]

    def fresh(prefix):
        counter[0] += 1
        return f"{prefix}{counter[0]}"

    def block(depth, readable, writable, length):
        """`readable` and `writable`: whole buffers that hold something, or may."""
        readable, writable, body = list(readable), list(writable), []

        def buffer(lines):
            name = fresh("b")
            function.sizes[name] = lines
            body.append(("buffer", name, lines))
            return name

        def target(lines=None):
            fitting = [w for w in writable if lines is None or function.sizes[w] == lines]
            if fitting and rng.random() < 0.4:
                return rng.choice(fitting)
            name = buffer(lines or rng.randint(1, 20))
            writable.append(name)
            return name

        def source(lines=None):
            fitting = [r for r in readable if lines is None or function.sizes[r] == lines]
            if fitting:
                return rng.choice(fitting)
            name = buffer(lines or rng.randint(1, 20))
            body.append(("launch", [], [name]))
            readable.append(name)
            writable.append(name)
            return name

        for _ in range(length):
            kind = rng.random()
            if kind < 0.15 and depth < 2:
                body.append(("loop", block(depth + 1, readable, [w for w in writable if w in readable],
                                           rng.randint(1, 6))))
            elif kind < 0.3 and callees:
                callee = rng.choice(callees)
                reads = [source(callee.sizes[r]) for r in callee.reads]
                writes = []
                for w in callee.writes:
                    name = target(callee.sizes[w])
                    if name in writes or name in reads:
                        name = buffer(callee.sizes[w])
                        writable.append(name)
                    writes.append(name)
                body.append(("call", callee, reads, writes))
                readable += [w for w in writes if w not in readable]
            elif kind < 0.45 and readable:
                base = rng.choice(readable)
                lines = rng.randint(1, function.sizes[base])
                offset = rng.randint(0, function.sizes[base] - lines)
                view = fresh("v")
                function.sizes[view] = lines
                body.append(("view", view, base, offset, lines))
                readable.append(view)
            else:
                reads = rng.sample(readable, rng.randint(0, min(3, len(readable))))
                writes = [target()]
                body.append(("launch", reads, writes))
                readable += [w for w in writes if w not in readable]
        return body

    function.body = block(0, function.reads, function.writes, rng.randint(3, 25))
    return function


def text(functions):
    def memref(lines):
        return f"memref<{lines * LINE}xi8>"

    out = ["module @kernels {", "func.func @k() {", "return", "}", "}"]
    for function in functions:
        def operands(names):
            return (", ".join("%" + n for n in names) + " : "
                    + ", ".join(memref(function.sizes[n]) for n in names))

        def access(reads, writes):
            return ((f" reads({operands(reads)})" if reads else "")
                    + (f" writes({operands(writes)})" if writes else ""))

        def emit(body, depth=0):
            for statement in body:
                kind = statement[0]
                if kind == "buffer":
                    out.append(f"%{statement[1]} = exec.buffer : {memref(statement[2])}")
                elif kind == "view":
                    _, name, base, offset, lines = statement
                    out.append(f"%{name} = exec.view %{base} offset {offset * LINE} : "
                               f"{memref(function.sizes[base])} to {memref(lines)}")
                elif kind == "launch":
                    out.append("exec.launch @kernels::@k" + access(*statement[1:]))
                elif kind == "call":
                    out.append(f"exec.call @{statement[1].name}" + access(*statement[2:]))
                else:
                    out.append(f"scf.for %i{depth} = %zero to %two step %one {{")
                    emit(statement[1], depth + 1)
                    out.append("}")

        arguments = function.reads + function.writes
        out.append(f"func.func @{function.name}("
                   + ", ".join(f"%{a}: {memref(function.sizes[a])}" for a in arguments) + ") {")
        for name, value in (("zero", 0), ("one", 1), ("two", 2)):
            out.append(f"%{name} = arith.constant {value} : index")
        emit(function.body)
        out += ["return", "}"]
    return "\n".join(out) + "\n"


class Placed:
    """The offsets of a function in the order of its buffers and calls."""

    def __init__(self, body):
        self.offsets = [int(n) for n in re.findall(r"exec\.buffer at (\d+)", body)]
        self.scratches = [int(n) for n in re.findall(r"scratch (\d+)$", body, re.M)]
        self.bytes = int(re.search(r"exec\.scratch_bytes = (\d+)", body).group(1))
        self.live = int(re.search(r"exec\.live_bytes = (\d+)", body).group(1))


class Wrong(Exception):
    pass


def execute(function, placed, memory, base, arguments, activation):
    here = placed[function.name]
    places, owners = dict(arguments), {}
    offsets, scratches = iter(here.offsets), iter(here.scratches)
    where = {}

    def assign(body):
        for statement in body:
            if statement[0] == "buffer":
                offset = next(offsets)
                if offset % LINE or offset + statement[2] * LINE > here.bytes:
                    raise Wrong(f"{function.name}: {statement[1]} at {offset} of {here.bytes}")
                places[statement[1]] = [base + offset // LINE + i for i in range(statement[2])]
            elif statement[0] == "call":
                where[id(statement)] = next(scratches)
            elif statement[0] == "loop":
                assign(statement[1])

    assign(function.body)
    # A line's owner is the buffer itself, also when it is reached through a view.
    for name in function.reads + function.writes:
        owners[name] = [memory.names[line] for line in places[name]]

    def tags(name):
        return owners.setdefault(name, [(activation, name, i) for i in range(len(places[name]))])

    def read(names):
        for name in names:
            for line, tag in zip(places[name], tags(name)):
                if memory.lines.get(line) != tag:
                    raise Wrong(f"{function.name}: {name} was overwritten by "
                                f"{memory.lines.get(line)}")

    def write(names):
        for name in names:
            for line, tag in zip(places[name], tags(name)):
                memory.lines[line] = tag

    def run(body):
        for statement in body:
            kind = statement[0]
            if kind == "view":
                _, name, source, offset, lines = statement
                places[name] = places[source][offset:offset + lines]
                owners[name] = tags(source)[offset:offset + lines]
            elif kind == "launch":
                read(statement[1])
                write(statement[2])
            elif kind == "call":
                _, callee, reads, writes = statement
                read(reads)
                scratch = where[id(statement)]
                if scratch % LINE or scratch + placed[callee.name].bytes > here.bytes:
                    raise Wrong(f"{function.name}: scratch at {scratch} of {here.bytes}")
                given = {}
                for argument, name in zip(callee.reads + callee.writes, reads + writes):
                    given[argument] = places[name]
                    for line, tag in zip(places[name], tags(name)):
                        memory.names[line] = tag
                memory.calls += 1
                execute(callee, placed, memory, base + scratch // LINE, given, memory.calls)
                write(writes)
            elif kind == "loop":
                for _ in range(2):
                    run(statement[1])

    run(function.body)


class Memory:
    def __init__(self):
        self.lines, self.names, self.calls = {}, {}, 0


def program(seed):
    rng = random.Random(seed)
    functions = []
    for i in range(rng.randint(1, 3)):
        functions.append(make(rng, f"p{seed}_f{i}", list(functions)))
    return functions


def check(functions, bodies):
    """The largest ratio of memory to what is alive at once."""
    placed = {f.name: Placed(bodies[f.name]) for f in functions}
    for function in functions:
        if placed[function.name].bytes < placed[function.name].live:
            raise Wrong(f"{function.name}: less memory than is alive at once")
        memory, arguments, at = Memory(), {}, -1
        for argument in function.reads + function.writes:
            arguments[argument] = []
            for i in range(function.sizes[argument]):
                arguments[argument].append(at)
                memory.names[at] = memory.lines[at] = ("argument", argument, i)
                at -= 1
        execute(function, placed, memory, 0, arguments, 0)
    return max(p.bytes / p.live if p.live else 1 for p in placed.values())


def main():
    tool = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    programs = [program(seed) for seed in range(first, first + count)]
    # All in one module: the tool takes longer to start than to place.
    run = subprocess.run([tool, "--exec-place", "-"], input=text(sum(programs, [])), text=True,
                         capture_output=True, check=False, timeout=300)
    if run.returncode:
        print("FAILED", run.stderr)
        return 1
    bodies = {part.split("(", 1)[0]: part for part in run.stdout.split("  func.func @")}
    failures, worst = 0, 1.0
    for functions in programs:
        try:
            worst = max(worst, check(functions, bodies))
        except Wrong as error:
            failures += 1
            print(f"FAILED {error}\n{text(functions)}")
    print(f"{count} programs, {failures} failures, at most {worst:.3f} of what is alive")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
