#!/usr/bin/env bash
# Installs what is missing, builds, starts a server on a free port, asks it to fit a real ResNet-101
# into a quarter of the memory that storing everything takes, shows the schedule, stops the server. The
# last line is the address of a page with that schedule.
# Safe to run again; a second run takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/setup.sh build
deploy/build.sh quickstart
bin=build/release/bin
chain=tests/data/torchvision-resnet101-32-224.json

log=$(mktemp)
"$bin/stowage-server" --listen 127.0.0.1:0 --http none --cache-dir none --lame-duck 0s 2>"$log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -f "$log"' EXIT

address=
for _ in $(seq 100); do
  address=$(sed -n 's/.*event=serving address=\([^ ]*\).*/\1/p' "$log")
  [ -n "$address" ] && break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
[ -n "$address" ] || { cat "$log" >&2; echo "quickstart: the server did not start" >&2; exit 1; }
echo "server: $address"

most=$("$bin/stowage" chain "$chain" --format json | sed -n 's/.*"most_memory_bytes": "\([0-9]*\)".*/\1/p')
echo "\$ stowage solve --chain $chain --memory $((most / 4)) --server $address"
echo
page=$PWD/build/quickstart.html
"$bin/stowage" solve --chain "$chain" --memory $((most / 4)) --server "$address" --html "$page"
echo
echo "in a browser: file://$page"
