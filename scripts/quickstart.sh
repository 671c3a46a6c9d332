#!/usr/bin/env bash
# Builds Sheaf, writes a small GPT, compiles it, trains it on text that Debian
# ships, and shows the loss curve and some sampled text. Environment: BUILD_DIR
# (build), STEPS (300), OUT (quickstart-out).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_DIR:-$root/build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
out=${OUT:-$root/quickstart-out}
bin=$build/bin

echo "the first build takes some minutes of both cores; training afterwards less than one"
"$root/scripts/build.sh" sheaf-model sheaf-compile sheaf-run
mkdir -p "$out"

# The license texts of base-files are on every Debian machine.
text=$out/text.txt
cat /usr/share/common-licenses/{Apache-2.0,Artistic,GFDL-1.3,GPL-1,GPL-2,GPL-3,LGPL-2.1,MPL-2.0} \
  > "$text"
echo "training text: $(wc -c < "$text") bytes of license texts"

set -x
"$bin/sheaf-model" gpt --layers=4 --hidden=128 --heads=4 --vocab=256 --seq=128 --batch=8 \
  -o "$out/gpt.mlir"
"$bin/sheaf-compile" "$out/gpt.mlir" --lr=3e-3 --warmup=60 --decay-steps="${STEPS:-300}" \
  --min-lr=3e-4 -o "$out/gpt.sheaf"
"$bin/sheaf-run" "$out/gpt.sheaf" --data="$text" --token-type=u8 --order=random \
  --steps="${STEPS:-300}" --log="$out/log.jsonl" --plot="$out/loss.svg" \
  --save="$out/gpt.safetensors" --sample=300
{ set +x; } 2>/dev/null
echo
echo "log: $out/log.jsonl   loss curve: $out/loss.svg   weights: $out/gpt.safetensors"
