#!/usr/bin/env bash
# Installs what is missing, builds for release, and prints ten tables: what rotor's dynamic program
# costs beside the textbook's; what pofo and auto cost and gain with a link; what auto costs, and when
# it has what; how far it is from the optimum of small chains; what Mixed Mode costs, gains and takes
# for granted; what flat plans cost beside rotor; how far the executor's steps are from the
# simulator's; what the service costs beside a bare gRPC echo; what an Admit costs beside a cache hit
# of Solve; and what a client feels of a hostile one. An hour once built: ten minutes of it the service
# under mixed load, two Admit, ten the hostile client, twenty auto.
#   deploy/benchmark.sh [FLAG…]    flags of stowage_rotor_benchmark, as in --slots=1000 --textbook=339
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/setup.sh test
deploy/build.sh benchmark
build/benchmark/bin/stowage_rotor_benchmark "$@"
echo
build/benchmark/bin/stowage_pofo_benchmark
echo
build/benchmark/bin/stowage_auto_benchmark
echo
build/benchmark/bin/stowage_exact_comparison
echo
build/benchmark/bin/stowage_mixed_mode_benchmark
echo
build/benchmark/bin/stowage_flat_benchmark
echo
build/benchmark/bin/stowage_agent_benchmark
echo
build/benchmark/bin/stowage_service_benchmark
echo
build/benchmark/bin/stowage_admit_benchmark
echo
build/benchmark/bin/stowage_tenants_benchmark
