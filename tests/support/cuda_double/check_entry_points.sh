#!/usr/bin/env bash
# Fails unless the double has the entry points of CUDA's runtime that objects of ours use, and no
# others but cudaLaunchHostFunc(), which tests use.
#   check_entry_points.sh DOUBLE_ARCHIVE ARCHIVE…
set -euo pipefail
double=$1
shift
provided=$(nm --defined-only "$double" 2>/dev/null |
  sed -n 's/.* T \(cuda[A-Z][A-Za-z]*\)$/\1/p' | sort -u)
used=$(nm -u "$@" 2>/dev/null | sed -n 's/^ *U \(cuda[A-Z][A-Za-z]*\)$/\1/p' | sort -u)
[ -n "$used" ] || { echo "entry points: $* use none; is this the right archive?" >&2; exit 1; }
missing=$(comm -13 <(echo "$provided") <(echo "$used"))
unused=$(comm -23 <(echo "$provided") <(echo "$used") | grep -vx cudaLaunchHostFunc || true)
[ -z "$missing" ] || echo "entry points: the double lacks" $missing >&2
[ -z "$unused" ] || echo "entry points: the double has, and nothing uses," $unused >&2
[ -z "$missing$unused" ]
