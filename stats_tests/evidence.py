"""Self-test evidence: the file in which this very code has shown that it catches what it must."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import rfc8785

from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.signed_note import NoteKey, SignedNote
from stats_tests.battery import Battery
from stats_tests.manifest import code_hash

SCHEMA: Final = "stats_tests-selftest/1"


class EvidenceError(ValueError):
    """The evidence is none, or not of this code."""


def encode(evidence: dict[str, Any]) -> bytes:
    """Return the text of the evidence: canonical JSON and a line break."""
    return rfc8785.dumps(evidence) + b"\n"


def load(path: Path, key: NoteKey | None) -> dict[str, Any]:
    """Return what a report says of the evidence in `path`, a signed note or, unsigned, its text alone.

    Args:
        path: the file that `selftest` wrote.
        key: whose signature is asked for; None takes any, and says that it was not checked.

    Raises:
        EvidenceError: no evidence, a failed one, one of other code, or without the signature asked for.
    """
    try:
        raw = path.read_bytes().decode()
        signed = "\n\n" in raw
        note = SignedNote.parse(raw) if signed or key is not None else SignedNote(raw, ())
        evidence = json.loads(note.text if key is None else note.verified([key]))
    except (OSError, ValueError, RecursionError, MalformedError, ProofError) as error:
        raise EvidenceError(f"--evidence {path}: {error}") from error
    if not isinstance(evidence, dict) or evidence.get("schema") != SCHEMA:
        raise EvidenceError(f"--evidence {path}: not a self-test of schema {SCHEMA}")
    if evidence["code"] != code_hash():
        raise EvidenceError(
            f"--evidence {path}: it is of other code, {evidence['code'][:16]}; this is {code_hash()[:16]}"
        )
    if evidence["passed"] is not True:
        raise EvidenceError(f"--evidence {path}: that self-test failed")
    return {
        "sha256": sha256(raw.encode()).hexdigest(),
        "code": evidence["code"],
        "full": evidence["full"],
        "time": evidence["time"],
        "signature": "checked" if key is not None else "not checked" if signed else "UNSIGNED",
    }


def evidence_for(battery: Battery, path: Path | None) -> dict[str, Any]:
    """Return what a report of `battery` says of the evidence in `path`, or that there is none.

    Raises:
        EvidenceError: as `load`; or the battery is certification and no full self-test of this code is given.
    """
    known = NONE if path is None else load(path, None)
    if battery is Battery.CERTIFICATION and not known.get("full"):
        raise EvidenceError("battery certification needs --evidence of a full self-test of this code")
    return known


NONE: Final[dict[str, Any]] = {"none": "no self-test evidence was given for this code"}
