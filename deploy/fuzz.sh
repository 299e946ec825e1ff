#!/usr/bin/env bash
# Installs Clang, builds the fuzzers and runs each for so many seconds, starting from the seeds, the
# profiles, the golden files and all that was found before. What breaks a promise ends it and is left
# in build/fuzz/found: fix it, keep the input in tests/fuzz/regressions/TARGET, where every build's
# tests replay it.
#   deploy/fuzz.sh [SECONDS [TARGET…]]    default: 60, all of json keys replies request schedule stored
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(json keys replies request schedule stored)
deploy/setup.sh test
deploy/build.sh fuzz

mkdir -p build/fuzz/found
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target
  mkdir -p "$corpus"
  more=("tests/fuzz/regressions/$target")
  [ "$target" != json ] || more+=(tests/data tests/golden)
  log=build/fuzz/$target.log
  # Of every input: ten seconds, two gigabytes of memory at most, half of one in a piece.
  if ! STOWAGE_SEEDS=$corpus "build/asan/bin/stowage_${target}_fuzzer" -max_total_time="$seconds" \
       -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 -max_len=16384 -use_value_profile=1 \
       -print_final_stats=1 -artifact_prefix="build/fuzz/found/$target-" \
       "$corpus" "${more[@]}" >"$log" 2>&1; then
    grep -E 'broken:|ERROR|SUMMARY|runtime error|#[0-9]+ .*/(solver|proto|server|client|tests)/' "$log" | head -n 30 >&2
    echo "fuzz: $target failed: the input is in build/fuzz/found, the whole log in $log" >&2
    exit 1
  fi
  echo "fuzz: $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s"
done
