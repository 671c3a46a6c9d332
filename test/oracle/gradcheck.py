"""Checks compiled functions and their compiled gradients by execution.

    python3 test/oracle/gradcheck.py build/bin [--cases=softmax,...] [--list]

All cases become one module and one artifact (`sheaf-compile --differentiate`), which
has for each function f the entries f and f_gradient(arguments..., cotangents of the
float results...) -> one gradient for each float argument. Then

  - the results of f are compared with a NumPy reference, where the case has one;
  - the gradients are compared with central differences of f itself: along random
    directions through all float arguments at once, and element by element for small
    arguments.

The n-th evaluation of every case is done by one process, so that the number of
processes is that of the case with most evaluations, whatever the number of cases.

A case that does not compile is reported by name, and the others are checked still.
"""

import json
import os
import sys
from dataclasses import dataclass, field
from typing import Callable, Optional

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                os.pardir, "e2e"))

import support  # noqa: E402
import safetensors  # noqa: E402

STEP = 1e-5
TOLERANCE = 1e-6
DIRECTIONS = 3
# Arguments of at most so many elements are checked element by element.
SMALL = 12


@dataclass
class Case:
    """`text` defines the public function @name, with helper functions if it needs
    them, on f64; `inputs` are its arguments as arrays. `reference(*inputs)` returns
    the expected results, as a tuple. `frozen` lists float arguments whose gradient is
    not checked, because f is not differentiable there; the derivative of all others
    must exist within `step` of the inputs. A larger step suits large cases, where the
    rounding of many terms is the main error, and those without a third derivative.
    `gradient` false: only f is called."""
    name: str
    text: str
    inputs: list
    reference: Optional[Callable] = None
    frozen: tuple = ()
    gradient: bool = True
    value_tolerance: float = 1e-12
    tolerance: float = TOLERANCE
    step: float = STEP
    # Filled by the checker.
    results: list = field(default_factory=list)
    cotangents: list = field(default_factory=list)
    moves: list = field(default_factory=list)

    def floats(self):
        return [i for i, value in enumerate(self.inputs)
                if np.issubdtype(value.dtype, np.floating)]

    def checked(self):
        return [i for i in self.floats() if i not in self.frozen]


def plan_moves(case, random):
    """The perturbations to evaluate at: maps of argument to direction."""
    moves = []
    for _ in range(DIRECTIONS):
        move = {i: random.standard_normal(case.inputs[i].shape) for i in case.checked()}
        length = np.sqrt(sum(float((d * d).sum()) for d in move.values()))
        moves.append(("along a direction", {i: d / length for i, d in move.items()}))
    for i in case.checked():
        if case.inputs[i].size > SMALL:
            continue
        for index in np.ndindex(case.inputs[i].shape):
            direction = np.zeros_like(case.inputs[i])
            direction[index] = 1.0
            moves.append((f"argument {i} at {list(index)}", {i: direction}))
    return moves


