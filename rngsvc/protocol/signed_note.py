"""Signed notes (C2SP signed-note) with Ed25519 signatures: a text, an empty line, one line for each signature.

Keys come in as public bytes and signing is a function that the caller brings, so that a key may stay in a token.
A note is read strictly: one accepted encoding, everything else is refused with its reason.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.octets import sha256

ED25519: Final = 0x01  # the signature type byte
MAX_SIGNATURES: Final = 64
MAX_NOTE_CHARACTERS: Final = 65_536

Signer = Callable[[bytes], bytes]
"""Gives the 64-byte Ed25519 signature of a message."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}", re.ASCII)


def base64_text(value: bytes) -> str:
    """Return standard base64 (RFC 4648 section 4)."""
    return b64encode(value).decode("ascii")


def base64_bytes(text: str, field: str) -> bytes:
    """Return what ``text`` encodes; MalformedError naming ``field`` unless it is the one canonical encoding."""
    if _BASE64.fullmatch(text) and len(text) % 4 == 0:
        value = b64decode(text)
        if base64_text(value) == text:
            return value
    raise MalformedError(field, "must be standard base64 with its padding")


def check_key_name(name: str, field: str) -> None:
    """Raise MalformedError unless ``name`` is 1..255 printable ASCII characters without space and plus."""
    if not 1 <= len(name) <= 255 or not all("!" <= each <= "~" and each != "+" for each in name):
        raise MalformedError(field, "must be 1..255 printable ASCII characters without space and plus")


def verify_ed25519(public_key: bytes, signature: bytes, message: bytes, what: str) -> None:
    """Raise ProofError, saying ``what`` is wrong, unless ``signature`` is the raw ``public_key``'s on ``message``."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError) as error:
        raise ProofError(f"{what} is not valid") from error


@dataclass(frozen=True)
class NoteKey:
    """Who signs: a name and his raw 32-byte Ed25519 public key."""

    signature_type: ClassVar = ED25519

    name: str
    public_key: bytes

    def __post_init__(self) -> None:
        check_key_name(self.name, "name")
        if len(self.public_key) != 32:
            raise MalformedError("public_key", "must be 32 bytes")

    @property
    def key_id(self) -> bytes:
        """Return the four bytes by which a signature line names its key."""
        return sha256(self.name.encode("ascii"), b"\n", bytes((self.signature_type,)), self.public_key)[:4]

    @property
    def vkey(self) -> str:
        """Return the verifier key text: name, id in hex, type and key in base64, joined by plus."""
        return f"{self.name}+{self.key_id.hex()}+{base64_text(bytes((self.signature_type,)) + self.public_key)}"

    @classmethod
    def from_vkey(cls, text: str) -> Self:
        """Read a verifier key text; MalformedError if it is not one of this type or its id is wrong."""
        parts = text.split("+", 2)
        if len(parts) != 3:
            raise MalformedError("vkey", "must be name+id+key")
        name, key_id, encoded = parts
        typed = base64_bytes(encoded, "vkey")
        if len(typed) != 33 or typed[0] != cls.signature_type:
            raise MalformedError("vkey", f"must hold an Ed25519 key (type {cls.signature_type:02x})")
        key = cls(name, typed[1:])
        if key.key_id.hex() != key_id:
            raise MalformedError("vkey", "must carry the id of its own key")
        return key


@dataclass(frozen=True)
class Signature:
    """One signature line: the key's name and id, and the signature itself."""

    name: str
    key_id: bytes
    signature: bytes

    def encode(self) -> str:
        """Return the line, with its line break."""
        return f"— {self.name} {base64_text(self.key_id + self.signature)}\n"


@dataclass(frozen=True)
class SignedNote:
    """A text that ends in a line break, and its signatures; nothing is verified yet."""

    text: str
    signatures: tuple[Signature, ...]

    def encode(self) -> str:
        """Return the note."""
        return self.text + "\n" + "".join(each.encode() for each in self.signatures)

    @classmethod
    def parse(cls, note: str) -> "SignedNote":
        """Read a note strictly; MalformedError says what is wrong."""
        if len(note) > MAX_NOTE_CHARACTERS:
            raise MalformedError("note", f"must be at most {MAX_NOTE_CHARACTERS} characters")
        if any(each < " " and each != "\n" for each in note):
            raise MalformedError("note", "must have no control character but line breaks")
        text, blank, lines = note.rpartition("\n\n")
        if not blank or not lines.endswith("\n"):
            raise MalformedError("note", "must be a text, an empty line and signature lines")
        listed = lines[:-1].split("\n")
        if len(listed) > MAX_SIGNATURES:
            raise MalformedError("note", f"must have at most {MAX_SIGNATURES} signatures")
        return cls(text + "\n", tuple(_parse_line(line) for line in listed))

    def with_signature(self, key: NoteKey, signer: Signer) -> "SignedNote":
        """Return the note with one signature more, by ``key``."""
        mine = Signature(key.name, key.key_id, signer(self.text.encode()))
        return SignedNote(self.text, (*self.signatures, mine))

    def verified(self, keys: Iterable[NoteKey]) -> str:
        """Return the text once at least one of ``keys`` has signed it.

        Signatures of other keys are ignored, as the format demands; a wrong one of a known key refuses the note.
        Raises ProofError.
        """
        known = {(key.name, key.key_id): key for key in keys}
        found = False
        for line in self.signatures:
            key = known.get((line.name, line.key_id))
            if key is not None:
                what = f"the signature of {key.name} ({key.key_id.hex()})"
                verify_ed25519(key.public_key, line.signature, self.text.encode(), what)
                found = True
        if not found:
            raise ProofError("no known key has signed the note")
        return self.text


def sign(text: str, key: NoteKey, signer: Signer) -> str:
    """Return the note that is ``text`` signed by ``key``; ``text`` ends in a line break."""
    if not text.endswith("\n") or any(each < " " and each != "\n" for each in text):
        raise MalformedError("text", "must end in a line break and have no other control character")
    return SignedNote(text, ()).with_signature(key, signer).encode()


def verify(note: str, keys: Iterable[NoteKey]) -> str:
    """Return the text of ``note`` if one of ``keys`` signed it; MalformedError or ProofError if not."""
    return SignedNote.parse(note).verified(keys)


def _parse_line(line: str) -> Signature:
    parts = line.split(" ")
    if len(parts) != 3 or parts[0] != "—":
        raise MalformedError("note", "must have signature lines of dash, key name and base64")
    if not parts[1] or "+" in parts[1] or any(each.isspace() for each in parts[1]):
        raise MalformedError("note", "must name each signature's key without spaces and plus")
    value = base64_bytes(parts[2], "note")
    if len(value) <= 4:
        raise MalformedError("note", "must have a key id and a signature in each signature line")
    return Signature(parts[1], value[:4], value[4:])
