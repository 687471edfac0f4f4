#!/bin/sh
# Generate rngsvc/v1 and dealer/v1 from proto/. Run by `make proto`; `make check` fails where the result differs from what is committed.
set -eu
cd "$(dirname "$0")/.."
bin=.venv/bin
for file in $(cd proto && find . -name '*.proto' | sed 's|^\./||' | sort); do
    PATH="$bin:$PATH" "$bin/python" -m grpc_tools.protoc -I proto \
        --python_out=. --grpc_python_out=. --mypy_out=. --mypy_grpc_out=. "$file" 2>/dev/null ||
        PATH="$bin:$PATH" "$bin/python" -m grpc_tools.protoc -I proto \
            --python_out=. --grpc_python_out=. --mypy_out=. --mypy_grpc_out=. "$file"
done
