#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: the dev preset with all of them, then the
# ones that concern threads under ThreadSanitizer, then all but LibTorch's and the real chains' again
# under AddressSanitizer and UndefinedBehaviorSanitizer, for which dev's integration and golden tests
# run asan's programs, then each fuzzer for seconds, and last quickstart.sh with what is released. The
# Python package is built and tested after dev, whose server its tests start.
# Safe to run again.
#   deploy/test.sh [STEP…]    default: dev python tsan asan fuzz quickstart
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/setup.sh test
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(dev python tsan asan fuzz quickstart)
for step in "${steps[@]}"; do
  begin=$SECONDS
  if [ "$step" = fuzz ]; then
    deploy/fuzz.sh 8
    echo "test: fuzz built and run in $((SECONDS - begin)) s"
    continue
  fi
  if [ "$step" = quickstart ]; then
    deploy/quickstart.sh
    echo "test: quickstart built and run in $((SECONDS - begin)) s"
    continue
  fi
  if [ "$step" = python ]; then
    deploy/build.sh dev
    deploy/python.sh
    echo "test: python built and tested in $((SECONDS - begin)) s"
    continue
  fi
  deploy/build.sh "$step"
  built=$SECONDS
  # Not with sanitizers: the kernel on every target, which is minutes of arithmetic, and what a
  # released program takes, which is not what it takes with them: files, memory, libraries. With them
  # properties are tried on a tenth of the chains.
  only=()
  if [ "$step" = tsan ] || [ "$step" = asan ]; then
    only=(--exclude-regex 'MinPlusTables|TenThousandConnections|RanOutOfFiles|PackagesAreThose|AddressSpace')
    export RC_PARAMS="max_success=500 max_discard_ratio=50"
  fi
  ctest --preset "$step" --progress "${only[@]}"
  if [ "$step" = asan ]; then
    deploy/build.sh drivers
    STOWAGE_PROGRAMS=$PWD/build/asan/bin ctest --preset dev --progress \
      --label-regex 'integration|golden' "${only[@]}|^Train\\.|^Layers"
  fi
  echo "test: $step built in $((built - begin)) s, tested in $((SECONDS - built)) s"
done
