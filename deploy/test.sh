#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: the dev preset with all of them, then the
# ones that concern threads under ThreadSanitizer, then all but LibTorch's and the real chains' again
# under AddressSanitizer and UndefinedBehaviorSanitizer, for which dev's integration and golden tests
# run asan's programs, then each fuzzer for seconds. Safe to run again.
#   deploy/test.sh [PRESET…]    default: dev tsan asan fuzz
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/setup.sh test
presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(dev tsan asan fuzz)
for preset in "${presets[@]}"; do
  begin=$SECONDS
  if [ "$preset" = fuzz ]; then
    deploy/fuzz.sh 8
    echo "test: fuzz built and run in $((SECONDS - begin)) s"
    continue
  fi
  deploy/build.sh "$preset"
  built=$SECONDS
  # Not with sanitizers: the kernel on every target, which is minutes of arithmetic, and what a
  # released program takes, which is not what it takes with them: files, memory, libraries. With them
  # properties are tried on a tenth of the chains.
  only=()
  if [ "$preset" = tsan ] || [ "$preset" = asan ]; then
    only=(--exclude-regex 'MinPlusTables|TenThousandConnections|RanOutOfFiles|PackagesAreThose|AddressSpace')
    export RC_PARAMS="max_success=500 max_discard_ratio=50"
  fi
  ctest --preset "$preset" --progress "${only[@]}"
  if [ "$preset" = asan ]; then
    deploy/build.sh drivers
    STOWAGE_PROGRAMS=$PWD/build/asan/bin ctest --preset dev --progress \
      --label-regex 'integration|golden' "${only[@]}|^Train\\.|^Layers"
  fi
  echo "test: $preset built in $((built - begin)) s, tested in $((SECONDS - built)) s"
done
