#!/usr/bin/env bash
# Prints the venv with the PyTorch that client/python/requirements.lock names, for Debian's Python.
# It is in the user's cache, and made by the first call, which downloads some GB from PyPI.
#   deploy/venv.sh
set -euo pipefail
cd "$(dirname "$0")/.."

python=/usr/bin/python3
lock=client/python/requirements.lock
cache=${XDG_CACHE_HOME:-$HOME/.cache}/stowage
key=$({ cat "$lock"; "$python" --version; } | sha256sum | head -c 16)
venv=$cache/venv-$key

# Only one process makes it. A file that is written last says that it is complete.
mkdir -p "$cache"
exec 9>"$venv.lock"
flock 9
if [ ! -e "$venv/complete" ]; then
  echo "venv: making $venv: downloads some GB from PyPI" >&2
  rm -rf "$venv"
  "$python" -m venv "$venv"
  if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$lock" >&2; then
    rm -rf "$venv"
    echo "venv: PyPI cannot be reached, or lacks what $lock names; see above" >&2
    exit 1
  fi
  touch "$venv/complete"
fi
echo "$venv"
