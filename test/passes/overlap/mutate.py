"""Breaks what exec-overlap made of real models, and has exec-verify-races find each break.

    mutate.py <sheaf-model> <sheaf-compile> <sheaf-opt> [STEP]

Of a model with ZeRO-3 and of a pipeline, before and after placement: each wait is taken out, or
moved behind the next op that uses what it waits for; each start is moved in front of the op that
stops it; what comes in gets the place of a buffer that is written meanwhile. Every one of these
programs (with STEP, each STEP-th) must be refused, and the unbroken ones must not."""

import os
import re
import subprocess
import sys
import tempfile

# With the environment's KEEP, a folder: what was missed is left there.
MODEL = ["gpt", "--layers=1", "--hidden=8", "--heads=2", "--seq=4", "--batch=4", "--vocab=16"]
CASES = {
    "zero-3": (MODEL, ["--mesh=dp=2", "--zero=3"]),
    "pipeline": ([*MODEL, "--layers=2"],
                 ["--mesh=pp=2,dp=2", "--microbatches=2", "--pipeline=1f1b", "--zero=1"]),
}
WIDTHS = {"i1": 1, "i8": 1, "i32": 4, "f32": 4, "i64": 8, "f64": 8, "bf16": 2, "f16": 2}


def bytes_of(memref):
    *sizes, element = memref.split("x")
    count = WIDTHS[element]
    for size in sizes:
        count *= int(size)
    return count


def operands(line, kind):
    match = re.search(rf"\b{kind}\((%[^:]*) : ([^)]*)\)", line)
    return match[1].split(", ") if match else []


class Function:
    """The lines of a function, its buffers in front, and what each op uses."""

    def __init__(self, lines):
        self.head, *body, self.tail = lines
        front = [line for line in body if " = exec.buffer" in line]
        known = set(re.findall(r"(%\w+): memref", self.head))
        known |= {line.split()[0] for line in front}
        self.places = {}  # root, first byte, last byte + 1
        for name, memref in re.findall(r"(%\w+): memref<([^>]*)>", self.head):
            self.places[name] = (name, 0, bytes_of(memref))
        for line in front:
            self.places[line.split()[0]] = (line.split()[0], 0,
                                            bytes_of(line[line.rindex("<") + 1:-1]))
        self.body = []
        for line in body:
            match = re.match(r" *(%\w+) = exec\.view (%\w+) (?:offset (\d+) )?.* to memref<([^>]*)>",
                             line)
            part = re.match(r" *(%\w+) = exec\.part (%\w+)\[", line)
            if match:
                root, begin, _ = self.places[match[2]]
                begin += int(match[3] or 0)
                self.places[match[1]] = (root, begin, begin + bytes_of(match[4]))
                if match[2] in known:
                    known.add(match[1])
                    front.append(line)
                    continue
            elif part:
                self.places[part[1]] = self.places[part[2]]
            if " = exec.buffer" not in line:
                self.body.append(line)
        self.front = front

    def text(self, body, front=None):
        return "\n".join([self.head, *(front or self.front), *body, self.tail])

    def moved(self, name, other):
        """The buffers in front, one of them at the place of another; None where they have none."""
        at = {line.split()[0]: re.search(r"exec\.buffer at (\d+) ", line) for line in self.front}
        name, other = self.places[name][0], self.places[other][0]
        if name == other or not at.get(name) or not at.get(other):
            return None
        return [line.replace(at[name][0], at[other][0]) if line.split()[0] == name else line
                for line in self.front]

    def meets(self, line, names, writes_only=False):
        """Whether an op uses some of the bytes."""
        used = operands(line, "writes") + ([] if writes_only else operands(line, "reads"))
        for root, begin, end in (self.places[name] for name in used):
            for other, first, last in (self.places[name] for name in names):
                if root == other and begin < last and first < end:
                    return True
        return False

    def pairs(self):
        """(start, wait, sent, received) by their lines."""
        for at, line in enumerate(self.body):
            started = re.match(r" *exec\.(collective|start) ", line)
            written = operands(line, "writes")
            if not started or not written or len(written) != (
                    2 if started[1] == "collective" or "receive" in line.split()[1] else 1):
                continue
            handle = written[-1]
            wait = next(i for i in range(at, len(self.body))
                        if "exec.wait " in self.body[i]
                        and operands(self.body[i], "reads")[0] == handle)
            yield at, wait, operands(line, "reads"), written[:-1]

    def mutants(self):
        def depth(lines):
            return sum(line.rstrip().endswith("{") - (line.strip() == "}") for line in lines)

        for start, wait, sent, received in self.pairs():
            def stops(line):
                return self.meets(line, received) or self.meets(line, sent, writes_only=True)

            body = self.body
            yield "no wait", self.text(body[:wait] + body[wait + 1:])
            for line in body[start + 1:wait]:
                if "exec.wait " in line or not received:
                    continue
                fronts = filter(None, (self.moved(received[0], name)
                                       for name in operands(line, "writes")))
                if front := next(fronts, None):
                    yield "shared place", self.text(body, front)
                    break
            for at in range(wait + 1, len(body)):
                level = depth(body[wait + 1:at + 1])
                if level < 0:
                    break
                if stops(body[at]):
                    while level > 0:
                        at += 1
                        level = depth(body[wait + 1:at + 1])
                    yield "late wait", self.text(body[:wait] + body[wait + 1:at + 1] + [body[wait]]
                                                 + body[at + 1:])
                    break
            for at in range(start - 1, -1, -1):
                level = depth(body[at:start])
                if level > 0:
                    break
                if stops(body[at]) and level == 0:
                    yield "early start", self.text(body[:at] + [body[start]] + body[at:start]
                                                   + body[start + 1:])
                    break


