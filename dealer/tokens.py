"""Short-lived tokens: who a caller is, until when, signed by the card room.

A token is ``base64url(claims).base64url(HMAC-SHA-256 of the claims' text)``; the claims are JSON. Whoever has the key
can make tokens, so it stays with the server and with those who let players in.
"""

import base64
import binascii
import hmac
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

KEY_BYTES: Final = 32
MAX_LIFE_S: Final = 86_400
_PLAYER: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MAX_TOKEN: Final = 1_024


class Role(StrEnum):
    """What a caller may do: play under his own name, or open tables."""

    PLAYER = "player"
    OPERATOR = "operator"


class TokenRefused(Exception):
    """The token is malformed, not signed with this key, or has expired; the message says nothing about the key."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who calls. ``player`` is 1..64 characters of ``A-Z a-z 0-9 . _ -``."""

    player: str
    role: Role = Role.PLAYER

    def __post_init__(self) -> None:
        if not _PLAYER.fullmatch(self.player):
            raise ValueError("player: must be 1..64 characters of A-Z a-z 0-9 . _ -")

    @property
    def plays_as(self) -> str:
        """The player whose cards the caller may see: nobody's for an operator, whatever his name."""
        return self.player if self.role is Role.PLAYER else ""


def make_token(key: bytes, identity: Identity, expires_s: int) -> str:
    """Return a token for ``identity`` that holds until ``expires_s``, seconds since 1970."""
    claims = json.dumps({"player": identity.player, "role": identity.role.value, "exp": expires_s}).encode()
    text = _encode(claims)
    return f"{text}.{_encode(_mac(key, text))}"


def read_token(key: bytes, token: str, now_s: float) -> Identity:
    """Return who holds ``token``. Raises TokenRefused."""
    text, _, signature = token[:_MAX_TOKEN].partition(".")
    try:
        given = _decode(signature)
    except (ValueError, binascii.Error):
        raise TokenRefused("the token is malformed") from None
    if not hmac.compare_digest(given, _mac(key, text)):
        raise TokenRefused("the token is not signed by this card room")
    claims = json.loads(_decode(text))
    if now_s >= claims["exp"]:
        raise TokenRefused("the token has expired")
    return Identity(claims["player"], Role(claims["role"]))


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, b"dealer/token\0" + text.encode(), "sha256")


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
