#!/usr/bin/env bash
# Whether a module still shows a fault: the tester of sheaf-reduce.
#   scripts/interesting.sh TEXT COMMAND... FILE
# ends with 1 (interesting) where FILE is a valid module and TEXT is in what COMMAND says of
# it, with 0 where not. For a crash, TEXT is a function of the stack. sheaf-reduce gives
# the arguments before FILE, separated by commas:
#   sheaf-reduce --reduce-values="test=$PWD/scripts/interesting.sh \
#     test-arg=TEXT,sheaf-opt,--nn-fuse" model.mlir
if [ $# -lt 3 ]; then
  echo "interesting.sh: expected TEXT COMMAND... FILE" >&2
  exit 0
fi
text=$1 file=${*: -1}
shift
# What a deletion broke would show faults of its own.
sheaf-opt "$file" -o /dev/null 2>/dev/null || exit 0
# A run that does not end is a fault of another kind.
timeout 60 "$@" 2>&1 | grep -qF -- "$text" && exit 1
exit 0
