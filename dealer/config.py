"""The configuration: one frozen record, merged from flags, environment, a TOML file and defaults, in that order.

A setting has one name, spelt in three ways: `token_key` in the file, `DEALER_TOKEN_KEY` in the environment,
`--token-key` as a flag. No setting holds a secret: keys are named by the file they lie in. All that is wrong is said at
once.
"""

import ipaddress
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, get_args, get_type_hints

from dealer.store.location import Location
from dealer.tokens import KEY_BYTES
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.signed_note import NoteKey

PREFIX: Final = "DEALER_"
CONFIGURATION_FILE_VARIABLE: Final = "DEALER_CONFIG"


class ConfigurationRefused(Exception):
    """The configuration is not usable; each of ``problems`` names a setting, its source and what is allowed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise ValueError("must be HOST:PORT")
    return text


def _log_key(text: str) -> str:
    try:
        NoteKey.from_vkey(text)
    except MalformedError as error:
        raise ValueError(f"must be a verifier key: {error}") from None
    return text


def _public_key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ValueError("must be 64 hex digits")
    return key


def _yes_or_no(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise ValueError("must be 0 to 3600 seconds")
    return seconds


def _cents(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 2**53 - 1:
        raise ValueError("must be a whole number of cents from 1 up")
    return int(text)


class Setting(NamedTuple):
    """How a setting's text is read (ValueError says what is allowed), and what it is for."""

    read: Callable[[str], Any]
    about: str


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that `dealer serve` is told. What has no default is needed."""

    listen: Annotated[str, Setting(_address, "Where to listen, HOST:PORT; port 0 for any free one.")] = "127.0.0.1:7444"
    rngsvc: Annotated[str, Setting(_address, "The shuffle service, HOST:PORT.")]
    log_key: Annotated[str, Setting(_log_key, "The verifier key of the shuffle service's log.")]
    auditor_x25519: Annotated[bytes, Setting(_public_key, "The auditor's X25519 public key, in hex.")]
    auditor_ed25519: Annotated[bytes, Setting(_public_key, "The auditor's Ed25519 public key, in hex.")]
    store: Annotated[
        Location,
        Setting(
            Location.parse,
            "Where tables are kept: sqlite:PATH, postgresql://[user@]host/database[?schema=NAME], memory:.",
        ),
    ]
    standby: Annotated[
        bool,
        Setting(_yes_or_no, "Wait while another dealer holds the store, and take over when it ends: true or false."),
    ] = False
    token_key: Annotated[Path, Setting(Path, "The file with the key of players' tokens, 64 hex digits.")]
    http_operator: Annotated[
        str, Setting(_address, "Where /metrics, /healthz and /readyz are, HOST:PORT, over plain HTTP.")
    ] = "127.0.0.1:7491"
    drain_s: Annotated[
        float, Setting(_seconds, "How long hands may take to end after SIGTERM; then they are kept for the next start.")
    ] = 20.0
    grant: Annotated[int, Setting(_cents, "Play money that each player is given once, in cents.")] = 100_000
    tls_certificate: Annotated[Path | None, Setting(Path, "The server's certificate chain, PEM.")] = None
    tls_key: Annotated[Path | None, Setting(Path, "The server's private key, PEM.")] = None
    rngsvc_ca: Annotated[Path | None, Setting(Path, "Who vouches for the shuffle service, PEM.")] = None
    rngsvc_certificate: Annotated[Path | None, Setting(Path, "The certificate that this dealer shows it, PEM.")] = None
    rngsvc_key: Annotated[Path | None, Setting(Path, "The private key for it, PEM.")] = None


SETTINGS: Final[Mapping[str, Setting]] = {
    name: next(each for each in get_args(hint) if isinstance(each, Setting))
    for name, hint in get_type_hints(Settings, include_extras=True).items()
}
_NEEDED: Final = frozenset(each.name for each in fields(Settings) if each.default is MISSING)


def load(flags: Mapping[str, str | None], environment: Mapping[str, str], file: Path | None) -> Settings:
    """Return the merged settings. Raises ConfigurationRefused."""
    problems: list[str] = []
    path = file or (
        Path(environment[CONFIGURATION_FILE_VARIABLE]) if CONFIGURATION_FILE_VARIABLE in environment else None
    )
    from_file: dict[str, Any] = {}
    if path is not None:
        try:
            from_file = tomllib.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise ConfigurationRefused([f"{path}: {error}"]) from error
    problems += [f"{name} ({path}): is no setting" for name in from_file if name not in SETTINGS]
    problems += [
        f"{name}: is no setting"
        for name in environment
        if name.startswith(PREFIX)
        and name != CONFIGURATION_FILE_VARIABLE
        and name.removeprefix(PREFIX).lower() not in SETTINGS
    ]
    values: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        found = [
            (f"--{name.replace('_', '-')}", flags.get(name)),
            (PREFIX + name.upper(), environment.get(PREFIX + name.upper())),
            (str(path), from_file.get(name)),
        ]
        source, text = next(((s, t) for s, t in found if t is not None), ("", None))
        if text is None:
            if name in _NEEDED:
                problems.append(f"{name}: is needed. {setting.about}")
            continue
        try:
            values[name] = setting.read(str(text))
        except ValueError as error:
            problems.append(f"{name} ({source}): {error}")
    if not problems:
        settings = Settings(**values)
        problems = _contradictions(settings)
    if problems:
        raise ConfigurationRefused(problems)
    return settings


def _contradictions(settings: Settings) -> list[str]:
    problems = []
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        problems.append("tls_certificate and tls_key go together")
    if settings.tls_certificate is None and not _is_loopback(settings.listen):
        problems.append("listen: without TLS only a loopback address is allowed")
    client_side = (settings.rngsvc_ca, settings.rngsvc_certificate, settings.rngsvc_key)
    if any(client_side) != all(client_side):
        problems.append("rngsvc_ca, rngsvc_certificate and rngsvc_key go together")
    return problems


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_token_key(path: Path) -> bytes:
    """Return the key of players' tokens. Raises ConfigurationRefused if it is none or others can read it."""
    try:
        mode = path.stat().st_mode
        key = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError):
        key, mode = b"", 0
    if len(key) != KEY_BYTES:
        raise ConfigurationRefused([f"token_key: {path} must hold {2 * KEY_BYTES} hex digits"])
    if mode & 0o077:
        raise ConfigurationRefused([f"token_key: {path} must be readable by its owner only (mode 0600)"])
    return key
