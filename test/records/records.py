"""records.py TBLGEN SOURCE INCLUDE: what TableGen's records lack, over the whole tree.

Every dialect, op, attribute, enum, interface, pass and option has a summary or description; every
op, attribute and pass an example in its description; every op and pass a test in which it
stands, and every option one in which it is set."""

import json
import re
import subprocess
import sys
from pathlib import Path

tblgen, source, include = sys.argv[1:]
source = Path(source)
tests = "\n".join(path.read_text(errors="replace") for pattern in ("*.mlir", "*.test", "*.py")
                  for path in sorted((source / "test").rglob(pattern))
                  # This test names what is in no other.
                  if path.relative_to(source / "test").parts[0] not in ("unit", "records"))
examples = "\n".join(path.read_text() for path in (source / "test").rglob("*examples.test"))
units = "\n".join(path.read_text() for path in sorted((source / "test/unit").rglob("*.cpp")))
lists = [{word.split("=")[0] for word in string.split()}
         for string in set(re.findall(r'"([^"\n]*=[^"\n]*)"', tests))]
# What the driver runs is tested with it.
tests = re.sub(r"\\\n\S*\s*(?:RUN:)?", " ", tests)
driver = (source / "compiler/Compile.cpp").read_text()
lacks, counts = [], {}


def text(record, field):
    value = record.get(field)
    return value.strip() if isinstance(value, str) else ""


def need(condition, name, what):
    if not condition:
        lacks.append(f"{name}: {what}")


files = sorted(path for pattern in ("dialects/*/*Ops.td", "passes/*/Passes.td",
                                    "lowering/**/Passes.td", "examples/**/*.td")
               for path in source.glob(pattern))
for path in files:
    run = subprocess.run([tblgen, "--dump-json", "-I", include, "-I", source, "-I", path.parent,
                          path], capture_output=True, text=True, check=True)
    records = json.loads(run.stdout)
    kinds = records["!instanceof"]
    need(str(path.relative_to(source)) in examples, path.relative_to(source),
         "no examples.test runs its examples")
    # Records of MLIR's own files are its business.
    own = {name: record for name, record in records.items()
           if isinstance(record, dict) and "!name" in record}

    def is_ours(record):
        """Whether it is no record of MLIR's, by the namespace of it or of its dialect."""
        for field in ("opDialect", "dialect"):
            if isinstance(record.get(field), dict):
                record = own[record[field]["def"]]
        return not text(record, "cppNamespace").startswith("::mlir")

    def each(kind):
        for name in kinds.get(kind, []):
            # Without a name: a use of one that has one.
            if kind == "PassBase" or is_ours(own[name]) and not name.startswith("anonymous"):
                counts[kind] = counts.get(kind, 0) + 1
                yield own[name]

    for record in each("Dialect"):
        name = text(record, "name")
        need(text(record, "summary"), f"dialect {name}", "no summary")
        need(text(record, "description"), f"dialect {name}", "no description")
    for record in each("Op"):
        dialect = own[record["opDialect"]["def"]]["name"]
        name = f"{dialect}.{record['opName']}"
        need(text(record, "summary"), name, "no summary")
        need(text(record, "description"), name, "no description")
        need("```mlir" in text(record, "description"), name, "no example")
        need(re.search(rf"\b{re.escape(name)}\b", tests) or "examples/" in str(path), name,
             "in no test")
    for kind in ("AttrDef", "TypeDef"):
        for record in each(kind):
            # An enum's words are described one by one.
            if record["!superclasses"].count("EnumAttr"):
                continue
            name = f"attribute {record['!name']}"
            need(text(record, "summary"), name, "no summary")
            need("```" in text(record, "description"), name, "no example")
    for record in each("EnumInfo"):
        # Where none is given, MLIR writes "allowed 32-bit signless integer cases: 0, 1".
        need(not text(record, "summary").startswith("allowed "), f"enum {record['!name']}",
             "no summary")
    for kind in ("OpInterface",):
        for record in each(kind):
            need(text(record, "description"), f"interface {record['!name']}", "no description")
    for record in each("PassBase"):
        name = text(record, "argument")
        need(text(record, "summary"), name, "no summary")
        need(text(record, "description"), name, "no description")
        need("```" in text(record, "description"), name, "no example")
        uses = [line for line in tests.split("\n") if re.search(rf"(?:^|[^\w-]|--){name}(?![\w-])", line)]
        need(uses or "examples/" in str(path), name, "in no test")
        options = {text(own[option["def"]], "argument") for option in record["options"]}
        for option in record["options"]:
            option = own[option["def"]]
            counts["option"] = counts.get("option", 0) + 1
            argument = text(option, "argument")
            need(text(option, "description"), f"{name}={argument}", "no description")
            set_at = rf"(?<![\w-]){re.escape(argument)}="
            need(any(re.search(set_at, line) for line in uses) or
                 re.search(rf"{name}\{{[^}}]*{set_at}", tests + driver) or
                 # In a list of options that a script hands on; a unit test's argument.
                 any(argument in names and len(names & options) > 1 for names in lists) or
                 re.search(rf"/\*{text(option, 'cppName')}=\*/|\.{text(option, 'cppName')} = ",
                           units),
                 f"{name}={argument}", "set in no test")
# Some files read others.
lacks = list(dict.fromkeys(lacks))
for lack in lacks:
    print("LACK", lack)
print(f"{len(files)} files,", ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())),
      f"- {len(lacks)} lacks")
sys.exit(1 if lacks or not counts else 0)
