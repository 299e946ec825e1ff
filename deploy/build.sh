#!/usr/bin/env bash
# Configures and builds one preset, quietly: progress on a terminal, the whole output on failure.
#   deploy/build.sh PRESET [cmake options]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fail() {
  grep -E 'error|FAILED|undefined|Error' "$log" | head -n 40 >&2 || true
  tail -n 20 "$log" >&2
  echo "build: $preset failed; see above" >&2
  exit 1
}

echo "build: $preset"
cmake --preset "$preset" "$@" >"$log" 2>&1 || fail
if [ -t 1 ]; then
  NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" 2>&1 | tee "$log" |
    while IFS= read -r line; do printf '\r\033[K%.100s' "$line"; done || fail
  printf '\r\033[K'
else
  cmake --build --preset "$preset" >"$log" 2>&1 || fail
fi
