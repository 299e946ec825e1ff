#!/usr/bin/env bash
# Repeats the papers' experiments and the tables of other documents: installs what is missing, builds
# the Python package, and runs the scripts of client/python/experiments, which print tables and draw
# pictures into build/experiments. All but more_memory, the last, take less than nine minutes on two
# cores; the figures are the same on every machine.
#   deploy/experiments.sh                     all scripts
#   deploy/experiments.sh NAME [FLAG…]        one of them, as in pofo_by_memory --alphas 0.2,0.5
set -euo pipefail
cd "$(dirname "$0")/.."

scripts=client/python/experiments
all=(pofo_by_memory pofo_by_bandwidth memory_reductions offloading_bound equal_segments
  framework_settings partial_saving more_memory)
if [ $# -gt 0 ] && [ ! -f "$scripts/$1.py" ]; then
  echo "experiments: there is no $1; there are ${all[*]}" >&2
  exit 1
fi

deploy/setup.sh build
python=$(deploy/venv.sh)/bin/python
STOWAGE_BUILD_PYTHON=$python deploy/wheel.sh --develop
export PYTHONPATH=$PWD/client/python
if [ $# -gt 0 ]; then
  exec "$python" "$scripts/$1.py" "${@:2}"
fi
mkdir -p build/experiments
for name in "${all[@]}"; do
  echo "$name:"
  "$python" "$scripts/$name.py" | tee "build/experiments/$name.txt"
done
