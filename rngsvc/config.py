"""The configuration: one frozen record, merged from flags, environment, a TOML file and defaults, in that order.

A setting has one name, spelt in three ways: `signing_key` in the file, `RNGSVC_SIGNING_KEY` in the environment,
`--signing-key` as a flag. No setting holds a secret: keys are named by where they lie. Everything is checked here, once
and before anything is opened, and all that is wrong is said at once.
"""

import ipaddress
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Self, cast

from annotated_types import Ge, Le
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
    ValidationError,
)
from pydantic_core import ErrorDetails

from rngsvc.keys.location import check_location, environment_name
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.signed_note import check_key_name
from rngsvc.schedule import Daily
from rngsvc.store.address import split_address

ENVIRONMENT_PREFIX: Final = "RNGSVC_"

COMMAND_FACTS: Final = ("grpc", "log_key")
"""What may stand in braces in `daily_command`."""

MAX_ORIGIN_CHARACTERS: Final = 200
"""It stands in every checkpoint up to three times; two of these fit into the head guard."""

CONFIGURATION_FILE_VARIABLE: Final = "RNGSVC_CONFIG"
"""Names the TOML file where no flag does; the one variable with the prefix that is no setting."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: the setting, where its value comes from, and what is allowed."""

    setting: str
    source: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.setting} ({self.source}): {self.allowed}"


class ConfigurationRefused(Exception):
    """The configuration is not usable; `problems` lists everything that is wrong with it."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener binds: a host name or IP address, and a port, 0 for any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Say whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read HOST:PORT, an IPv6 address in brackets; ValueError for anything else."""
        host, _, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if bracketed else host
        if not host or bracketed != (":" in host) or not (port.isascii() and port.isdigit() and int(port) < 65_536):
            raise ValueError("must be HOST:PORT, for example 127.0.0.1:7443 or [::1]:7443")
        return cls(host, int(port))


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where the store lies: a SQLite file, a schema of a PostgreSQL database, or (neither) this process's memory."""

    path: Path | None = None
    postgres: str | None = None

    def __str__(self) -> str:
        if self.postgres:
            return self.postgres
        return f"sqlite:{self.path}" if self.path else "memory:"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read sqlite:PATH, postgresql://... or memory:; ValueError for anything else."""
        match text.partition(":"):
            case "memory", ":", "":
                return cls()
            case "sqlite", ":", path if path:
                return cls(path=Path(path))
            case "postgresql", ":", _:
                split_address(text)
                return cls(postgres=text)
            case _:
                raise ValueError("must be sqlite:PATH, postgresql://[user@]host/database[?schema=NAME] or memory:")


class LogLevel(StrEnum):
    """The least severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a log line is written: for programs, or for a person at a terminal."""

    JSON = "json"
    TEXT = "text"


_KEY_SETTINGS: Final = (
    "signing_key",
    "previous_signing_key",
    "key_encryption_key",
    "previous_key_encryption_key",
)


class IntegrityPolicy(StrEnum):
    """What a daily check that failed or did not come leads to."""

    ALARM = "alarm"
    STOP = "stop"


def _key_location(uri: str) -> str:
    check_location(uri)
    return uri


def _origin(name: str) -> str:
    if len(name) > MAX_ORIGIN_CHARACTERS:
        raise ValueError(f"must be at most {MAX_ORIGIN_CHARACTERS} characters")
    try:
        check_key_name(name, "origin")
    except MalformedError as error:
        raise ValueError(error.allowed) from None
    return name


def _time_of_day(text: str) -> str:
    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", text, re.ASCII):
        raise ValueError("must be HH:MM, for example 04:30")
    return text


