#!/usr/bin/env bash
# Checks the page of server/web: builds it again from its lock file and compares it byte for byte with
# what is committed, then tries it in Debian's Chromium. Needs build/dev/bin/stowage, or that in the
# folder that STOWAGE_PROGRAMS names. Arguments go to Node's test runner.
#   deploy/web.sh
#   deploy/web.sh --test-name-pattern=axe
#   deploy/web.sh --build       only builds it and compares, which checks the types of its sources
#   deploy/web.sh --modules     only installs what the lock file names
#   deploy/web.sh --update      only builds the page, into what is committed
#   deploy/web.sh --pictures    only takes the pictures of README.md, of what the programs hold
#   deploy/web.sh --keep-screenshots   only writes the pictures that the tests compare with
set -euo pipefail
cd "$(dirname "$0")/.."
web=server/web

# A file that is written last says for which lock file the modules are complete.
install_modules() {
  cmp -s "$web/package-lock.json" "$web/node_modules/complete" && return
  echo "web: installing the modules that $web/package-lock.json names, from npm"
  if ! (cd "$web" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error); then
    echo "web: npm's registry cannot be reached, or lacks what the lock file names; see above" >&2
    exit 1
  fi
  cp "$web/package-lock.json" "$web/node_modules/complete"
}

install_modules
if [ "${1:-}" = "--modules" ]; then
  exit
fi
if [ "${1:-}" = "--update" ]; then
  exec node "$web/build.mjs"
fi
if [ "${1:-}" = "--pictures" ]; then
  exec node --test "${@:2}" tests/web/pictures.mjs
fi
if [ "${1:-}" = "--keep-screenshots" ]; then
  STOWAGE_KEEP_SCREENSHOTS=1 exec node --test tests/web/screenshot_test.mjs
fi
built=$(mktemp)
trap 'rm -f "$built"' EXIT
node "$web/build.mjs" "$built"
if ! cmp "$built" "$web/bundle/page.html"; then
  echo "web: $web/bundle/page.html is not what its sources give; deploy/web.sh --update builds it" >&2
  exit 1
fi
echo "web: the bundle is what its sources give"
[ "${1:-}" != "--build" ] || exit 0
node --test "$@" tests/web/*_test.mjs
