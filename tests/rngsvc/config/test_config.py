"""The configuration: which layer wins, what is refused and how, and that the page agrees with the code."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from rngsvc.config import SETTINGS, Address, ConfigurationRefused, LogLevel, StoreLocation, load

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
LEAST = {"origin": "cardroom.example/rng", "signing_key": "file:log.pem", "key_encryption_key": "file:kek.hex"}
TLS = {"tls_certificate": "server.pem", "tls_key": "server.key", "tls_client_ca": "ca.pem"}
OTHER_VALUES = {
    "origin": "other.example/rng",
    "signing_key": "env:LOG_KEY",
    "previous_signing_key": "env:OLD_LOG_KEY",
    "key_encryption_key": "env:KEK",
    "previous_key_encryption_key": "env:OLD_KEK",
    "listen": "[::1]:1",
    "http_public": "0.0.0.0:80",
    "http_operator": "10.0.0.1:0",
    "store": "memory:",
    "standby": "true",
    "integrity_policy": "stop",
    "daily_at": "23:59",
    "tracing_endpoint": "https://collector.example:4317",
    "tracing_ratio": "0.5",
    "log_level": "error",
    "log_format": "text",
}


def refusals(
    flags: Mapping[str, object], environ: Mapping[str, str] | None = None, file: Path | None = None
) -> list[str]:
    with pytest.raises(ConfigurationRefused) as refused:
        load({**LEAST, **flags}, environ or {}, file)
    assert str(refused.value).splitlines() == [str(problem) for problem in refused.value.problems]
    return [str(problem) for problem in refused.value.problems]


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "rngsvc.toml"
    file.write_text('queue_limit = 1\nbatch_limit = 1\nlog_level = "debug"\n')
    configuration = load(
        {**LEAST, "queue_limit": 3, "batch_limit": None}, {"RNGSVC_QUEUE_LIMIT": "2", "RNGSVC_BATCH_LIMIT": "2"}, file
    )
    settings = configuration.settings
    assert (settings.queue_limit, settings.batch_limit, settings.log_level) == (3, 2, LogLevel.DEBUG)
    assert settings.listen == Address("127.0.0.1", 7443)
    shown = configuration.shown()
    assert shown["queue_limit"] == {"value": 3, "source": "flag"}
    assert shown["batch_limit"] == {"value": 2, "source": "environment"}
    assert shown["log_level"] == {"value": "debug", "source": f"file {file}"}
    assert shown["listen"] == {"value": "127.0.0.1:7443", "source": "default"}
    assert list(shown) == list(SETTINGS)


def test_the_file_is_named_by_the_environment_unless_a_flag_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("queue_limit = 1")
    (tmp_path / "b.toml").write_text("queue_limit = 2")
    environ = {"RNGSVC_CONFIG": str(tmp_path / "a.toml")}
    assert load(LEAST, environ).settings.queue_limit == 1
    assert load(LEAST, environ, tmp_path / "b.toml").settings.queue_limit == 2


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_is_reached_by_flag_variable_and_file_and_moves_no_other(name: str, tmp_path: Path) -> None:
    value = OTHER_VALUES.get(name) or SETTINGS[name].allowed.rpartition(" to ")[2] or "other.pem"
    usual = {**LEAST, **TLS}
    rest = {n: v for n, v in usual.items() if n != name}
    file = tmp_path / "rngsvc.toml"
    file.write_text(f"{name} = {json.dumps(value)}")
    by_flag = load({**rest, name: value}, {})
    by_variable = load(rest, {SETTINGS[name].variable: value})
    by_file = load(rest, {}, file)
    assert by_flag.settings == by_variable.settings == by_file.settings
    sources = [each.shown()[name]["source"] for each in (by_flag, by_variable, by_file)]
    assert sources == ["flag", "environment", f"file {file}"]
    before = load(usual, {}).settings
    assert [n for n in SETTINGS if getattr(by_flag.settings, n) != getattr(before, n)] == [name]


def test_everything_that_is_wrong_is_said_at_once_with_its_place_and_its_remedy(tmp_path: Path) -> None:
    file = tmp_path / "rngsvc.toml"
    file.write_text('origin = "a b"\nquue_limit = 5\nlisten = 7443\n')
    with pytest.raises(ConfigurationRefused) as refused:
        load(
            {"drain_s": "long", "key_encryption_key": "pkcs11:token=x"},
            {
                "RNGSVC_LOG_LEVEL": "loud",
                "RNGSVC_BATCH_LIMIT": "0",
                "RNGSVC_STORE": "",
                "RNGSVC_LISTN": "x",
                "PATH": "/",
            },
            file,
        )
    assert sorted(str(refused.value).splitlines()) == [
        "RNGSVC_LISTN (environment): is no setting of this version; did you mean RNGSVC_LISTEN?",
        "batch_limit (environment): must be 1 to 65536",
        "drain_s (flag): must be 0 to 600",
        "key_encryption_key (flag): must be pkcs11:token=LABEL;object=LABEL?module-path=FILE&pin-source=URI",
        f"listen (file {file}): must be text, in quotes",
        "log_level (environment): must be debug, info, warning, error",
        f"origin (file {file}): must be 1..255 printable ASCII characters without space and plus",
        f"quue_limit (file {file}): is no setting of this version; did you mean queue_limit?",
        "signing_key (not set): is required: set signing_key in the file, RNGSVC_SIGNING_KEY or --signing-key",
        "store (environment): is empty; leave it out to have the default",
    ]


@pytest.mark.parametrize("name", [name for name, setting in SETTINGS.items() if " to " in setting.allowed])
def test_each_number_has_bounds_that_hold(name: str) -> None:
    least, most = map(float, SETTINGS[name].allowed.split(" to "))
    whole = "." not in SETTINGS[name].default
    for value in (least, most):
        load({**LEAST, name: int(value) if whole else value}, {})
    step = 1 if whole else 0.001
    for value in (least - step, most + max(step, most / 1000), float("nan"), float("inf"), "many", None):
        if value is not None:
            assert refusals({name: value}) == [f"{name} (flag): must be {SETTINGS[name].allowed}"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "configuration (file {file}): cannot be read: No such file or directory"),
        (b"origin = ", "configuration (file {file}): is not TOML: Invalid value (at end of document)"),
        (b"\xff", "configuration (file {file}): is not TOML: 'utf-8' codec can't decode byte 0xff in position 0"),
        (b"[server]\nlisten = '127.0.0.1:1'", "server (file {file}): is no setting of this version"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(content: bytes | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "rngsvc.toml"
    if content is not None:
        file.write_bytes(content)
    (problem,) = refusals({}, file=file)
    assert problem.startswith(message.format(file=file))


# --- Addresses and places ---


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1:7443", Address("127.0.0.1", 7443), True),
        ("127.9.9.9:0", Address("127.9.9.9", 0), True),
        ("[::1]:65535", Address("::1", 65535), True),
        ("localhost:1", Address("localhost", 1), True),
        ("0.0.0.0:7443", Address("0.0.0.0", 7443), False),
        ("[::]:7443", Address("::", 7443), False),
        ("rng.example:7443", Address("rng.example", 7443), False),
        ("localhost.example:7443", Address("localhost.example", 7443), False),
    ],
)
def test_addresses_are_read_and_written(text: str, address: Address, loopback: bool) -> None:
    assert Address.parse(text) == address
    assert str(address) == text
    assert address.is_loopback is loopback


@pytest.mark.parametrize(
    "text",
    ["", ":", "7443", ":7443", "h", "h:", "h:x", "h:-1", "h:65536", "h:٣", "::1:5", "[::1]", "[h]:5", "[]:5", "h:1 "],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be HOST:PORT"):
        Address.parse(text)


@pytest.mark.parametrize("address", ["0.0.0.0:7443", "[::]:7443", "10.1.2.3:7443", "rng.example:7443"])
def test_without_tls_the_server_listens_on_loopback_only(address: str) -> None:
    remedy = "must be a loopback address without TLS; set tls_certificate, tls_key and tls_client_ca"
    assert refusals({"listen": address}) == [f"listen (flag): {remedy}"]
    settings = load({**LEAST, **TLS, "listen": address}, {}).settings
    assert settings.has_tls
    assert not load(LEAST, {}).settings.has_tls


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (["tls_certificate"], ["tls_key", "tls_client_ca"]),
        (["tls_key"], ["tls_certificate", "tls_client_ca"]),
        (["tls_client_ca"], ["tls_certificate", "tls_key"]),
        (["tls_certificate", "tls_key"], ["tls_client_ca"]),
        (["tls_certificate", "tls_client_ca"], ["tls_key"]),
        (["tls_key", "tls_client_ca"], ["tls_certificate"]),
    ],
)
def test_tls_is_set_whole_or_not_at_all(given: list[str], missing: list[str]) -> None:
    problems = refusals(dict.fromkeys(given, "x.pem"))
    assert problems == [f"{name} (not set): is required with {' and '.join(given)}" for name in missing]


def test_stores_are_read_and_written() -> None:
    for text, store in [
        ("memory:", StoreLocation(None)),
        ("sqlite:/var/lib/rng.db", StoreLocation(Path("/var/lib/rng.db"))),
        ("sqlite:C:x", StoreLocation(Path("C:x"))),
    ]:
        assert StoreLocation.parse(text) == store
        assert str(store) == text
    for text in (
        "",
        "memory",
        "memory:x",
        "sqlite",
        "sqlite:",
        "mysql://x",
        "/var/lib/rng.db",
        "postgresql://a:b@x/y",
        "postgresql:///d?schema=A;B",
    ):
        with pytest.raises(ValueError, match=r"must be sqlite:PATH, postgresql:|must hold no password|schema: must be"):
            StoreLocation.parse(text)


# --- Secrets ---


def test_a_key_may_lie_in_a_variable_of_ours_and_no_other_may_be_unknown() -> None:
    environ = {"RNGSVC_LOG_KEY": "x", "RNGSVC_SIGNING_KEY": "env:RNGSVC_LOG_KEY", "RNGSVC_XYZZY": "1"}
    (problem,) = refusals({"signing_key": None}, environ)
    assert problem == "RNGSVC_XYZZY (environment): is no setting of this version; leave it out"
    del environ["RNGSVC_XYZZY"]
    assert load({**LEAST, "signing_key": None}, environ).settings.signing_key == "env:RNGSVC_LOG_KEY"


def test_no_secret_is_shown_or_repeated() -> None:
    secret = "planted-secret-77aa"
    shown = load({**LEAST, "signing_key": "env:LOG_KEY"}, {"LOG_KEY": secret}).shown()
    assert secret not in json.dumps(shown)
    for name in SETTINGS:
        # The key itself where another value should be: refused or a harmless path, but never repeated.
        try:
            load({**LEAST, name: secret}, {})
        except ConfigurationRefused as refused:
            assert secret not in str(refused)  # noqa: PT017 - paths and the origin are rightly accepted


# --- The page ---


def test_the_page_lists_exactly_the_settings_of_the_code() -> None:
    rows = [
        f"| `{setting.name}` | {setting.default} | {setting.allowed or '-'} | {setting.description} |"
        for setting in SETTINGS.values()
    ]
    table = "\n".join(["| setting | default | allowed | meaning |", "| --- | --- | --- | --- |", *rows])
    assert table in PAGE.read_text(), f"the table in {PAGE} should be:\n{table}"


def test_each_setting_says_what_it_is_and_names_carry_their_unit() -> None:
    for setting in SETTINGS.values():
        assert setting.description.endswith(".")
        assert setting.flag == "--" + setting.name.replace("_", "-")
        measured = " to " in setting.allowed
        assert not measured or setting.name.endswith(("_s", "_limit", "_bytes", "_requests", "_ratio", "bits_per_byte"))


def test_the_example_on_the_page_is_a_configuration(tmp_path: Path) -> None:
    example = PAGE.read_text().split("```toml\n")[1].split("```")[0]
    (tmp_path / "rngsvc.toml").write_text(example)
    assert load({}, {}, tmp_path / "rngsvc.toml").settings.has_tls
    assert set(tomllib.loads(example)) <= set(SETTINGS)


def test_a_daily_command_names_only_what_is_filled_in() -> None:
    refused = refusals({"daily_command": "nosuch {foo}"})
    assert len(refused) == 1
    assert "daily_command" in refused[0]
    assert "{foo}" in refused[0]
    assert "{grpc} and {log_key}" in refused[0]
    whole = "battery {grpc} --key={log_key} '{}' '{\"a\": 1}'"
    assert load({**LEAST, "daily_command": whole}, {}, None).settings.daily_command == whole
