#!/usr/bin/env bash
# Copies the libraries that Stowage's agent, solvers and tests are built with into build/gpu, a prefix
# for CMake, for a machine with a GPU and PyTorch but without a network. Run it on Debian 12, copy the
# repository with build/gpu to that machine, and run tests/gpu/run.sh there.
set -euo pipefail
cd "$(dirname "$0")/../.."

deploy/setup.sh test
rm -rf build/gpu
mkdir -p build/gpu
for package in $(deploy/setup.sh carried); do
  dpkg -L "$package" | while IFS= read -r file; do
    if [ -f "$file" ] || [ -L "$file" ]; then cp -d --parents "$file" build/gpu; fi
  done
done
rm -rf build/gpu/usr/share/doc build/gpu/usr/share/lintian
git rev-parse --short HEAD >build/gpu/commit  # that machine may have no git
echo "pack: build/gpu, $(du -sm build/gpu | cut -f1) MiB"
