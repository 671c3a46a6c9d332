"""Runs the examples of op and pass descriptions.

    examples.py <llvm-tblgen> <include folders, comma separated> <file.td> <sheaf-opt> [<preamble>]

Every op and pass in the file must have a summary and a description with an example in
```mlir; each example that is no function itself is wrapped in one, its free values being
the arguments, behind the preamble, and must parse, verify and print to what reads back as the same."""

import json
import re
import subprocess
import sys

TYPE = r"tensor<[^<>]*(?:<[^<>]*>)?>"
BUFFER = r"memref<[^<>]*>"


def statements(block):
    """The statements of an example: a line that is indented, or closes one, goes on."""
    lines = [line for line in block.splitlines() if line.strip()]
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    result = []
    for line in lines:
        line = line[indent:]
        if result and (line[0] in " }^" or result[-1].count("{") > result[-1].count("}")):
            result[-1] += "\n" + line
        else:
            result.append(line)
    return result


def signature(statement):
    """Operands with their types, and the names that a statement defines."""
    head, body = re.match(r"(?s)((?:%[\w, %:]+=)?)(.*)", statement).groups()
    defined = re.findall(r"%\w+", head)
    if BUFFER[:7] in body:
        # `%a : type`, `(%a, %b : type, type)` and `%a[%index] : type`.
        operands = [("%" + name, "index") for name in re.findall(r"\[%(\w+)\]", body)]
        for group, types in re.findall(rf"((?:%\w+(?:, )?)+)(?:\[%\w+\])? : "
                                       rf"({BUFFER}(?:, {BUFFER})*)", body):
            operands += zip(re.findall(r"%\w+", group), re.findall(BUFFER, types), strict=True)
        return operands, defined
    if "^bb" in body:
        return re.findall(rf"(%\w+) : ({TYPE})", body.split("^bb")[0]), defined
    names = re.findall(r"%\w+", body)
    types = body[body.rindex(" : ", 0, body.index("tensor<")) + 3:] if names else ""
    if types.strip().startswith("("):
        listed = re.findall(TYPE, types[:types.index(")")])
    else:
        listed = re.findall(TYPE, types.split("->")[0])
        if len(listed) == 1:
            listed *= len(names)
    if len(listed) != len(names):
        raise ValueError(f"{len(names)} operands, {len(listed)} types in: {statement}")
    return list(zip(names, listed)), defined


def function(block, number):
    """An example as a function of its free values."""
    arguments, defined = {}, set()
    body = statements(block)
    for statement in body:
        operands, names = signature(statement)
        for name, kind in operands:
            if name not in defined:
                if arguments.setdefault(name, kind) != kind:
                    raise ValueError(f"{name} has types {arguments[name]} and {kind}")
        defined.update(names)
    text = "\n".join(body)
    if text.startswith("nn.yield"):
        # A terminator needs its loop.
        (name, kind), = arguments.items()
        text = (f"%loop = nn.microbatches 1 inits({name} : {kind}) -> {kind} {{\n"
                f"^bb0(%k: tensor<i32>, %acc: {kind}):\n{text}\n}}")
    elif text.startswith("dist.yield"):
        (name, kind), = arguments.items()
        whole = f"#dist.sharding<[{', '.join('{}' for _ in kind.split('x')[1:])}]>"
        text = (f"%r = dist.manual {name} in [{whole}] out [{whole}] {{\n"
                f"^bb0(%part: {kind}):\n{text.replace(name, '%part')}\n}} : ({kind}) -> {kind}")
    listed = ", ".join(f"{name}: {kind}" for name, kind in arguments.items())
    return f"func.func @example{number}({listed}) {{\n{text}\nreturn\n}}\n"


def main():
    tblgen, folders, path, tool, *preamble = sys.argv[1:]
    includes = [flag for folder in folders.split(",") for flag in ("-I", folder)]
    records = json.loads(subprocess.run([tblgen, "--dump-json", *includes, path], check=True,
                                        capture_output=True, text=True).stdout)
    kinds = records["!instanceof"]
    names = [name for kind in ("Op", "PassBase") for name in kinds.get(kind, [])]
    failures, count = [], 0
    for name in names:
        record = records[name]
        title = record.get("opName") or record.get("argument")
        description = record.get("description") or ""
        blocks = re.findall(r"(?s)```mlir\n(.*?)```", description)
        if not (record.get("summary") or "").strip():
            failures.append(f"{title}: no summary")
        if not description.strip():
            failures.append(f"{title}: no description")
        elif not blocks:
            failures.append(f"{title}: no example in ```mlir")
        if not any(title in block for block in blocks) and "opName" in record:
            failures.append(f"{title}: no example shows the op")
        for block in blocks:
            try:
                if "func.func" in block or block.strip().startswith(("dist.mesh", "pipe.")):
                    text = block
                else:
                    text = "\n".join(preamble) + "\n" + function(block, count)
            except ValueError as error:
                failures.append(f"{title}: {error}")
                continue
            run = subprocess.run([*tool.split(), "--verify-roundtrip", "-o", "/dev/null", "-"],
                                 input=text, text=True, capture_output=True, check=False)
            count += 1
            if run.returncode:
                failures.append(f"{title}:\n{text}{run.stderr}")
    for failure in failures:
        print("FAILED", failure)
    print(f"{len(names)} records, {count} examples, {len(failures)} failures")
    return 1 if failures or not names or not count else 0


if __name__ == "__main__":
    sys.exit(main())
