#!/usr/bin/env bash
# Installs what is missing, configures and builds.
#   scripts/build.sh [TARGET ...]      everything, or the named targets
# Environment: BUILD_DIR (build), JOBS (all cores), CMAKE_ARGS (none).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_DIR:-$root/build}
case $build in /*) ;; *) build=$PWD/$build ;; esac

packages=(
  g++ cmake ninja-build ccache
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools liblld-22-dev zlib1g-dev libzstd-dev
  libopenblas-pthread-dev libfmt-dev nlohmann-json3-dev libgtest-dev libopenmpi-dev openmpi-bin
  python3 python3-numpy)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
    missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing ${missing[*]}"
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
      echo "build.sh: not root and no sudo; install these packages first: ${missing[*]}" >&2
      exit 1
    }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -q
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -q -y \
    --no-install-recommends "${missing[@]}"
fi

python=$(command -v /usr/bin/python3)
cmake -G Ninja -S "$root" -B "$build" -DSHEAF_PYTHON="$python" ${CMAKE_ARGS:-}
targets=()
[ $# -eq 0 ] || targets=(--target "$@")
cmake --build "$build" --parallel "${JOBS:-$(nproc)}" "${targets[@]}"
