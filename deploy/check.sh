#!/bin/sh
# Everything about the code that is not a test: style, types, architecture, interface definitions. Run by `make check`.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
failed=""
step() { # step NAME COMMAND...: runs it, shows its output only if it fails
    name=$1; shift
    if output=$("$@" 2>&1); then echo "ok    $name"; else echo "FAIL  $name"; echo "$output"; failed=1; fi
}

types=$(mktemp); (mypy >"$types" 2>&1; echo $? >"$types.code") & # the slowest step runs beside the others
step "style (ruff)" ruff check -q .
step "format (ruff)" ruff format -q --check .
step "architecture (import contracts)" lint-imports --no-cache
step "interface style (buf lint)" buf lint proto
step "interface format (buf format)" buf format -d --exit-code proto
step "interface compatibility (buf breaking)" buf breaking proto --against proto/released.binpb
step "generated code is current" deploy/generate_proto.sh --check
wait
step "types (mypy)" sh -c "cat '$types'; exit \$(cat '$types.code')"
rm -f "$types" "$types.code"
[ -z "$failed" ]
