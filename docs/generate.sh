#!/usr/bin/env bash
# Generates the references from the TableGen definitions.
#   docs/generate.sh TBLGEN MLIR_INCLUDE [OUT]   OUT defaults to docs/reference
# A test generates into a temporary folder and compares.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
tblgen=$1
include=$2
out=${3:-$root/docs/reference}
mkdir -p "$out"
run() { "$tblgen" -I "$root" -I "$include" "$@"; }
title() { printf '# %s\n\nGenerated from `%s` by docs/generate.sh.\n\n' "$1" "$2"; }
{
  title "The mixle dialect" dialects/Mixle/MixleOps.td
  run -gen-dialect-doc -dialect=mixle "$root/dialects/Mixle/MixleOps.td" | sed '1,/^# /d'
} >"$out/mixle.md"
{
  title "The dist dialect" dialects/Dist/DistOps.td
  run -gen-dialect-doc -dialect=dist "$root/dialects/Dist/DistOps.td" | sed '1,/^# /d'
} >"$out/dist.md"
{
  title "The exec dialect" dialects/Exec/ExecOps.td
  run -gen-dialect-doc -dialect=exec "$root/dialects/Exec/ExecOps.td" | sed '1,/^# /d'
} >"$out/exec.md"
for folder in Mixle Dist Exec; do
  {
    title "Passes of compiler/$folder" "compiler/$folder/Passes.td"
    run -gen-pass-doc "$root/compiler/$folder/Passes.td"
  } >"$out/passes-$(echo $folder | tr 'A-Z' 'a-z').md"
done
