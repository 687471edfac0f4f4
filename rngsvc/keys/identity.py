"""Who a client is: a role and a name, carried as a URI in the subject alternative name of his certificate.

`rngsvc://role/ROLE/NAME`, for example `rngsvc://role/game-server/table-floor-2`. NAME has 1 to 64 letters, digits,
dots, hyphens and underscores. One certificate carries one such URI; other alternative names are ignored.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cryptography import x509

_URI: Final = re.compile(r"rngsvc://role/([a-z-]+)/([A-Za-z0-9._-]{1,64})", re.ASCII)


class Role(StrEnum):
    """What a client may do; which calls belong to which role is the server's table."""

    GAME_SERVER = "game-server"
    AUDITOR = "auditor"
    MONITOR = "monitor"
    OPERATOR = "operator"


class IdentityRefused(Exception):
    """A certificate, or a URI, does not say who its holder is."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A client: his role, and the name under which he owns tables."""

    role: Role
    name: str

    def __post_init__(self) -> None:
        if not _URI.fullmatch(self.uri):
            raise IdentityRefused("name: must be 1 to 64 of letters, digits, dot, hyphen and underscore")

    @property
    def uri(self) -> str:
        """Return the URI that stands in the certificate."""
        return f"rngsvc://role/{self.role}/{self.name}"

    @classmethod
    def from_uri(cls, uri: str) -> "Identity":
        """Read the URI.

        Raises:
            IdentityRefused: it is not of this form, or the role is unknown.
        """
        match = _URI.fullmatch(uri)
        if not match or match[1] not in list(Role):
            raise IdentityRefused(f"uri: must be rngsvc://role/ROLE/NAME, where ROLE is one of {', '.join(Role)}")
        return cls(Role(match[1]), match[2])

    @classmethod
    def from_certificate(cls, pem: bytes) -> "Identity":
        """Return whom a certificate, whose chain the TLS stack has verified, stands for.

        Raises:
            IdentityRefused: it cannot be read, or does not carry exactly one URI of ours.
        """
        try:
            names = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName)
            uris = names.value.get_values_for_type(x509.UniformResourceIdentifier)
        except (ValueError, x509.ExtensionNotFound):
            raise IdentityRefused("certificate: has no readable subject alternative name") from None
        ours = [uri for uri in uris if uri.startswith("rngsvc:")]
        if len(ours) != 1:
            raise IdentityRefused(f"certificate: must carry exactly one rngsvc:// URI, carries {len(ours)}")
        return cls.from_uri(ours[0])
