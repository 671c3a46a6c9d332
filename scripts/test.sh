#!/usr/bin/env bash
# Builds Sheaf and runs every test. The last line is "N passed, M failed".
#   scripts/test.sh          the tests of every change
#   scripts/test.sh --full   also: lit with round trips, a clang build, sanitizers, fuzzing,
#                            each three settings of a model and its compilation together
# Environment: BUILD_DIR (build).
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_DIR:-$root/build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
full=0
for argument in "$@"; do
  case $argument in
  --full) full=1 ;;
  *) echo "test.sh: unknown argument '$argument', expected --full" >&2; exit 1 ;;
  esac
done

"$root/scripts/build.sh" || { echo "0 passed, 1 failed"; exit 1; }
exec /usr/bin/python3 "$root/test/run.py" "$build" --full="$full"
