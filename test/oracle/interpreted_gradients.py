"""Checks gradients without compiling them to machine code.

    python3 test/oracle/interpreted_gradients.py build/bin [--cases=softmax,...]

The cases of op_cases.py are differentiated by `sheaf-opt --nn-differentiate`, and what
that prints is run by interpreter.py, in f64: the functions against their NumPy
references, the gradients against central differences of the functions. The same again
with composite ops decomposed, and with each recompute policy.
"""

import argparse
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import gradcheck  # noqa: E402
import op_cases  # noqa: E402
from interpreter import Module  # noqa: E402


def load(opt, text, passes):
    result = subprocess.run([opt, "-", *passes, "--mlir-print-op-generic"], input=text,
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ValueError(result.stderr.strip()[-1500:])
    return Module(result.stdout)


def check(case, module, number):
    """The error text, empty if all is well."""
    results = module.call(case.name, case.inputs)
    if case.reference is not None:
        for index, (got, want) in enumerate(zip(results, case.reference(*case.inputs),
                                                strict=True)):
            want = np.asarray(want)
            if got.shape != want.shape:
                return f"result {index} has shape {got.shape}, expected {want.shape}"
            good = np.allclose(got, want, rtol=0, equal_nan=True,
                               atol=case.value_tolerance * max(1.0, np.abs(
                                   want[np.isfinite(want)].astype(float)).max(initial=0)))
            if not good:
                return f"result {index} is {got}, expected {want}"
    if not case.gradient:
        return ""
    random = np.random.default_rng(1000 + number)
    floats = [value for value in results if value.dtype == np.float64]
    cotangents = [random.standard_normal(value.shape) for value in floats]
    gradients = module.call(case.name + "_gradient", case.inputs + cotangents)
    gradients = dict(zip(case.floats(), gradients, strict=True))
    length = np.sqrt(sum(float((gradients[i] ** 2).sum()) for i in case.checked()))
    size = sum(case.inputs[i].size for i in case.checked())
    for title, move in gradcheck.plan_moves(case, random):
        sides = []
        for sign in (1, -1):
            moved = [value + sign * case.step * move[i] if i in move else value
                     for i, value in enumerate(case.inputs)]
            sides.append([value for value in module.call(case.name, moved)
                          if value.dtype == np.float64])
        slope = sum(float((c * (up - down)).sum()) / (2 * case.step)
                    for c, up, down in zip(cotangents, *sides))
        found = sum(float((gradients[i] * move[i]).sum()) for i in move)
        error = abs(found - slope) / max(abs(slope), length / np.sqrt(size), 1e-3)
        if not error <= case.tolerance:
            return f"{title}: gradient {found:.9g}, differences {slope:.9g}, error {error:.1e}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", help="the folder of sheaf-opt")
    parser.add_argument("--cases", default="", help="names, separated by commas")
    arguments = parser.parse_args()
    opt = os.path.join(arguments.bin, "sheaf-opt")
    cases = [case for case in op_cases.cases() if not case.name.endswith("_f32")]
    if arguments.cases:
        wanted = set(arguments.cases.split(","))
        cases = [case for case in cases if case.name in wanted]
        unknown = wanted - {case.name for case in cases}
        if unknown:
            parser.error(f"no case {', '.join(sorted(unknown))}")
    text = "\n".join(case.text for case in cases)
    names = ",".join(case.name for case in cases if case.gradient)
    differentiate = f"--nn-differentiate=functions={names}"
    passed = failed = 0
    for title, passes in (
            ("", [differentiate]),
            (" decomposed", [differentiate, "--nn-decompose"]),
            (" selective", [differentiate, "--nn-recompute=policy=selective"]),
            (" full", [differentiate, "--nn-recompute=policy=full"])):
        passes = [option for option in passes if names or option != differentiate]
        try:
            whole = load(opt, text, passes)
        except ValueError as error:
            whole = None
            print(f"all cases together{title}: {error}")
        for number, case in enumerate(cases):
            try:
                module = whole or load(opt, case.text, [
                    f"--nn-differentiate=functions={case.name}" if option == differentiate
                    else option for option in passes
                    if case.gradient or option != differentiate])
                error = check(case, module, number)
            except Exception as problem:  # pylint: disable=broad-except
                error = f"{type(problem).__name__}: {problem}"
            passed, failed = passed + (not error), failed + bool(error)
            if error:
                print(f"FAIL {case.name}{title}: {error}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
