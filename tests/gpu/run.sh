#!/usr/bin/env bash
# Builds and runs the experiments of tests/gpu/RESULTS.md. Needs a CUDA GPU, the CUDA toolkit, PyTorch,
# and either build/gpu from tests/gpu/pack.sh or Debian's packages; no network and no gRPC.
# Runs one stage, or all:
#   build          solvers, agent, LibTorch adapter, their tests and the experiments
#   device         device conformance under compute-sanitizer; the adapter's tests on the device
#   correct        gradients under every solver against plain training
#   predictions    predicted against measured step times and peaks
#   throughput     throughput by peak memory, against other ways to save memory
#   overlapped     the link, hidden copy time, slowdown of computations
#   largest_batch  the largest batch in --memory-limit
#   report         collects the results of the stages in one file
#   all            the above
# Every stage first builds what is missing. Tables, curves, plots, traces and logs are written to the
# output folder; the file of `report` there is for RESULTS.md.
#   tests/gpu/run.sh STAGE [--device cuda:0] [--network resnet50|densenet121|gpt2] [--steps 20]
#                    [--memory-limit 16GiB] [--output FOLDER] [--coarse]
# With --device cpu it rehearses all stages but the sanitizer: small networks, few steps, a small limit
# and a slow link, whose copies mostly sleep and so leave the cores to the computations.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}

stage=${1:-}
case "$stage" in
  build|device|correct|predictions|throughput|overlapped|largest_batch|report|all) shift ;;
  *) usage ;;
esac
device=cuda:0 network='' steps='' limit='' output=build/gpu-results coarse=()
while [ $# -gt 0 ]; do
  if [ "$1" = --coarse ]; then
    coarse=(--coarse)
    shift
    continue
  fi
  [ $# -ge 2 ] || usage
  case "$1" in
    --device) device=$2 ;;
    --network) network=$2 ;;
    --steps) steps=$2 ;;
    --memory-limit) limit=$2 ;;
    --output) output=$2 ;;
    *) usage ;;
  esac
  shift 2
done
flags=(--device "$device" --output "$output" "${coarse[@]}")
if [ "$device" = cpu ]; then
  flags+=(--small --link 1GB/s --steps "${steps:-5}" --memory-limit "${limit:-48MiB}")
else
  flags+=(--steps "${steps:-20}" --memory-limit "${limit:-16GiB}")
fi
[ -z "$network" ] || flags+=(--network "$network")
build=build/gpu-${device%%:*}
mkdir -p "$output"
begin=$SECONDS
failed=0
say() { echo "gpu: $* ($((SECONDS - begin)) s)"; }

# Finds CUDA and LibTorch; adds to `options` and `prefixes`.
find_gpu() {
  local python prefix cuda capability
  python=$(command -v python3)
  if ! prefix=$("$python" -c 'import torch; print(torch.utils.cmake_prefix_path)' 2>/dev/null); then
    echo "gpu: python3 has no PyTorch; its LibTorch is needed" >&2
    exit 1
  fi
  if [ "$("$python" -c 'import torch; print(int(torch._C._GLIBCXX_USE_CXX11_ABI))')" != 1 ]; then
    echo "gpu: this PyTorch was built with the C++ library's old ABI; take 2.6 or later" >&2
    exit 1
  fi
  prefixes+=("$prefix")
  cuda=${CUDA_HOME:-/usr/local/cuda}
  [ -x "$cuda/bin/nvcc" ] && export PATH="$cuda/bin:$PATH"
  capability=$("$python" -c 'import torch; print("%d.%d" % torch.cuda.get_device_capability())')
  export TORCH_CUDA_ARCH_LIST=$capability
  options+=(-DSTOWAGE_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=${capability/./}")
}

# The head of the report: commit, date, device and versions.
describe() {
  local commit
  commit=$(git rev-parse --short HEAD 2>/dev/null || cat build/gpu/commit 2>/dev/null || echo unknown)
  echo "commit $commit, $(date -u +%F)"
  if [ "$device" = cpu ]; then
    echo "$(nproc) cores of $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
  else
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    python3 -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda)'
  fi
  "$build/bin/stowage-gpu-experiment" --version
}

