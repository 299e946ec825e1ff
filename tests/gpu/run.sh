#!/usr/bin/env bash
# On a machine with a CUDA GPU, its toolkit and PyTorch, and with build/gpu of tests/gpu/pack.sh or
# Debian's packages: builds solvers, agent and LibTorch adapter, runs the device conformance tests
# under compute-sanitizer, trains ResNet-50 and a GPT-2-like transformer at three budgets, and prints
# what was measured beside what was predicted. Needs no network and no gRPC; under eight minutes.
#   tests/gpu/run.sh [--device cuda:0] [--steps 20] [--output FOLDER]
# With --device cpu it rehearses all but the sanitizer, with small networks.
set -euo pipefail
cd "$(dirname "$0")/../.."

device=cuda:0 steps=20 output=build/gpu-results
while [ $# -gt 0 ]; do
  case "$1" in
    --device) device=$2 ;;
    --steps) steps=$2 ;;
    --output) output=$2 ;;
    *) echo "usage: $0 [--device cuda:0|cpu] [--steps N] [--output FOLDER]" >&2; exit 2 ;;
  esac
  shift 2
done
mkdir -p "$output"
begin=$SECONDS
say() { echo "gpu: $* ($((SECONDS - begin)) s)"; }

# Where things are.
options=(-DCMAKE_BUILD_TYPE=Release -DSTOWAGE_GRPC=OFF -DSTOWAGE_TORCH=ON)
prefixes=()
[ -d build/gpu/usr ] && prefixes+=("$PWD/build/gpu/usr")
if [ "$device" = cpu ]; then
  options+=(-DSTOWAGE_CUDA=OFF)
else
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | tee "$output/gpu"
  python=$(command -v python3)
  if ! prefix=$("$python" -c 'import torch; print(torch.utils.cmake_prefix_path)' 2>/dev/null); then
    echo "gpu: python3 has no PyTorch, whose LibTorch this builds against" >&2
    exit 1
  fi
  if [ "$("$python" -c 'import torch; print(int(torch._C._GLIBCXX_USE_CXX11_ABI))')" != 1 ]; then
    echo "gpu: this PyTorch was built with the C++ library's old ABI; take 2.6 or later" >&2
    exit 1
  fi
  "$python" -c 'import torch; print("LibTorch", torch.__version__)' | tee -a "$output/gpu"
  prefixes+=("$prefix")
  cuda=${CUDA_HOME:-/usr/local/cuda}
  [ -x "$cuda/bin/nvcc" ] && export PATH="$cuda/bin:$PATH"
  capability=$("$python" -c 'import torch; print("%d.%d" % torch.cuda.get_device_capability())')
  export TORCH_CUDA_ARCH_LIST=$capability
  options+=(-DSTOWAGE_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=${capability/./}")
fi
IFS=';' joined="${prefixes[*]}"
unset IFS
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
build=build/gpu-${device%%:*}

cmake -S . -B "$build" "${generator[@]}" "${options[@]}" "-DCMAKE_PREFIX_PATH=$joined" \
  >"$output/configure.log" 2>&1 || { tail -n 30 "$output/configure.log" >&2; exit 1; }
cmake --build "$build" -j "$(nproc)" --target stowage-train stowage_agent_tests stowage_torch_tests \
  >"$output/build.log" 2>&1 || { grep -E 'error|undefined' "$output/build.log" | head -n 30 >&2
                                  tail -n 20 "$output/build.log" >&2; exit 1; }
say "built"

failed=0
check() {  # NAME COMMAND…
  local name=$1
  shift
  if "$@" >"$output/$name.log" 2>&1; then
    say "$name: passed"
  else
    failed=1
    say "$name: FAILED"
    tail -n 15 "$output/$name.log"
  fi
}

check agent_tests "$build/bin/stowage_agent_tests"
check torch_tests "$build/bin/stowage_torch_tests"
check training_tests env "STOWAGE_TEST_DEVICE=$device" "$build/bin/stowage_torch_tests" \
  --gtest_filter='*TrainingTest*'
if [ "$device" = cpu ]; then
  say "compute-sanitizer: not on a cpu"
elif ! command -v compute-sanitizer >/dev/null; then
  say "compute-sanitizer: is not installed"
else
  for tool in memcheck racecheck synccheck initcheck; do
    check "sanitizer_$tool" timeout 100 compute-sanitizer --tool "$tool" --error-exitcode 3 \
      "$build/bin/stowage_agent_tests" --gtest_filter='Each/EveryDevice.*Cuda*:CudaDevice.*'
  done
fi

train() {  # NAME FLAGS…
  local name=$1
  shift
  for memory in 20% 40% 60%; do
    echo "== $name, --memory $memory"
    if ! timeout 120 "$build/bin/stowage-train" --device "$device" --local --steps "$steps" \
        --memory "$memory" --trace "$output/$name-${memory%\%}.json" "$@" 2>&1 |
        tee "$output/$name-${memory%\%}.txt"; then
      failed=1
    fi
  done
}

if [ "$device" = cpu ]; then
  train resnet18 --network resnet18 --batch 2 --image 96
  train gpt2 --network gpt2 --layers 4 --width 128 --sequence 64 --vocabulary 1000 --batch 2
else
  train resnet50 --network resnet50 --batch 64 --image 224
  train gpt2 --network gpt2 --layers 12 --width 768 --sequence 1024 --batch 8
fi
say "done; logs and traces are in $output"
exit "$failed"
