#!/usr/bin/env bash
# Prints a venv of Debian's Python in the user's cache. The first call makes it.
#   deploy/venv.sh                 with the PyTorch that client/python/requirements.lock names: some GB
#                                  from PyPI
#   deploy/venv.sh NAME PACKAGE…   with these packages from PyPI, and with options of pip among them
set -euo pipefail
cd "$(dirname "$0")/.."

python=/usr/bin/python3
lock=client/python/requirements.lock
cache=${XDG_CACHE_HOME:-$HOME/.cache}/stowage
if [ $# -gt 0 ]; then
  name=$1
  shift
  wanted=$*
else
  name=venv
  wanted=$(cat "$lock")
  set -- --no-deps -r "$lock"
fi
key=$({ echo "$wanted"; "$python" --version; } | sha256sum | head -c 16)
venv=$cache/$name-$key

# Only one process makes it. A file that is written last says that it is complete.
mkdir -p "$cache"
exec 9>"$venv.lock"
flock 9
if [ ! -e "$venv/complete" ]; then
  echo "venv: making $venv of packages from PyPI" >&2
  rm -rf "$venv"
  "$python" -m venv "$venv"
  if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >&2; then
    rm -rf "$venv"
    echo "venv: PyPI cannot be reached, or lacks some of: $*; see above" >&2
    exit 1
  fi
  touch "$venv/complete"
fi
echo "$venv"
