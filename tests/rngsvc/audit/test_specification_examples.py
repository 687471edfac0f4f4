"""The examples that stand in the C2SP specifications themselves, byte for byte.

Only signed-note gives its example's public key; the others are read, taken apart and put together again.
"""

from itertools import chain, combinations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.cosignature import CosignerKey, cosign, cosigned_bytes
from rngsvc.protocol.errors import ProofError
from rngsvc.protocol.policy import Policy
from rngsvc.protocol.signed_note import NoteKey, SignedNote, base64_bytes
from rngsvc.protocol.tiles import Tile
from rngsvc.witness import parse_request, request_body

BEHIND_THE_SOFA = """\
example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=
"""
LOG_LINE = (
    "— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/"
    "Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
)
WITNESS_LINE = (
    "— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0"
    "xUe+mbIUBkBIfZ+qnA==\n"
)


def test_the_checkpoint_of_tlog_checkpoint() -> None:
    note = SignedNote.parse(BEHIND_THE_SOFA + "\n" + LOG_LINE)
    checkpoint = Checkpoint.parse(note.text)
    assert (checkpoint.origin, checkpoint.size) == ("example.com/behind-the-sofa", 20_852_163)
    assert checkpoint.root == base64_bytes("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=", "root")
    assert checkpoint.text == BEHIND_THE_SOFA
    assert note.encode() == BEHIND_THE_SOFA + "\n" + LOG_LINE
    assert len(note.signatures[0].signature) == 64


def test_the_cosigned_checkpoint_of_tlog_cosignature() -> None:
    note = SignedNote.parse(BEHIND_THE_SOFA + "\n" + LOG_LINE + WITNESS_LINE)
    assert note.encode() == BEHIND_THE_SOFA + "\n" + LOG_LINE + WITNESS_LINE
    cosignature = note.signatures[1]
    assert cosignature.name == "witness.example.com/w1"
    assert len(cosignature.signature) == 8 + 64
    assert int.from_bytes(cosignature.signature[:8], "big") == 1_679_315_147
    # The message that the specification shows for this time.
    assert cosigned_bytes(note.text, 1_679_315_147) == (
        b"cosignature/v1\ntime 1679315147\n"
        b"example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    )


def test_the_request_of_tlog_witness() -> None:
    second = (
        "— example.com/behind-the-sofa opLqBQsREYCgu6xQkYQwJr9fo45a62DN9EdmHXnZdXNqlcVGlCum2Wks+49/V6267UEjw6QUXTS5"
        "Rovnzv++qbSzm9Q=\n"
    )
    body = f"""\
old 20852014
PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=
/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=

{BEHIND_THE_SOFA}
{LOG_LINE}{second}""".encode()
    old, proof, note = parse_request(body)
    assert (old, len(proof), len(note.signatures)) == (20_852_014, 4, 2)
    assert all(len(each) == 32 for each in proof)
    assert request_body(old, proof, note.encode()) == body


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 1_234_067), "tile/0/x001/x234/067"),
        (Tile(0, 273, 112), "tile/0/273.p/112"),
        (Tile(1, 1, 17), "tile/1/001.p/17"),
        (Tile(None, 273, 112), "tile/entries/273.p/112"),
    ],
)
def test_the_paths_of_tlog_tiles(tile: Tile, path: str) -> None:
    assert tile.path == path
    assert Tile.parse(path) == tile


def test_the_policy_of_tlog_policy_wants_two_of_x_and_any_of_y() -> None:
    """All 64 sets of the example's six witnesses."""
    log = Ed25519PrivateKey.generate()
    log_key = NoteKey("example.com/log", log.public_key().public_bytes_raw())
    witnesses = {name: Ed25519PrivateKey.generate() for name in ("X1", "X2", "X3", "Y1", "Y2", "Y3")}
    keys = {
        name: CosignerKey(f"example.com/{name}", private.public_key().public_bytes_raw())
        for name, private in witnesses.items()
    }
    policy = Policy.parse(
        f"""\
log {log_key.vkey}

witness X1 {keys["X1"].vkey}
witness X2 {keys["X2"].vkey}
witness X3 {keys["X3"].vkey}
group X-witnesses 2 X1 X2 X3

witness Y1 {keys["Y1"].vkey}
witness Y2 {keys["Y2"].vkey}
witness Y3 {keys["Y3"].vkey}
group Y-witnesses any Y1 Y2 Y3

group X-and-Y all X-witnesses Y-witnesses
quorum X-and-Y
""".encode()
    )
    note = SignedNote.parse(Checkpoint(log_key.name, 7, bytes(32)).sign(log_key, log.sign))
    for cosigners in chain.from_iterable(combinations(witnesses, count) for count in range(7)):
        lines = tuple(cosign(note.text, keys[name], witnesses[name].sign, 1_679_315_147) for name in cosigners)
        cosigned = SignedNote(note.text, (*note.signatures, *lines))
        enough = sum(name[0] == "X" for name in cosigners) >= 2 and any(name[0] == "Y" for name in cosigners)
        if enough:
            assert policy.verify(cosigned).size == 7
        else:
            with pytest.raises(ProofError):
                policy.verify(cosigned)
