"""Which cosignatures make a checkpoint good: a trust policy file (C2SP tlog-policy).

```
log cardroom.example/rng+...
witness W1 witness.example/w1+... https://witness.example/
witness W2 other.example/w2+...
group both all W1 W2
quorum both
```
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.cosignature import CosignerKey, cosignatures
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.signed_note import NoteKey, SignedNote

NONE: Final = "none"
_ALLOWED: Final = frozenset({0x09, 0x0A, *range(0x20, 0x7F), *range(0x80, 0x100)})


@dataclass(frozen=True)
class Witness:
    """A witness of the policy: his key, and where checkpoints are submitted to him ("" if that is not said)."""

    key: CosignerKey
    url: str = ""


@dataclass(frozen=True)
class Group:
    """Has witnessed a checkpoint when ``threshold`` of its ``members`` have, each a witness or another group."""

    threshold: int
    members: tuple[str, ...]


@dataclass(frozen=True)
class Policy:
    """Logs, witnesses and groups by their names in the file, and the name whose witnessing is required."""

    logs: tuple[NoteKey, ...]
    witnesses: Mapping[str, Witness]
    groups: Mapping[str, Group]
    quorum: str

    @classmethod
    def parse(cls, raw: bytes) -> "Policy":
        """Read a policy file; MalformedError names the line that is wrong."""
        if not _ALLOWED.issuperset(raw):
            raise MalformedError("policy", "must have no control characters but tab and line break")
        reader = _Reader()
        for number, line in enumerate(raw.split(b"\n"), 1):
            words = line.replace(b"\t", b" ").split(b" ")
            items = [word.decode("latin-1") for word in words if word]
            if items and not items[0].startswith("#"):
                reader.read(f"policy line {number}", items)
        if reader.quorum is None:
            raise MalformedError("policy", "must have a quorum line")
        return cls(tuple(reader.logs), reader.witnesses, reader.groups, reader.quorum)

    def is_met_by(self, cosigners: AbstractSet[str]) -> bool:
        """Say whether the named witnesses make the quorum."""
        return self.quorum == NONE or self._witnessed(self.quorum, cosigners)

    def _witnessed(self, name: str, cosigners: AbstractSet[str]) -> bool:
        group = self.groups.get(name)
        if group is None:
            return name in cosigners
        return sum(self._witnessed(member, cosigners) for member in group.members) >= group.threshold

    def verify(self, note: SignedNote) -> Checkpoint:
        """Return the checkpoint in ``note`` if a log of the policy has signed it and the quorum has cosigned it.

        Raises MalformedError or ProofError.
        """
        checkpoint = Checkpoint.parse(note.verified(self.logs))
        self.verify_quorum(note)
        return checkpoint

    def verify_quorum(self, note: SignedNote) -> set[str]:
        """Return the names of the witnesses that have cosigned ``note``; ProofError if they make no quorum."""
        seen = cosignatures(note, [witness.key for witness in self.witnesses.values()])
        cosigners = {name for name, witness in self.witnesses.items() if witness.key in seen}
        if not self.is_met_by(cosigners):
            by = ", ".join(sorted(cosigners)) or "nobody known"
            raise ProofError(f"the checkpoint is cosigned by {by}, which is not the quorum {self.quorum}")
        return cosigners


NO_WITNESSES: Final = Policy((), {}, {}, NONE)
"""The policy that asks for nobody's cosignature."""


class _Reader:
    """Takes a policy file line by line; names must be defined before they are used."""

    def __init__(self) -> None:
        self.logs: list[NoteKey] = []
        self.witnesses: dict[str, Witness] = {}
        self.groups: dict[str, Group] = {}
        self.quorum: str | None = None
        self._members: set[str] = set()

    def read(self, where: str, items: list[str]) -> None:
        match items:
            case ["log", vkey] | ["log", vkey, _]:
                self._log(where, NoteKey.from_vkey(vkey))
            case ["witness", name, vkey]:
                self._witness(where, name, Witness(CosignerKey.from_vkey(vkey)))
            case ["witness", name, vkey, url]:
                self._witness(where, name, Witness(CosignerKey.from_vkey(vkey), url))
            case ["group", name, threshold, *members] if members:
                self._group(where, name, threshold, members)
            case ["quorum", name]:
                self._quorum(where, name)
            case _:
                raise MalformedError(where, "must be a log, witness, group or quorum line with its parts")

    def _log(self, where: str, key: NoteKey) -> None:
        if any(key.public_key == known.public_key for known in self.logs):
            raise MalformedError(where, "must not repeat a log's key")
        self.logs.append(key)

    def _witness(self, where: str, name: str, witness: Witness) -> None:
        if any(witness.key.public_key == known.key.public_key for known in self.witnesses.values()):
            raise MalformedError(where, "must not repeat a witness's key")
        self._check_new(where, name)
        self.witnesses[name] = witness

    def _group(self, where: str, name: str, threshold: str, members: list[str]) -> None:
        self._check_new(where, name)
        for member in members:
            if member not in self.witnesses and member not in self.groups:
                raise MalformedError(where, f"names {member}, which is not defined before")
            if member in self._members:
                raise MalformedError(where, f"names {member}, which is a member already")
            self._members.add(member)
        counts = {"all": len(members), "any": 1}
        if threshold.isdecimal() and threshold.isascii() and not threshold.startswith("0"):
            counts[threshold] = int(threshold)
        if not 1 <= counts.get(threshold, 0) <= len(members):
            raise MalformedError(where, f"must have all, any or a number from 1 to {len(members)}")
        self.groups[name] = Group(counts[threshold], tuple(members))

    def _quorum(self, where: str, name: str) -> None:
        if self.quorum is not None:
            raise MalformedError(where, "must be the only quorum line")
        if name != NONE and name not in self.witnesses and name not in self.groups:
            raise MalformedError(where, f"names {name}, which is not defined before")
        self.quorum = name

    def _check_new(self, where: str, name: str) -> None:
        if name == NONE or name in self.witnesses or name in self.groups:
            raise MalformedError(where, f"must not define {name} again")
