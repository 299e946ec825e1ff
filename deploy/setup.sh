#!/usr/bin/env bash
# Installs what Stowage needs on Debian 12. The only place that names packages.
#   deploy/setup.sh run     what the built server and command line need to run
#   deploy/setup.sh build   what it takes to build and run them
#   deploy/setup.sh python  that, and what deploy/wheel.sh needs to build the Python package
#   deploy/setup.sh train   what it takes to build, and LibTorch: for stowage-train
#   deploy/setup.sh test    that, what the tests need, and from PyPI CUDA's runtime and grpcio
#   deploy/setup.sh dev     that, and what deploy/dev/* needs
#   deploy/setup.sh carried installs nothing: names the packages that tests/gpu/pack.sh copies
# With --names, as in `deploy/setup.sh run --names`, installs nothing and names those packages.
# Quiet, and does nothing when all is there.
#
# CUDA's runtime is fetched into .cache/cuda of the checkout unless the machine has a CUDA toolkit, so
# that client/agent/cuda is compiled everywhere. Without a network the build leaves CUDA out. What
# tests need of PyPI is fetched into .cache/python.
set -euo pipefail

run=(
  libabsl20220623 libgrpc++1.51 libgrpc29 libprotobuf32 libhwy1
  libspdlog1.10 libxxhash0 libsqlite3-0 libhiredis0.14 libprometheus-cpp-core1.0 libcpp-httplib0.11 libssl3 libsystemd0
)
build=(
  g++ cmake ninja-build ccache mold           # tools
  libabsl-dev libgrpc++-dev                   # Abseil, gRPC
  libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libhwy-dev                                  # SIMD of the solvers' inner loops
  libssl-dev                                  # certificates, tokens, cache keys
  libspdlog-dev                               # logs of the server
  libcli11-dev                                # command lines
  libxxhash-dev                               # checksums of stored answers
  libsqlite3-dev                              # the cache on disk
  libhiredis-dev                              # the protocol of Redis, for the shared cache
  prometheus-cpp-dev libcpp-httplib-dev       # metrics, and the port that serves them
  libsystemd-dev                              # tells systemd that the server serves, or stops
  nlohmann-json3-dev                          # where in a text a JSON error is; the JSON of `stowage chain`
)
train=(
  libtorch-dev                                # LibTorch 1.13, for the CPU
  libopenblas0-pthread                        # its matrix products, many times faster than without
)
test=(
  libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev
  libyaml-cpp-dev                             # reads the files of deploy/
  prometheus                                  # scrapes the server in a test
  systemd                                     # checks its unit
  haproxy                                     # stands before servers in a test
  redis-server                                # holds the shared cache in a test
  openssl                                     # makes certificates for tests
  curl                                        # reads the port for operators in a test
  clang libclang-rt-14-dev                    # builds with sanitizers, and the fuzzers
  chromium                                    # shows the page in a test
  luajit                                      # runs the example in Lua
  protobuf-compiler-grpc-java-plugin          # for the example in Java, where a JDK and Maven are
  clang-format                                # checks the format of the sources
)
# Build the page of server/web again. Node's own packages hold both, and conflict with Debian's npm.
command -v npm >/dev/null || test+=(nodejs npm)
pip=(python3-pip python3-venv python3-dev)  # fetches wheels; the tests' venv; headers for what torch.compile compiles
python_wheels=(
  grpcio==1.85.1 grpcio-status==1.85.1        # a generic client, which reads our errors
)
cuda_wheels=(
  nvidia-cuda-runtime==13.0.96                # headers and the static library
  nvidia-cuda-crt==13.0.88                    # headers that those include
)
dev=(clang-tidy git)
carried=(
  libabsl-dev libabsl20220623 libhwy-dev libhwy1 libcli11-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev libbenchmark1debian
)

case "${1:-}" in
  run) packages=("${run[@]}") ;;
  build) packages=("${build[@]}") ;;
  python) packages=("${build[@]}" "${pip[@]}") ;;
  train) packages=("${build[@]}" "${train[@]}") ;;
  test) packages=("${build[@]}" "${train[@]}" "${test[@]}" "${pip[@]}") ;;
  dev) packages=("${build[@]}" "${train[@]}" "${test[@]}" "${pip[@]}" "${dev[@]}") ;;
  carried) echo "${carried[@]}"; exit 0 ;;
  *) echo "usage: $0 run|build|python|train|test|dev|carried [--names]" >&2; exit 2 ;;
esac
[ "${2:-}" != "--names" ] || { echo "${packages[@]}"; exit 0; }

# Fetches wheels from PyPI into .cache/FOLDER of the checkout, unless they are there.
# usage: fetch_wheels FOLDER WHAT_IS_MISSING_WITHOUT_THEM PIP_OPTION_OR_WHEEL...
fetch_wheels() {
  local target partial loss
  target=$(cd "$(dirname "$0")/.." && pwd)/.cache/$1
  loss=$2
  shift 2
  [ "$(cat "$target/wheels" 2>/dev/null)" != "$*" ] || return 0
  echo "setup: fetching $*"
  mkdir -p "${target%/*}"
  partial=$(mktemp -d "$target.XXXXXX")
  # Debian's pip refuses to install into the system, but not into a folder.
  if ! /usr/bin/python3 -m pip install --quiet --no-compile --only-binary :all: \
      --disable-pip-version-check --root-user-action=ignore --target "$partial" \
      "$@" >"$partial/log" 2>&1; then
    tail -n 3 "$partial/log" >&2
    echo "setup: $loss" >&2
    rm -rf "$partial"
    return
  fi
  rm "$partial/log"
  echo "$*" >"$partial/wheels"
  chmod 755 "$partial"
  rm -rf "$target"
  mv "$partial" "$target"
}

fetch_cuda() {
  if command -v nvcc >/dev/null || [ -e /usr/local/cuda/include/cuda_runtime_api.h ]; then return; fi
  fetch_wheels cuda "no CUDA runtime from PyPI; client/agent/cuda will not be compiled" \
    --no-deps "${cuda_wheels[@]}"
}

fetch_python() {
  fetch_wheels python "no grpcio from PyPI; the test of a generic client will fail" \
    "${python_wheels[@]}"
}

install_missing() {
  local missing package state as_root
  missing=()
  for package in "${packages[@]}"; do
    state=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
    [ "$state" = "install ok installed" ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup: run as root, or install sudo: needs ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
  fi
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  echo "setup: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  if ! { "${as_root[@]}" apt-get update -qq &&
         "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "setup: installing failed; see above" >&2
    exit 1
  fi
}

install_missing
case "$1" in
  test | dev)
    fetch_cuda
    fetch_python
    ;;
esac
