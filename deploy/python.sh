#!/usr/bin/env bash
# Builds the Python package and checks it: ruff, mypy, pytest, with the PyTorch that
# client/python/requirements.lock names. Needs build/dev/bin/stowage and stowage-server, or those in
# the folder that STOWAGE_PROGRAMS names. Arguments go to pytest.
#   deploy/python.sh
#   deploy/python.sh -k plan -x
# The venv is in the user's cache. It is made once, which downloads some GB from PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."

python=/usr/bin/python3
lock=client/python/requirements.lock
cache=${XDG_CACHE_HOME:-$HOME/.cache}/stowage
key=$({ cat "$lock"; "$python" --version; } | sha256sum | head -c 16)
venv=$cache/venv-$key
export STOWAGE_PROGRAMS=${STOWAGE_PROGRAMS:-$PWD/build/dev/bin}

# A file that is written last says that the venv is complete.
make_venv() {
  [ ! -e "$venv/complete" ] || return 0
  echo "python: making $venv: downloads some GB from PyPI"
  rm -rf "$venv"
  mkdir -p "$cache"
  "$python" -m venv "$venv"
  if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$lock"; then
    rm -rf "$venv"
    echo "python: PyPI cannot be reached, or lacks what $lock names; see above" >&2
    exit 1
  fi
  touch "$venv/complete"
}

# Only one process makes the venv, or installs into it.
mkdir -p "$cache"
exec 9>"$venv.lock"
flock 9
make_venv
begin=$SECONDS
wheel=$(STOWAGE_BUILD_PYTHON=$venv/bin/python STOWAGE_WERROR=ON deploy/wheel.sh)
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheel"
flock -u 9
echo "python: built in $((SECONDS - begin)) s"

package=client/python
"$venv/bin/ruff" check --quiet "$package"
"$venv/bin/ruff" format --quiet --check "$package"
"$venv/bin/mypy" --config-file "$package/pyproject.toml" "$package/stowage"
# From here, where no folder is called stowage: the tests import the installed package.
STOWAGE_WHEEL=$PWD/$wheel "$venv/bin/python" -m pytest -c "$package/pyproject.toml" \
  --rootdir "$package" "$package/tests" "$@"