def functions(text):
    """(before, lines of a function, behind) of each that starts something."""
    # What transfers are about is long, and nothing to the pass.
    text = re.sub(r" about \{[^\n]*\}(?= :|\n|$)", "", text)
    for match in re.finditer(r"^  func\.func .*?^  \}$", text, re.M | re.S):
        if "exec.wait " in match[0]:
            yield text[:match.start()], match[0].split("\n"), text[match.end():]


def refused(tool, modules):
    """Whether each of the modules is refused; all go in one run."""
    lines, size = [], 1
    for module in modules:
        lines.append(size)
        size += module.count("\n") + 2
    run = subprocess.run([tool, "--split-input-file", "--exec-verify-races", "-o", "/dev/null", "-"],
                         input="\n// -----\n".join(modules), text=True, capture_output=True,
                         check=False, timeout=600)
    wrong = set()
    for line in re.findall(r"^<stdin>:(\d+):\d+: error: '", run.stderr, re.M):
        wrong.add(max(i for i, first in enumerate(lines) if first <= int(line)))
    others = [line for line in run.stderr.splitlines()
              if ": error: " in line and "error: 'exec." not in line]
    if others:
        print("FAILED", *others[:5], sep="\n")
    return [i in wrong for i in range(len(modules))]


def main():
    model_tool, compile_tool, opt_tool, *rest = sys.argv[1:]
    step = int(rest[0]) if rest and not os.environ.get("SHEAF_FULL") else 1
    counts, missed = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, options) in CASES.items():
            path, phases = os.path.join(folder, "model.mlir"), os.path.join(folder, name)
            subprocess.run([model_tool, *model, "-o", path], check=True, timeout=60)
            subprocess.run([compile_tool, path, *options, "--emit=exec", f"--dump-phases-to={phases}",
                            "-o", os.path.join(folder, "placed.mlir")], check=True, timeout=60)
            for phase in ("overlap", "place"):
                file = next(f for f in os.listdir(phases) if f.endswith(f"-{phase}.mlir"))
                with open(os.path.join(phases, file), encoding="utf-8") as dump:
                    text = dump.read()
                modules, kinds = [], []
                for before, lines, behind in functions(text):
                    function = Function(lines)
                    modules.append(before + function.text(function.body) + behind)
                    kinds.append("as it is")
                    for i, (kind, mutant) in enumerate(function.mutants()):
                        if i % step == 0:
                            modules.append(before + mutant + behind)
                            kinds.append(kind)
                for kind, module, found in zip(kinds, modules, refused(opt_tool, modules)):
                    counts[kind] = counts.get(kind, 0) + 1
                    if found != (kind != "as it is"):
                        missed += 1
                        print(f"FAILED {name}, {phase}, {kind}: {'refused' if found else 'accepted'}")
                        if "KEEP" in os.environ:
                            with open(os.path.join(os.environ["KEEP"], f"missed{missed}.mlir"), "w",
                                      encoding="utf-8") as out:
                                out.write(module)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()) + f"; {missed} failures")
    return 1 if missed or len(counts) < 5 else 0


if __name__ == "__main__":
    sys.exit(main())
