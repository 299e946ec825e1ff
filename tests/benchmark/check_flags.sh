#!/usr/bin/env bash
# Checks that a benchmark program's --help prints its name and its flags, and exits 0; and that it
# refuses an argument with one line on standard error, before it measures anything.
#   check_flags.sh PROGRAM BAD_ARGUMENT [FLAG…]
set -euo pipefail
program=$1
bad=$2
shift 2

help=$("$program" --help)
for word in "$(basename "$program")" --help "$@"; do
  grep -qF -e "$word" <<<"$help" || { echo "$word is not in --help:"; echo "$help"; exit 1; }
done

status=0
output=$("$program" "$bad" 2>&1 >/dev/null) || status=$?
if [ "$status" -ne 1 ] || [ -z "$output" ] || [ "$(wc -l <<<"$output")" -ne 1 ]; then
  echo "$bad: exit code $status, standard error: $output"
  exit 1
fi
