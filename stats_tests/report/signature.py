"""The signature of a report: a short statement, signed as a C2SP note with the auditor's key.

A note is limited to 65,536 characters and a report is longer, so the note names the report by its SHA-256. The
statement also carries verdict and sample, so that a log can record it without the report.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.signed_note import NoteKey, sign, verify
from stats_tests.report.document import ReportError, digest

STATEMENT: Final = "stats_tests report/1"


@dataclass(frozen=True, slots=True)
class AuditorKey:
    """Who signs."""

    key: NoteKey
    sign: Callable[[bytes], bytes]


def load_key(path: Path, name: str) -> AuditorKey:
    """Read an Ed25519 private key in PEM (PKCS #8).

    Raises:
        ReportError: the file holds no such key, or the name does not fit a note.
    """
    try:
        private = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise ReportError(f"--key {path}: no unencrypted private key in PEM: {error}") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise ReportError(f"--key {path}: the key is not Ed25519")
    try:
        key = NoteKey(name, private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
    except MalformedError as error:
        raise ReportError(f"--key-name: {error}") from error
    return AuditorKey(key, private.sign)


def statement(report: dict[str, Any], raw: bytes) -> str:
    """Return the text that is signed."""
    sample = report["campaigns"][-1]["sample"]
    lines = [
        STATEMENT,
        f"report sha256 {digest(raw)}",
        f"verdict {report['verdict']}",
        f"battery {report['plan']['battery']}",
        f"sample {sample['items']} {report['plan']['kind']} merkle {sample['merkle_root']}",
        f"code sha256 {report['code']['stats_tests']}",
        f"time {report['time'] or 'not given'}",
    ]
    return "".join(f"{line}\n" for line in lines)


def sign_report(report: dict[str, Any], raw: bytes, auditor: AuditorKey) -> str:
    """Return the signed note."""
    return sign(statement(report, raw), auditor.key, auditor.sign)


def verify_signature(report: dict[str, Any], raw: bytes, note: str, key: NoteKey) -> None:
    """Raise ReportError unless `key` signed exactly this report."""
    try:
        text = verify(note, [key])
    except (MalformedError, ProofError) as error:
        raise ReportError(f"signature: {error}") from error
    if text != statement(report, raw):
        raise ReportError("signature: it is valid, but of another report")
