"""Who may call what: roles come from client certificates, and one table says which role covers which method."""

from functools import lru_cache
from typing import Final

from rngsvc.calls import Caller
from rngsvc.errors import PermissionDenied, Reason, Unauthenticated
from rngsvc.keys.identity import Identity, IdentityRefused, Role

_ALL: Final = frozenset(Role)
_PLAY: Final = frozenset({Role.GAME_SERVER, Role.OPERATOR})

# Methods by "service/method"; what is not here is refused to everybody.
METHOD_ROLES: Final[dict[str, frozenset[Role]]] = {
    **{
        f"rngsvc.v1.ShuffleService/{method}": _PLAY
        for method in (
            "RegisterTable",
            "ReserveHands",
            "PromiseSeeds",
            "SealShuffle",
            "ChooseTwin",
            "Reshuffle",
            "OpenCards",
            "CloseHand",
            "DrawNumbers",
            "GetHand",
            "ListHands",
            "BatchReserveHands",
            "BatchSealShuffle",
            "BatchChooseTwin",
            "BatchOpenCards",
            "BatchCloseHand",
        )
    },
    **{
        f"rngsvc.v1.LogService/{method}": _ALL
        for method in ("GetCheckpoint", "GetProof", "GetConsistencyProof", "StreamEntries")
    },
    "rngsvc.v1.AuditService/Sample": frozenset({Role.AUDITOR}),
    "rngsvc.v1.AuditService/OpenHand": frozenset({Role.AUDITOR}),
    "rngsvc.v1.AuditService/RecordResult": frozenset({Role.AUDITOR, Role.OPERATOR}),
    "rngsvc.v1.AuditService/ListResults": frozenset({Role.AUDITOR, Role.MONITOR, Role.OPERATOR}),
}

# Without TLS the server listens on loopback only: whoever can connect is on this machine and has every role.
LOCAL: Final = Caller("local", is_operator=True)


def caller_of(method: str, certificate: bytes | None, *, has_tls: bool) -> Caller:
    """Return who calls ``method`` ("service/method"), or refuse.

    ``certificate`` (PEM) is the client's; its chain was verified against the configured authorities.
    """
    if not has_tls:
        return LOCAL
    if certificate is None:
        raise Unauthenticated(Reason.UNAUTHENTICATED, "a client certificate is needed")
    identity = _identity(certificate)
    roles = METHOD_ROLES.get(method, frozenset())
    if identity.role not in roles:
        allowed = ", ".join(sorted(roles)) or "nobody"
        raise PermissionDenied(Reason.WRONG_ROLE, f"{method} is for {allowed}, not for {identity.role}")
    return Caller(identity.name, is_operator=identity.role is Role.OPERATOR)


@lru_cache(maxsize=1024)
def _identity(certificate: bytes) -> Identity:
    try:
        return Identity.from_certificate(certificate)
    except IdentityRefused as error:
        raise Unauthenticated(Reason.UNAUTHENTICATED, f"the client certificate names no role: {error}") from None