class Checker:
    def __init__(self, session, cases):
        self.session, self.cases, self.artifacts = session, cases, []

    def compile(self, cases, output):
        """Compiles cases as one module; returns the error text, empty if none."""
        differentiate = [case for case in cases if case.gradient]
        path = self.session.path("cases.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n\n".join(case.text.strip() for case in cases) + "\n")
        status, out, err = self.session.try_run(
            "sheaf-compile", path, "-o", output,
            *(["--differentiate"] if differentiate else []))
        if status != 0:
            return f"exit status {status}: {(err or out).strip()[-1500:]}"
        return ""

    def compiling(self, cases, output):
        """The cases that compile; the others are found by halving and reported."""
        error = self.compile(cases, output) if cases else ""
        if not error:
            return cases
        if len(cases) == 1:
            self.session.check(f"{cases[0].name}: compiles", False, error)
            return []
        half = len(cases) // 2
        return self.compiling(cases[:half], output) + self.compiling(cases[half:], output)

    def build(self):
        """One artifact for the cases with a gradient and one for those without."""
        for gradient in (True, False):
            cases = [case for case in self.cases if case.gradient == gradient]
            output = self.session.path("gradient.sheaf" if gradient else "plain.sheaf")
            good = self.compiling(cases, output)
            if good and len(good) < len(cases):
                error = self.compile(good, output)
                if error:
                    self.session.check("all cases together compile", False, error)
                    good = []
            if good:
                self.artifacts.append((output, good))

    def call(self, artifact, arguments):
        """Calls every entry. `arguments` maps an entry to its arguments; the result
        maps an entry to its results."""
        inputs = {f"input:{entry}.arg{i}": np.asarray(value)
                  for entry, values in arguments.items() for i, value in enumerate(values)}
        source, target = self.session.path("in.safetensors"), \
            self.session.path("out.safetensors")
        safetensors.write(source, inputs)
        self.session.run("sheaf-run", artifact, "--call=all", f"--inputs={source}",
                         f"--outputs={target}")
        outputs = safetensors.read(target)
        results = {}
        for entry in arguments:
            values = []
            while f"output:{entry}.out{len(values)}" in outputs:
                values.append(outputs[f"output:{entry}.out{len(values)}"])
            results[entry] = values
        return results

    def shapes_of_results(self, artifact):
        """Entry to the (dtype, shape) of its results, from the manifest."""
        manifest = json.loads(self.session.run("sheaf-run", artifact, "--info=json"))
        result = {}
        for buffer in manifest["buffers"]:
            if buffer["kind"] == "output":
                entry, _, index = buffer["name"].rpartition(".out")
                result.setdefault(entry, {})[int(index)] = (buffer["dtype"],
                                                            tuple(buffer["shape"]))
        return result

    def check(self):
        self.build()
        for artifact, cases in self.artifacts:
            self.check_artifact(artifact, cases)

    def check_artifact(self, artifact, cases):
        shapes = self.shapes_of_results(artifact)
        arguments = {}
        for number, case in enumerate(cases):
            random = np.random.default_rng(1000 + number)
            outputs = [shapes[case.name][i] for i in range(len(shapes[case.name]))]
            case.cotangents = [random.standard_normal(shape) for dtype, shape in outputs
                               if dtype.startswith("f")]
            arguments[case.name] = case.inputs
            if case.gradient:
                arguments[case.name + "_gradient"] = case.inputs + case.cotangents
                case.moves = plan_moves(case, random)
        base = self.call(artifact, arguments)
        for case in cases:
            case.results = base[case.name]
            self.check_values(case)

        checked = [case for case in cases if case.gradient]
        slopes = {case.name: [] for case in checked}
        for number in range(max((len(case.moves) for case in checked), default=0)):
            sides = []
            for sign in (1, -1):
                # An entry with no evaluation left is called again with its inputs.
                moved = dict(arguments)
                for case in checked:
                    if number < len(case.moves):
                        _, move = case.moves[number]
                        moved[case.name] = [
                            value + sign * case.step * move[i] if i in move else value
                            for i, value in enumerate(case.inputs)]
                sides.append(self.call(artifact, moved))
            for case in checked:
                if number < len(case.moves):
                    slopes[case.name].append(sum(
                        float((cotangent * (up - down)).sum()) / (2 * case.step)
                        for cotangent, up, down in zip(
                            case.cotangents, float_results(sides[0][case.name]),
                            float_results(sides[1][case.name]))))
        for case in checked:
            self.check_gradient(case, base[case.name + "_gradient"], slopes[case.name])

    def check_values(self, case):
        session = self.session
        if case.reference is None:
            return
        want = case.reference(*case.inputs)
        if len(want) != len(case.results):
            session.check(f"{case.name}: values", False,
                          f"{len(case.results)} results, expected {len(want)}")
            return
        worst = 0.0
        for index, (got, expected) in enumerate(zip(case.results, want)):
            expected = np.asarray(expected)
            if got.shape != expected.shape:
                session.check(f"{case.name}: values", False,
                              f"result {index} has shape {got.shape}, "
                              f"expected {expected.shape}")
                return
            if np.issubdtype(expected.dtype, np.floating):
                same = np.isclose(got, expected, rtol=0, atol=0, equal_nan=True)
                with np.errstate(invalid="ignore"):
                    error = np.where(same, 0.0, np.abs(got - expected))
                scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0)))
                error = float(error.max(initial=0.0)) / scale
                worst = error if not error <= worst else worst
            elif not np.array_equal(got, expected):
                worst = np.inf
        session.check(f"{case.name}: values", bool(worst <= case.value_tolerance),
                      f"error {worst:.1e}")

    def check_gradient(self, case, gradients, slopes):
        session = self.session
        floats = case.floats()
        if len(gradients) != len(floats):
            session.check(f"{case.name}: gradient", False,
                          f"{len(gradients)} gradients for {len(floats)} float arguments")
            return
        gradients = dict(zip(floats, gradients))
        for i, gradient in gradients.items():
            if gradient.shape != case.inputs[i].shape or not np.isfinite(gradient).all():
                session.check(f"{case.name}: gradient", False,
                              f"of argument {i}: shape {gradient.shape}, expected "
                              f"{case.inputs[i].shape}, or not finite")
                return
        length = np.sqrt(sum(float((gradients[i] ** 2).sum()) for i in case.checked()))
        size = sum(case.inputs[i].size for i in case.checked())
        worst, where = 0.0, ""
        for (title, move), slope in zip(case.moves, slopes):
            found = sum(float((gradients[i] * move[i]).sum()) for i in move)
            # A unit direction sees about |g| / sqrt(n) of a gradient of n elements.
            scale = max(abs(slope), length / np.sqrt(size), 1e-3)
            error = abs(found - slope) / scale
            if not error <= worst:
                worst, where = error, f"{title}: {found:.9g}, differences {slope:.9g}"
        session.check(f"{case.name}: gradient", bool(worst <= case.tolerance),
                      f"error {worst:.1e} in {len(case.moves)} derivatives"
                      + (f", {where}" if not worst <= case.tolerance else ""))


def float_results(values):
    return [value for value in values if np.issubdtype(value.dtype, np.floating)]


def body(session, arguments):
    import op_cases
    cases = op_cases.cases()
    if arguments.list:
        for case in cases:
            session.check(case.name, True)
        return
    if arguments.cases:
        wanted = arguments.cases.split(",")
        unknown = set(wanted) - {case.name for case in cases}
        if unknown:
            raise ValueError(f"no case {', '.join(sorted(unknown))}; --list shows all")
        cases = [case for case in cases if case.name in wanted]
    Checker(session, cases).check()


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 300, [
        ("--cases", {"default": "", "help": "names, separated by commas"}),
        ("--list", {"action": "store_true", "help": "print the names of the cases"})]))
