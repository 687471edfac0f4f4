#!/bin/sh
# Resolve both locks from pyproject.toml: hashed, for every supported Python, without any index address.
set -eu
cd "$(dirname "$0")/.."
compile() { .venv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml "$@"; }
export UV_PYTHON_DOWNLOADS=never
compile --extra stats --extra cluster --extra postgres --extra tracing --group dev -o requirements-dev.lock
compile --group build -c requirements-dev.lock -o requirements.lock
