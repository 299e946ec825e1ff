#!/usr/bin/env bash
# Builds the Python package and tests it, with pytest in two processes, in the venv of deploy/venv.sh.
# Needs build/dev/bin/stowage and stowage-server, or those in the folder that STOWAGE_PROGRAMS names.
# Arguments go to pytest.
#   deploy/python.sh
#   deploy/python.sh -k plan -x
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$(deploy/venv.sh)
export STOWAGE_PROGRAMS=${STOWAGE_PROGRAMS:-$PWD/build/dev/bin}

# Only one process installs into the venv.
exec 9>"$venv.lock"
flock 9
begin=$SECONDS
wheel=$(STOWAGE_BUILD_PYTHON=$venv/bin/python STOWAGE_WERROR=ON deploy/wheel.sh)
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheel"
flock -u 9
echo "python: built in $((SECONDS - begin)) s"

package=client/python
# From here, where no folder is called stowage: the tests import the installed package.
STOWAGE_WHEEL=$PWD/$wheel "$venv/bin/python" -m pytest -c "$package/pyproject.toml" \
  --rootdir "$package" --numprocesses 2 --dist worksteal "$package/tests" "$@"
