"""mutate.py SOURCE FOLDER: a copy in FOLDER of what records.py reads, in which one record of
each kind lacks each thing that it needs."""

import re
import shutil
import sys
from pathlib import Path

source, folder = (Path(argument) for argument in sys.argv[1:])
for part in ("dialects", "passes", "lowering", "examples", "test", "compiler"):
    shutil.copytree(source / part, folder / part)


def change(path, record, pattern, replacement):
    """In the text of one record, the first place of a pattern."""
    text = (folder / path).read_text()
    start = text.index(f"def {record} :")
    end = re.compile(r"^(def|class|#endif)\b", re.M).search(text, start + 1)
    end = end.start() if end else len(text)
    body, count = re.subn(pattern, lambda _: replacement, text[start:end], count=1, flags=re.S)
    assert count == 1, (path, record, pattern)
    (folder / path).write_text(text[:start] + body + text[end:])


SUMMARY, DESCRIPTION, EXAMPLE = r'(?<=summary = )"[^"]*"', r"(?<=description = )\[\{.*?\}\]", "```"
change("dialects/NN/NNDialect.td", "NN_Dialect", SUMMARY, '""')
change("dialects/NN/NNInterfaces.td", "NN_RuleOpInterface", DESCRIPTION, '""')
change("dialects/NN/NNAttrs.td", "NN_ParamAttr", SUMMARY, '""')
for _ in range(2):
    change("dialects/NN/NNAttrs.td", "NN_RopeScalingAttr", EXAMPLE, "")
change("dialects/NN/NNAttrs.td", "NN_Predicate", '"a comparison"', '""')
change("dialects/NN/NNOps.td", "NN_SliceOp", SUMMARY, '""')
change("dialects/NN/NNOps.td", "NN_TransposeOp", DESCRIPTION, '""')
change("dialects/NN/NNOps.td", "NN_GatherOp", "```mlir", "```")
change("dialects/NN/NNOps.td", "NN_ReluOp", "^",
       'def NN_OddOp : NN_UnaryOp<"odd", "odd", "x", NN_FloatTensor, [ByGradient]>;\n')
change("passes/nn/Passes.td", "NNPrintRules", SUMMARY, '""')
change("passes/memory/Passes.td", "ExecPlace", DESCRIPTION, '""')
change("passes/nn/Passes.td", "NNDecompose", '"The ops to decompose[^"]*"', '""')
for _ in range(4):
    change("passes/nn/Passes.td", "NNDecompose", EXAMPLE, "")
change("passes/nn/Passes.td", "NNDecompose", "^", """def NNOdd : Pass<"nn-odd"> {
  let summary = "odd";
  let description = "```x```";
  let options = [Option<"odd", "odd", "bool", "true", "odd">];
}
""")
(folder / "test/lowering/DistToNN/examples.test").unlink()
