#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: the dev preset with all of them; the Python
# package and the page, which need dev's programs; then the tests that concern threads under
# ThreadSanitizer, then all but LibTorch's and the real chains' again under AddressSanitizer and
# UndefinedBehaviorSanitizer, for which dev's integration and golden tests run asan's programs, then
# each fuzzer for seconds, and last quickstart.sh with what is released. Ends with the time that each
# step took. The step `release` compiles that preset whole, `torch2` compiles the adapter with the
# LibTorch of PyPI, CUDA included, and tests it on the CPU.
# Safe to run again.
#   deploy/test.sh [STEP…]    default: dev python web tsan asan fuzz quickstart
set -euo pipefail
cd "$(dirname "$0")/.."

# Not with sanitizers: the kernel on every target, which is minutes of arithmetic, and what a released
# program takes, which is not what it takes with them: files, memory, libraries.
not_sanitized='MinPlusTables|TenThousandConnections|RanOutOfFiles|PackagesAreThose|AddressSpace'

build() {
  local begin=$SECONDS
  deploy/build.sh "$@"
  times+=("$1 built in $((SECONDS - begin)) s")
}

# usage: run WHAT COMMAND…
run() {
  local begin=$SECONDS what=$1
  shift
  "$@"
  times+=("$what in $((SECONDS - begin)) s")
}

# usage: tried CHAINS CTEST-ARGUMENT…
# A commit has its own chains: whoever tests it again tries the same ones.
tried() {
  local chains=$1 commit
  shift
  commit=$(git rev-parse --verify --quiet HEAD || echo 1)
  RC_PARAMS="max_success=$chains max_discard_ratio=50 seed=$((16#${commit:0:15}))" \
    ctest --progress "$@"
}

# With sanitizers, properties are tried on a tenth of the chains.
sanitized() { tried 500 "$@"; }

run_step() {
  case "$1" in
    dev)
      build dev
      run "dev tested" tried 5000 --preset dev
      ;;
    python)
      build dev
      run "python built and tested" deploy/python.sh
      ;;
    web)
      build dev
      run "page built and tested" deploy/web.sh
      ;;
    tsan)
      build tsan
      run "tsan tested" sanitized --preset tsan --exclude-regex "$not_sanitized"
      ;;
    asan)
      build asan
      run "asan tested" sanitized --preset asan --exclude-regex "$not_sanitized"
      build drivers
      STOWAGE_PROGRAMS=$PWD/build/asan/bin run "asan's programs tested" \
        sanitized --preset dev --label-regex 'integration|golden' \
        --exclude-regex "$not_sanitized|^Train\\.|^Layers"
      ;;
    fuzz) run "fuzz built and run" deploy/fuzz.sh 8 ;;
    quickstart) run "quickstart built and run" deploy/quickstart.sh ;;
    release) build release ;;
    torch2)
      build torch2 "-DSTOWAGE_TORCH_WHEEL=$(echo "$(deploy/venv.sh)"/lib/python3*/site-packages)"
      run "torch2 tested" build/torch2/bin/stowage_torch_tests --gtest_brief=1
      run "torch2's stowage-train tested" build/torch2/bin/stowage_train_tests --gtest_brief=1
      run "torch2's package tested" \
        ctest --test-dir build/torch2 --label-regex '^install$' --output-on-failure
      ;;
    *)
      echo "test: no step $1; steps: dev python web tsan asan fuzz quickstart release torch2" >&2
      exit 2
      ;;
  esac
}

times=()
trap 'printf "test: %s\n" "${times[@]}"' EXIT
run "packages checked" deploy/setup.sh test
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(dev python web tsan asan fuzz quickstart)
for step in "${steps[@]}"; do run_step "$step"; done
