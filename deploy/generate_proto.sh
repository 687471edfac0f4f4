#!/bin/sh
# Generate rngsvc/v1 and dealer/v1 from proto/. With --check, compare with what is committed and change nothing.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
out=.
[ "${1:-}" = --check ] && out=$(mktemp -d)
# shellcheck disable=SC2046  # one file a word
python -m grpc_tools.protoc -I proto --python_out="$out" --grpc_python_out="$out" --mypy_out="$out" --mypy_grpc_out="$out" \
    $(cd proto && find . -name '*.proto' | sed 's|^\./||' | sort)
if [ "$out" != . ]; then
    for file in $(cd "$out" && find . -name '*_pb2*'); do
        cmp "$out/$file" "$file" || { echo "run make proto" >&2; exit 1; }
    done
    rm -rf "$out"
fi
