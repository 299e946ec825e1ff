#!/usr/bin/env bash
# Installs what is missing, builds for release, and runs the papers' experiments on the profiles of
# tests/data: POFO's Figures 2 and 3, the offloading paper's ratio to its lower bound, and what
# overhead a half to a sixth of the memory costs. Writes CSV and summary.txt; what is in
# tests/experiments came from it. Writes a page for each experiment, with pictures and all figures,
# into build/experiments. Half an hour on one core once built; the numbers are the same on every
# machine, but for solve_seconds.
#   deploy/experiments.sh [DIR]    default: tests/experiments
set -euo pipefail
cd "$(dirname "$0")/.."
output=${1:-tests/experiments}

deploy/setup.sh build
deploy/build.sh release -DSTOWAGE_TESTS=OFF -DSTOWAGE_TORCH=OFF
pages=build/experiments
mkdir -p "$output" "$pages"
: >"$output/summary.txt"

# The networks of POFO's figures (batch 16, 500 x 500 pixels), all others, and those of a V100.
paper=(tests/data/torchvision-*-16-500.json)
mapfile -t others < <(ls tests/data/*.json | grep -v -- '-16-500\.json$')
mapfile -t v100 < <(grep -l '"device": ".*V100' tests/data/*.json)

# experiment FOLDER PAGE ARGUMENTS…
experiment() {
  local folder=$output/$1 page=$pages/$2.html
  shift 2
  echo "$folder:" | tee -a "$output/summary.txt"
  build/release/bin/stowage experiment "$@" --output "$folder" --html "$page" --quiet |
    tee -a "$output/summary.txt"
}

solvers=rotor,offload_dynprog,opportunist,autocapper,pofo,auto
for link in "half-duplex --half-duplex" "full-duplex"; do
  read -r folder flags <<<"$link"
  # shellcheck disable=SC2086  # no flag is no word
  experiment "reductions-$folder" "reductions-$folder" "${v100[@]}" $flags --reductions 2:6:1 \
    --solvers "$solvers"
done
experiment paper paper-figure2 "${paper[@]}" --half-duplex --figure 2 --alphas 0.1:1:0.1
experiment paper paper-figure3 "${paper[@]}" --half-duplex --figure 3
experiment paper paper-ratio "${paper[@]}" --half-duplex --figure ratio --alphas 0.1:1:0.1
experiment others others-figure2 "${others[@]}" --half-duplex --figure 2 --alphas 0.1:1:0.1
experiment others others-figure3 "${others[@]}" --half-duplex --figure 3 --bandwidths 12:36:4
