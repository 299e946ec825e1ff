#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: the dev preset with all of them, then the
# ones that concern threads under ThreadSanitizer, then all again under AddressSanitizer and
# UndefinedBehaviorSanitizer. Safe to run again.
#   deploy/test.sh [PRESET…]    default: dev tsan asan
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/setup.sh test
presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(dev tsan asan)
for preset in "${presets[@]}"; do
  begin=$SECONDS
  deploy/build.sh "$preset"
  built=$SECONDS
  # Every solver on every profile takes minutes of pure arithmetic: once, without sanitizers; what
  # these could find there, the property tests find on small chains.
  only=()
  [ "$preset" = dev ] || only=(--label-exclude profile)
  ctest --preset "$preset" --progress "${only[@]}"
  echo "test: $preset built in $((built - begin)) s, tested in $((SECONDS - built)) s"
done
