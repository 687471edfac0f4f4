#!/bin/sh
# Everything about code and deploy files that is not a test: style, types, architecture, interface definitions, and each
# file in deploy/ held against the tool that reads it. Run by `make check`.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
failed=""
step() { # step NAME COMMAND...: runs it, shows its output only if it fails
    name=$1; shift
    if output=$("$@" 2>&1); then echo "ok    $name"; else echo "FAIL  $name"; echo "$output"; failed=1; fi
}
step_with() { # step_with TOOL NAME COMMAND...: a step with a tool that is no Python package; passed over without it
    tool=$1; shift
    if command -v "$tool" >/dev/null; then step "$@"; else echo "skip  $1: $tool is not installed"; fi
}
units() { # systemd's exit code is 0 even for keys that it does not know, so that only its silence counts
    folder=$(mktemp -d)
    for unit in deploy/systemd/*.service deploy/systemd/*.timer; do
        sed "s|/opt/sealed-shoe/bin/|$PWD/.venv/bin/|" "$unit" >"$folder/${unit##*/}"
    done
    said=$(systemd-analyze verify "$folder"/* 2>&1) || said="$said exit code $?"
    rm -r "$folder"
    echo "$said"
    [ -z "$said" ]
}
configurations() {
    for file in deploy/one-box.toml deploy/kubernetes/shard-main/rngsvc.toml; do
        rngsvc config check --config "$file" || return 1
    done
    for file in deploy/dealer.toml deploy/kubernetes/card-room/dealer.toml; do
        python -c 'import sys, pathlib, dealer.config as c; c.load({}, {}, pathlib.Path(sys.argv[1]))' "$file" || return 1
    done
}
overlays() {
    for folder in deploy/kubernetes/shard-main deploy/kubernetes/daily-battery deploy/kubernetes/card-room; do
        kubectl kustomize "$folder" || return 1
    done
}
dashboards() { # deploy/grafana/*.json are what make_dashboards.py makes
    python -c 'from deploy.grafana import make_dashboards as m
for each in m.DASHBOARDS: assert (m.FOLDER / f"{each.name}.json").read_text() == m.text(each), each.name'
}
# kustomization.yaml is no Kubernetes object; kustomize itself reads it below.
objects=$(find deploy/kubernetes -name '*.yaml' ! -name kustomization.yaml)

types=$(mktemp); (mypy >"$types" 2>&1; echo $? >"$types.code") & # the slowest step runs beside the others
step "style (ruff)" ruff check -q .
step "format (ruff)" ruff format -q --check .
step "architecture (import contracts)" lint-imports --no-cache
step "interface style (buf lint)" buf lint proto
step "interface format (buf format)" buf format -d --exit-code proto
step "interface compatibility (buf breaking)" buf breaking proto --against proto/released.binpb
step "generated code is current" deploy/generate_proto.sh --check
step "shell scripts (shellcheck)" shellcheck deploy/*.sh
step "container (hadolint)" hadolint deploy/Containerfile
step "compose (check-jsonschema)" check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
# shellcheck disable=SC2086  # one file a word
step "cluster's objects (kubernetes-validate)" kubernetes-validate --strict $objects
step_with kubectl "cluster's overlays (kustomize)" overlays
step_with systemd-analyze "units (systemd-analyze)" units
step_with systemd-sysusers "users (systemd-sysusers)" systemd-sysusers --dry-run "$PWD"/deploy/systemd/rngsvc.sysusers.conf
step_with promtool "alerts (promtool check)" promtool check rules deploy/prometheus/*.rules.yml
step_with promtool "alerts fire (promtool test)" promtool test rules deploy/prometheus/*.rules_test.yml
step_with promtool "scraping (promtool check)" promtool check config --syntax-only deploy/prometheus/prometheus*.yml
step "sample configurations" configurations
step "dashboards are current" dashboards
step "bill of materials (cyclonedx)" deploy/bill_of_materials.sh --check
wait
step "types (mypy)" sh -c "cat '$types'; exit \$(cat '$types.code')"
rm -f "$types" "$types.code"
[ -z "$failed" ]