build() {
  local joined generator=() options=(-DCMAKE_BUILD_TYPE=Release -DSTOWAGE_GRPC=OFF -DSTOWAGE_TORCH=ON)
  local prefixes=()
  if [ -d build/gpu/usr ]; then
    prefixes+=("$PWD/build/gpu/usr")
    # An RPATH, unlike a RUNPATH, also finds the libraries that these libraries need.
    options+=(-DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags)
  fi
  if [ "$device" = cpu ]; then options+=(-DSTOWAGE_CUDA=OFF); else find_gpu; fi
  joined=$(IFS=';'; echo "${prefixes[*]}")
  command -v ninja >/dev/null && generator=(-G Ninja)
  cmake -S . -B "$build" "${generator[@]}" "${options[@]}" "-DCMAKE_PREFIX_PATH=$joined" \
    >"$output/configure.log" 2>&1 || { tail -n 30 "$output/configure.log" >&2; exit 1; }
  cmake --build "$build" -j "${JOBS:-$(nproc)}" \
    --target stowage-train stowage-gpu-experiment stowage_agent_tests stowage_torch_tests \
    >"$output/build.log" 2>&1 || { grep -E 'error|undefined' "$output/build.log" | head -n 30 >&2
                                    tail -n 20 "$output/build.log" >&2; exit 1; }
  describe >"$output/device.txt"
  say "built"
}

check() {  # NAME COMMAND…
  local name=$1
  shift
  if "$@" >"$output/$name.log" 2>&1; then
    say "$name: passed"
    echo "- $name: passed" >>"$output/device.md"
  else
    failed=1
    say "$name: FAILED"
    echo "- $name: **failed**" >>"$output/device.md"
    tail -n 15 "$output/$name.log"
  fi
}

skip() {  # WHY
  say "compute-sanitizer: $1"
  echo "- compute-sanitizer: $1" >>"$output/device.md"
}

check_device() {
  printf '### The tests on the device\n\n' >"$output/device.md"
  check agent_tests "$build/bin/stowage_agent_tests"
  check torch_tests "$build/bin/stowage_torch_tests"
  check training_tests env "STOWAGE_TEST_DEVICE=$device" "$build/bin/stowage_torch_tests" \
    --gtest_filter='*TrainingTest*'
  if [ "$device" = cpu ]; then
    skip "not on a cpu"
  elif ! command -v compute-sanitizer >/dev/null; then
    failed=1
    skip "**is not installed**"
  else
    # Some of the tests provoke errors of the runtime; they check what comes of them.
    for tool in memcheck racecheck synccheck initcheck; do
      check "sanitizer_$tool" timeout 100 compute-sanitizer --tool "$tool" --error-exitcode 3 \
        --report-api-errors no "$build/bin/stowage_agent_tests" \
        --gtest_filter='Each/EveryDevice.*/cuda:CudaDevice.*'
    done
  fi
}

# cuBLAS is deterministic only with a separate workspace for each stream.
experiment() {  # NAME
  if CUBLAS_WORKSPACE_CONFIG=:4096:8 "$build/bin/stowage-gpu-experiment" "$1" "${flags[@]}"; then
    say "$1: done"
  else
    failed=1
    say "$1: FAILED"
  fi
}

report() {
  local name file
  {
    sed 's/$/  /' "$output/device.txt"
    for name in device correct predictions throughput overlapped largest_batch; do
      for file in "$output/$name".md "$output/$name"-*.md; do
        [ -f "$file" ] || continue
        echo
        cat "$file"
      done
    done
  } >"$output/results.md"
  say "the results for RESULTS.md are in $output/results.md"
}

[ "$stage" = report ] || build
case "$stage" in
  build) ;;
  device) check_device ;;
  report) report ;;
  all)
    check_device
    for name in correct predictions throughput overlapped largest_batch; do experiment "$name"; done
    report
    ;;
  *) experiment "$stage" ;;
esac
exit "$failed"
