#!/bin/sh
# Write the bill of materials: all that is installed with the packages, with hashes, in CycloneDX's form.
# bill_of_materials.sh FILE, or --check to see that it can be made, follows its schema and has every package of the lock.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
[ $# = 1 ] || { echo "usage: bill_of_materials.sh FILE|--check" >&2; exit 2; }
made=$1
[ "$1" != --check ] || made=$(mktemp)

# The same lock gives the same bytes. Validated against the schema of CycloneDX before it is written.
cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --validate -o "$made" requirements.lock

if [ "$1" = --check ]; then
    wanted=$(sed -n 's/^\([A-Za-z0-9_.-]*\)==\([^ ]*\).*/\1 \2/p' requirements.lock | sort)
    listed=$(python -c 'import json, sys
for each in json.load(open(sys.argv[1]))["components"]:
    assert each["externalReferences"][0]["hashes"], each["name"]
    print(each["name"], each["version"])' "$made" | sort)
    rm "$made"
    [ "$wanted" = "$listed" ] || { echo "the bill of materials has other packages than requirements.lock" >&2; exit 1; }
fi