def _command_line(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not words:
        raise ValueError("must be a command line, quoted as for a shell; no shell reads it")
    for name in re.findall(r"\{(\w+)\}", text):
        if name not in COMMAND_FACTS:
            allowed = " and ".join(f"{{{each}}}" for each in COMMAND_FACTS)
            raise ValueError(f"must have no {{{name}}}; {allowed} are filled in, and nothing else")
    return text


def _collector(address: str) -> str:
    scheme, _, rest = address.partition("://")
    if scheme not in {"http", "https"} or "@" in rest:
        raise ValueError("must be http://HOST:PORT or https://HOST:PORT, without a user")
    Address.parse(rest)
    return address


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text, in quotes")
    return value


# Validators that come before the type run from the last to the first.
AddressText = Annotated[
    InstanceOf[Address], BeforeValidator(Address.parse), BeforeValidator(_text), PlainSerializer(str)
]
StoreText = Annotated[
    InstanceOf[StoreLocation], BeforeValidator(StoreLocation.parse), BeforeValidator(_text), PlainSerializer(str)
]
KeyLocation = Annotated[str, AfterValidator(_key_location)]
PathText = Annotated[Path, PlainSerializer(str)]


class Settings(BaseModel):
    """All settings. The description of each stands in `docs/configuration.md` too."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    # --- Identity and keys ---
    origin: Annotated[str, AfterValidator(_origin)] = Field(
        description="Name of the log, for ever: a host and path without scheme, for example cardroom.example/rng."
    )
    signing_key: KeyLocation = Field(
        description="Where the log's Ed25519 key lies: file:PATH of mode 0600, env:NAME (both PEM), or pkcs11:..."
    )
    previous_signing_key: KeyLocation | None = Field(
        None, description="Where the log's key before that lies, in the same ways, until 30 days after a change of key."
    )
    key_encryption_key: KeyLocation = Field(
        description="Where the key lies that wraps the data keys of seeds: file: or env: (hex or base64), or pkcs11:..."
    )
    previous_key_encryption_key: KeyLocation | None = Field(
        None, description="Where the key before that lies, until `rngsvc store rewrap` has come to its end."
    )

    # --- Listeners ---
    listen: AddressText = Field(
        Address("127.0.0.1", 7443), description="gRPC address. Without TLS it must be a loopback address."
    )
    http_public: AddressText = Field(
        Address("127.0.0.1", 7480),
        description="Address of the public pages and log tiles: public data over plain HTTP, for a TLS proxy in front.",
    )
    http_operator: AddressText = Field(
        Address("127.0.0.1", 7490), description="Address of /metrics, /healthz and /readyz, over plain HTTP."
    )
    tls_certificate: PathText | None = Field(None, description="The gRPC server's certificate chain (PEM).")
    tls_key: PathText | None = Field(None, description="The private key of that certificate (PEM).")
    tls_client_ca: PathText | None = Field(
        None, description="The authorities that clients' certificates must come from (PEM)."
    )

    # --- Store ---
    store: StoreText = Field(
        StoreLocation(Path("rngsvc.sqlite3")),
        description="sqlite:PATH, postgresql://[user@]host/database[?schema=NAME], or memory: for trying things out.",
    )
    standby: bool = Field(False, description="Wait while another process holds the store, and take over when it ends.")
    head_guard: PathText | None = Field(
        None,
        description="File that remembers the newest checkpoint, best on another disk: a store behind it is refused.",
    )

    # --- Witnesses ---
    witness_policy: PathText | None = Field(
        None, description="Trust policy file (C2SP tlog-policy): the witnesses to ask for cosignatures, and the quorum."
    )
    witness_interval_s: float = Field(
        2.0, ge=0.1, le=3600, description="How often the newest checkpoint is shown to the witnesses at most."
    )

    # --- Hands ---
    default_ttl_s: int = Field(
        86_400, ge=60, le=2_592_000, description="How long a hand may stay open where its table does not say."
    )

    # --- Integrity ---
    integrity_policy: IntegrityPolicy = Field(
        IntegrityPolicy.ALARM,
        description="What a daily check that failed, or did not come for 26 hours, leads to: metrics alone, or no more"
        " signing.",
    )

    daily_at: Annotated[str, AfterValidator(_time_of_day)] = Field(
        "04:30", description="When the daily checks begin, HH:MM in UTC."
    )
    daily_jitter_s: float = Field(
        1800.0, ge=0, le=3600, description="They begin up to so much later, by chance: not all nodes at once."
    )
    daily_command: Annotated[str, AfterValidator(_command_line)] | None = Field(
        None,
        description="Command line run daily, for the battery: {grpc} is the service's address, {log_key} its key."
        " Without it, run one from outside.",
    )
    daily_limit_s: float = Field(
        7200.0, ge=1, le=43_200, description="How long that command may take; after that it is killed, with an alarm."
    )
    log_audit_state: PathText | None = Field(
        None,
        description="File in which the service keeps how far it has audited its own log; beside a SQLite store by"
        " default.",
    )

    # --- Limits ---
    queue_limit: int = Field(
        4096, ge=1, le=1_000_000, description="Requests that may wait; more are RESOURCE_EXHAUSTED."
    )
    batch_limit: int = Field(
        1024, ge=1, le=65_536, description="Hands whose calls share one commit at most; a single call may have more."
    )
    max_message_bytes: int = Field(4_194_304, ge=65_536, le=33_554_432, description="Size of a gRPC message at most.")
    default_deadline_s: float = Field(
        10.0, ge=0.1, le=600, description="Deadline of a call whose caller did not set one."
    )
    drain_s: float = Field(20.0, ge=0, le=600, description="How long calls in flight may take to finish after SIGTERM.")
    sample_bytes_per_s: int = Field(
        33_554_432,
        ge=65_536,
        le=1_073_741_824,
        description="Bound on what samples take, so that play keeps its latency.",
    )

    # --- Entropy ---
    entropy_device: PathText | None = Field(
        None, description="Hardware source beside getrandom, for example /dev/hwrng. If it fails, the service stops."
    )
    entropy_device_bits_per_byte: float = Field(
        1.0, ge=0.1, le=8, description="Min-entropy claimed for a byte of the device; sets what is read and the alarms."
    )
    entropy_device_timeout_s: float = Field(5.0, ge=0.1, le=60, description="How long a read of the device may take.")
    entropy_file: PathText | None = Field(
        None, description="The operator's own entropy, 384 to 65536 bytes, mixed in at each seeding."
    )
    reseed_after_requests: int = Field(
        1024, ge=1, le=2**48, description="Requests that the DRBG answers from one seed at most."
    )
    reseed_after_s: float = Field(60.0, ge=0.1, le=86_400, description="How long the DRBG uses one seed at most.")

    # --- Traces ---
    tracing_endpoint: Annotated[str, AfterValidator(_collector)] | None = Field(
        None,
        description="OpenTelemetry collector to send traces to (OTLP over gRPC), for example http://127.0.0.1:4317.",
    )
    tracing_ratio: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of traces begun here; one that a caller has begun is followed as he decided.",
    )

    # --- Logs ---
    log_level: LogLevel = Field(LogLevel.INFO, description="The least severity that is logged.")
    log_format: LogFormat = Field(LogFormat.JSON, description="json for programs, text for people; always on stderr.")

    @property
    def daily(self) -> Daily:
        """Return when the daily checks are due."""
        hours, minutes = self.daily_at.split(":")
        return Daily(3600 * int(hours) + 60 * int(minutes), self.daily_jitter_s)

    @property
    def has_tls(self) -> bool:
        """Say whether the gRPC server speaks TLS and asks for client certificates."""
        return self.tls_certificate is not None


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as pages and flags describe it."""

    name: str
    description: str
    default: str
    allowed: str

    @property
    def variable(self) -> str:
        """Return the name of its environment variable."""
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """Return its command line flag."""
        return "--" + self.name.replace("_", "-")


def _describe() -> Iterator[Setting]:
    for name, field in Settings.model_fields.items():
        if field.is_required():
            default = "required"
        elif field.default is None:
            default = "none"
        else:
            default = str(field.default)
        bounds = [str(m.ge) for m in field.metadata if isinstance(m, Ge)]
        bounds += [str(m.le) for m in field.metadata if isinstance(m, Le)]
        choices = isinstance(field.annotation, type) and issubclass(field.annotation, StrEnum)
        allowed = ", ".join(cast("type[StrEnum]", field.annotation)) if choices else " to ".join(bounds)
        yield Setting(name, field.description or "", default, allowed)


SETTINGS: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _describe()}
"""All settings by name, in the order of `Settings`."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The merged settings, and where each came from: `flag`, `environment`, `file PATH` or `default`."""

    settings: Settings
    sources: Mapping[str, str]

    def shown(self) -> dict[str, dict[str, object]]:
        """Return each setting's value and source, ready for JSON."""
        values = self.settings.model_dump(mode="json")
        return {name: {"value": values[name], "source": self.sources.get(name, "default")} for name in values}


