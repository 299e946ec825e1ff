#!/usr/bin/env bash
# Installs what is missing, checks format, types and documents, builds, and runs every test: the dev
# preset with all of them; the Python package and the page, which need dev's programs; then the tests
# that concern threads under ThreadSanitizer, then those that concern memory again under
# AddressSanitizer and UndefinedBehaviorSanitizer, for which dev's integration and golden tests run
# asan's programs, then each fuzzer for seconds, and last quickstart.sh with what is released. Ends
# with the twenty slowest tests and the time that each step took. The step `release` compiles that preset whole, `torch2`
# compiles the adapter with the LibTorch of PyPI, CUDA included, and tests it on the CPU.
# Properties run on 500 random chains, in sanitized builds on 100, and matrices on a sample of their
# budgets; `all` before the steps tries ten times the chains, every budget, and all tests in the
# sanitized builds, which takes an hour longer.
# Reports of each step, as JUnit, are in build/reports. Steps joined by + run beside each other.
# Safe to run again.
#   deploy/test.sh [all] [STEP…]    default: check dev web+python tsan asan fuzz quickstart
set -euo pipefail
cd "$(dirname "$0")/.."

# Not with sanitizers: the kernel on every target, which is minutes of arithmetic, and what a released
# program takes, which is not what it takes with them: files, memory, libraries.
not_sanitized='MinPlusTables|TenThousandConnections|RanOutOfFiles|PackagesAreThose|AddressSpace'
# Two thousand simulations of ten thousand operations.
not_sanitized+='|UnreadResponses'
# What runs no program of a sanitizer's build.
no_program_of_ours='^Train\.|^Layers|^Example'
# Nor, unless all is asked for: arithmetic on long chains, which shorter ones lead through the same
# lines; on one thread, with ThreadSanitizer; what concerns files of deploy/, peers' programs, or how
# callers of whole servers fare, rather than memory of ours.
not_with_asan='Coarsening\.|OnLongChains|OnFourHundredStages|Auto\.IsNotBehindItsSolversWhere'
not_with_asan+='|(AnswersLikewiseWithALink|HasAScheduleForItsLeast).*/(per_layer|flat|auto)'
not_with_asan+='|FindFrontier\.(NeverLosesTime|NeedsOneTable|WithALinkGives.*InGraphMode)|RoundTrip\.'
not_with_asan+='|SimilarRequestsTest\.NoRank'
not_with_tsan='EverySolver\.(AnswersLikewise|HasASchedule|GivesEqual)'
not_with_programs='Alerts|Dashboard|Systemd|Deployment|Balancer|Haproxy|OpenCallsOfAHost|RollingRestart'
not_with_programs+='|RetryPolicy|SolveLeases|Replicas|Failover|FindPlan|LegitimateClients|BusyService'
not_with_programs+='|Pings|MillionsOfEmptyStages|ARunningSolveFinishes'
not_with_programs+='|ReadinessEnds|InFlightTakeLittleMemory|ServiceManager'

is_thorough=
chains=500
if [ "${1:-}" = all ]; then
  shift
  is_thorough=1
  chains=5000
  not_with_asan='^$' not_with_tsan='^$' not_with_programs='^$'
  export STOWAGE_TEST_THOROUGH=1
fi
reports=$PWD/build/reports

dev_is_built=
# Builds dev once: steps beside each other would configure one folder at the same time.
build() {
  local begin=$SECONDS
  if [ "$1" = dev ]; then
    [ -z "$dev_is_built" ] || return 0
    dev_is_built=1
  fi
  # Compiles several files as one, unless a developer has configured it for work on single files.
  [ "$1" != dev ] || [ -e build/dev/CMakeCache.txt ] || set -- "$@" -DCMAKE_UNITY_BUILD=ON
  deploy/build.sh "$@"
  echo "$1 built in $((SECONDS - begin)) s" >>"$reports/times"
}

# usage: run WHAT COMMAND…
run() {
  local begin=$SECONDS what=$1
  shift
  "$@"
  echo "$what in $((SECONDS - begin)) s" >>"$reports/times"
}

# usage: tried REPORT CHAINS CTEST-ARGUMENT…
# A commit has its own chains: whoever tests it again tries the same ones.
tried() {
  local report=$1 tried_chains=$2 commit
  shift 2
  commit=$(git rev-parse --verify --quiet HEAD || echo 1)
  RC_PARAMS="max_success=$tried_chains max_discard_ratio=50 seed=$((16#${commit:0:15}))" \
    ctest --progress --output-junit "$reports/$report.xml" "$@"
}

# With sanitizers, properties are tried on fewer chains.
sanitized() { tried "$1" $((is_thorough ? chains / 10 : chains / 5)) "${@:2}"; }

run_step() {
  case "$1" in
    check) run "checked" deploy/dev/check --all ;;
    dev)
      build dev
      run "dev tested" tried dev "$chains" --preset dev
      ;;
    python)
      build dev
      run "python built and tested" deploy/python.sh --junitxml="$reports/python.xml"
      run "documents built" deploy/docs.sh
      ;;
    web)
      build dev
      run "page built and tested" deploy/web.sh \
        --test-reporter=spec --test-reporter-destination=stdout \
        --test-reporter=junit --test-reporter-destination="$reports/web.xml"
      ;;
    tsan)
      build tsan
      run "tsan tested" sanitized tsan --preset tsan --exclude-regex "$not_sanitized|$not_with_tsan"
      ;;
    asan)
      build asan
      run "asan tested" sanitized asan --preset asan --exclude-regex "$not_sanitized|$not_with_asan"
      build drivers
      STOWAGE_PROGRAMS=$PWD/build/asan/bin run "asan's programs tested" \
        sanitized asan-programs --preset dev --label-regex 'integration|golden' \
        --exclude-regex "$not_sanitized|$no_program_of_ours|$not_with_programs"
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
      echo "test: no step $1; steps: check dev python web tsan asan fuzz quickstart release torch2" >&2
      exit 2
      ;;
  esac
}

# usage: run_beside STEP…
# All but the last are in the background, and print when they have ended.
run_beside() {
  local step background=() job
  [ $# -eq 1 ] || build dev
  for step in "${@:1:$#-1}"; do
    run_step "$step" >"$reports/$step.log" 2>&1 &
    background+=("$step:$!")
  done
  run_step "${@: -1}"
  for job in "${background[@]}"; do
    step=${job%%:*}
    if wait "${job#*:}"; then cat "$reports/$step.log"; continue; fi
    cat "$reports/$step.log"
    echo "test: $step failed; see above" >&2
    exit 1
  done
}

# The twenty slowest of all test cases in the reports, and the steps' times.
summarize() {
  local report
  for report in "$reports"/*.xml; do
    [ -e "$report" ] || continue
    grep -o '<testcase [^>]*' "$report" |
      sed -E "s|.* name=\"([^\"]*)\".* time=\"([^\"]*)\".*|\2 s $(basename "$report" .xml): \1|"
  done | sort -rn | sed -n '1,20s/^/test: /p'
  sed 's/^/test: /' "$reports/times"
}

finish() {
  local job
  for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
  summarize
}

rm -rf "$reports"
mkdir -p "$reports"
trap finish EXIT
run "packages checked" deploy/setup.sh test
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(check dev web+python tsan asan fuzz quickstart)
for step in "${steps[@]}"; do
  IFS=+ read -ra beside <<<"$step"
  run_beside "${beside[@]}"
done
