#!/usr/bin/env bash
# Checks the form of what changed since the main branch, committed or not.
#   scripts/lint.sh                 clang-format on changed lines, Python, shell, text
#   scripts/lint.sh --fix           ... and puts the lines in form
#   scripts/lint.sh --all           every file, not changed lines alone
#   scripts/lint.sh --tidy          clang-tidy, too, with the compile commands of a build
# Environment: BASE (main), BUILD_DIR (build). Ends with 1 where something is left to do.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
fix=0 all=0 tidy=0
for argument in "$@"; do
  case $argument in
  --fix) fix=1 ;;
  --all) all=1 ;;
  --tidy) tidy=1 ;;
  *) echo "lint.sh: unknown argument '$argument', expected --fix, --all or --tidy" >&2; exit 1 ;;
  esac
done

bin=/usr/lib/llvm-22/bin
format=$bin/clang-format
if [ ! -x "$format" ]; then
  echo "lint.sh: no $format; install clang-format-22 (other versions format otherwise)" >&2
  exit 1
fi
git rev-parse --is-inside-work-tree > /dev/null || {
  echo "lint.sh: $root is no git checkout; git says which files are ours" >&2
  exit 1
}
base=$(git merge-base HEAD "${BASE:-main}" 2>/dev/null || git rev-parse HEAD)
if [ $all = 1 ]; then
  mapfile -t files < <(git ls-files -co --exclude-standard)
else
  mapfile -t files < <({ git diff --name-only --diff-filter=d "$base"
    git ls-files -o --exclude-standard; } | sort -u)
fi
pick() { printf '%s\n' "${files[@]}" | grep -E "$1"; }
bad=0
complain() { echo "lint.sh: $*"; bad=1; }

mapfile -t cpp < <(pick '\.(cpp|h)$')
if [ ${#cpp[@]} -gt 0 ]; then
  if [ $all = 1 ]; then
    if [ $fix = 1 ]; then "$format" -i "${cpp[@]}"; fi
    "$format" --dry-run --Werror "${cpp[@]}" || complain "not in clang-format's form; --fix mends it"
  else
    for file in $(git ls-files -o --exclude-standard -- "${cpp[@]}"); do
      if [ $fix = 1 ]; then "$format" -i "$file"
      else "$format" --dry-run --Werror "$file" || complain "$file is not in clang-format's form; --fix mends it"; fi
    done
    diff=$(python3 "$bin/git-clang-format" --binary "$format" --diff "$base" -- "${cpp[@]}" 2>&1)
    if ! grep -qE '^(no modified files|clang-format did not modify)' <<< "${diff:-no modified files}"; then
      if [ $fix = 1 ]; then
        patch -p1 -s <<< "$diff" || complain "clang-format's change does not apply"
      else
        echo "$diff"
        complain "changed lines are not in clang-format's form; --fix mends them"
      fi
    fi
  fi
fi

for file in $(pick '\.py$'); do
  python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$file" ||
    complain "$file is no Python"
done
if command -v pyflakes3 >/dev/null; then
  mapfile -t python < <(pick '\.py$' | grep -v 'lit\.cfg\.py')
  [ ${#python[@]} -eq 0 ] || pyflakes3 "${python[@]}" || complain "pyflakes has complaints"
fi
mapfile -t shell < <(pick '\.sh$')
for file in "${shell[@]}"; do
  bash -n "$file" || complain "$file is no shell script"
done
if command -v shellcheck >/dev/null && [ ${#shell[@]} -gt 0 ]; then
  shellcheck -S warning "${shell[@]}" || complain "shellcheck has complaints"
fi

for file in $(pick '\.(cpp|h|td|py|sh|md|txt|cmake|mlir|test|json)$'); do
  if grep -qnE '[[:space:]]+$' "$file"; then
    if [ $fix = 1 ]; then sed -i 's/[[:space:]]*$//' "$file"
    else complain "$file has blanks at the end of a line; --fix takes them away"; fi
  fi
  if [ -s "$file" ] && [ -n "$(tail -c1 "$file")" ]; then
    if [ $fix = 1 ]; then echo >> "$file"
    else complain "$file does not end with a line; --fix ends it"; fi
  fi
done

if [ $tidy = 1 ]; then
  tool=$(command -v clang-tidy-22 || command -v clang-tidy) || {
    echo "lint.sh: no clang-tidy; install clang-tidy-22" >&2
    exit 1
  }
  # Another compiler's precompiled header is none to clang: the text of it is.
  commands=$(mktemp -d)
  trap 'rm -rf "$commands"' EXIT
  sed -E "s#-include [^ ]*cmake_pch.hxx#-include $root/cmake/precompiled.h#; s#-fpch-preprocess##" \
    "${BUILD_DIR:-build}/compile_commands.json" > "$commands/compile_commands.json" || exit 1
  for file in $(pick '\.cpp$'); do
    "$tool" -quiet -p "$commands" --extra-arg=-Wno-everything "$file" 2>/dev/null ||
      complain "clang-tidy has complaints about $file"
  done
fi
exit $bad