def load(flags: Mapping[str, object], environ: Mapping[str, str], file: Path | None = None) -> Configuration:
    """Merge and check the configuration.

    Args:
        flags: values by setting name; None where a flag was not given.
        environ: the process's environment.
        file: the TOML file; if None, the one that `RNGSVC_CONFIG` names, if any.

    Raises:
        ConfigurationRefused: names everything that is wrong.
    """
    problems: list[Problem] = []
    if file is None and environ.get(CONFIGURATION_FILE_VARIABLE):
        file = Path(environ[CONFIGURATION_FILE_VARIABLE])
    layers = [
        (f"file {file}", _read_file(file, problems) if file else {}),
        ("environment", _read_environment(environ)),
        ("flag", {name: value for name, value in flags.items() if value is not None}),
    ]
    merged: dict[str, object] = {}
    sources: dict[str, str] = {}
    for source, values in layers:
        for name, value in values.items():
            if value == "":
                problems.append(Problem(name, source, "is empty; leave it out to have the default"))
            else:
                merged[name] = value
                sources[name] = source
    settings, refused = _validate(merged, sources)
    problems += refused
    if settings:
        problems += _conflicts(settings, sources)
    problems += _unknown_variables(environ, merged)
    if problems or settings is None:
        raise ConfigurationRefused(problems)
    return Configuration(settings, sources)


