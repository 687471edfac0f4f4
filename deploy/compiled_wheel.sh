#!/bin/sh
# Build a wheel whose rules of a hand are compiled, for the Python of .venv, into dist/ or the folder named; prints its path.
set -eu
out=${1:-$(dirname "$0")/../dist}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.."
bin=$PWD/.venv/bin
cc=${CC:-cc}
command -v "${cc%% *}" >/dev/null || { echo "compiled_wheel.sh: a C compiler is needed (cc, or CC names it)" >&2; exit 78; }
"$bin/python" -c 'import hatch_mypyc' 2>/dev/null || { echo "compiled_wheel.sh: deploy/setup.sh dev first" >&2; exit 78; }

# From the source archive, unpacked elsewhere: the compiler writes beside the sources, where its modules would be imported
# in place of any .py that is changed later.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$bin/hatchling" build -t sdist -d "$work" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
tar -xzf "$work"/*.tar.gz -C "$work"
cd "$work"/*/
HATCH_BUILD_HOOKS_ENABLE=1 "$bin/hatchling" build -t wheel -d "$out"
