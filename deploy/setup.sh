#!/bin/sh
# Make .venv ready for `make run` (setup.sh run) or for tests (setup.sh dev). Does nothing when it is ready already.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
    run) lock=requirements.lock ;;
    dev) lock=requirements-dev.lock ;;
    *) echo "usage: setup.sh run|dev" >&2; exit 2 ;;
esac

if [ -L .venv ]; then
    echo ".venv is a link: an environment belongs to one checkout, and this would turn the other one's over to us" >&2
    exit 78
fi

# What the tests start for real beside Python packages; asked for only where this user may install it.
debian="chromium iproute2 prometheus softhsm2 golang-go golang-golang-x-mod-dev"
if [ "$1" = dev ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    missing=""
    for package in $debian; do dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"; done
    if [ -n "$missing" ]; then
        echo "Installing$missing" >&2
        apt-get update -q >/dev/null
        # shellcheck disable=SC2086  # one package a word
        DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing >/dev/null
    fi
fi

# The run lock is part of the dev lock, so a dev environment serves for both.
stamp=$(cat "$lock" pyproject.toml | sha256sum | cut -d' ' -f1)
for ready in ".venv/ready-$1" .venv/ready-dev; do
    [ -f "$ready" ] || continue
    want=$stamp
    [ "$ready" = ".venv/ready-$1" ] || want=$(cat requirements-dev.lock pyproject.toml | sha256sum | cut -d' ' -f1)
    [ "$(cat "$ready")" = "$want" ] && exit 0
done

if [ ! -x .venv/bin/python ]; then
    for python in ${PYTHON:-python3.13 python3.12 python3.11 python3.14 python3}; do
        if command -v "$python" >/dev/null &&
            "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            "$python" -m venv .venv
            break
        fi
    done
    [ -x .venv/bin/python ] || { echo "Python 3.11 or newer is needed (set PYTHON to name one)" >&2; exit 78; }
fi
echo "Installing $lock into .venv" >&2
.venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r "$lock"
.venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
echo "$stamp" > ".venv/ready-$1"