def _read_file(file: Path, problems: list[Problem]) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(Problem("configuration", f"file {file}", f"cannot be read: {error.strerror}"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(Problem("configuration", f"file {file}", f"is not TOML: {error}"))
    return {}


def _read_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[setting.variable] for name, setting in SETTINGS.items() if setting.variable in environ}


def _validate(values: dict[str, object], sources: Mapping[str, str]) -> tuple[Settings | None, list[Problem]]:
    try:
        return Settings.model_validate(values), []
    except ValidationError as invalid:
        problems = []
        for error in invalid.errors(include_url=False, include_input=False):
            name = str(error["loc"][0])
            problems.append(Problem(name, sources.get(name, "not set"), _allowed(name, error)))
        return None, problems


def _allowed(name: str, error: ErrorDetails) -> str:
    """Say what is allowed. The value itself is not repeated: a secret may have been put in the wrong place."""
    if error["type"] == "missing":
        setting = SETTINGS[name]
        return f"is required: set {name} in the file, {setting.variable} or {setting.flag}"
    if error["type"] == "extra_forbidden":
        return "is no setting of this version" + _did_you_mean(name, SETTINGS)
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    if SETTINGS[name].allowed:
        return f"must be {SETTINGS[name].allowed}"
    return error["msg"][0].lower() + error["msg"][1:]


def _conflicts(settings: Settings, sources: Mapping[str, str]) -> Iterator[Problem]:
    """Find settings that are each allowed, but not together."""
    tls = {"tls_certificate": settings.tls_certificate, "tls_key": settings.tls_key}
    tls["tls_client_ca"] = settings.tls_client_ca
    if any(tls.values()):
        for name, value in tls.items():
            if value is None:
                yield Problem(name, "not set", f"is required with {' and '.join(n for n, v in tls.items() if v)}")
    elif not settings.listen.is_loopback:
        source = sources.get("listen", "default")
        allowed = "must be a loopback address without TLS; set tls_certificate, tls_key and tls_client_ca"
        yield Problem("listen", source, allowed)


def _unknown_variables(environ: Mapping[str, str], merged: Mapping[str, object]) -> Iterator[Problem]:
    """Find variables with our prefix that mean nothing: each is a setting that somebody believes to have set."""
    known = {setting.variable for setting in SETTINGS.values()} | {CONFIGURATION_FILE_VARIABLE}
    # A key may lie in a variable of ours: signing_key = "env:RNGSVC_LOG_KEY".
    known |= {environment_name(str(merged.get(name, ""))) or "" for name in _KEY_SETTINGS}
    for variable in sorted(environ):
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in known:
            allowed = "is no setting of this version" + _did_you_mean(variable, known)
            yield Problem(variable, "environment", allowed)


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    # Without the prefix, which would make all variables alike.
    by_ending = {each.removeprefix(ENVIRONMENT_PREFIX): each for each in known}
    nearest = get_close_matches(name.removeprefix(ENVIRONMENT_PREFIX), by_ending, n=1)
    return f"; did you mean {by_ending[nearest[0]]}?" if nearest else "; leave it out"
