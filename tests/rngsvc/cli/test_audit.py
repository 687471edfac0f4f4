"""`rngsvc audit` over a store, a folder of tiles and a web address: the same log, the same verdict."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from rngsvc.audit import Audit, SourceUnreadable, TilesFolder
from rngsvc.client import SyncClient, TilesLog
from rngsvc.client.errors import CheckpointRejected, InclusionUnproven
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.keys.signing import SigningKey
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.entries import SampleEntry
from rngsvc.protocol.merkle import leaf_hash, root_of
from rngsvc.protocol.signed_note import NoteKey, base64_text
from rngsvc.protocol.tiles import Tile, encode_bundle
from rngsvc.protocol.tlog_proof import TlogProof
from tests.rngsvc.cli.command_line import rngsvc
from tests.rngsvc.conftest import RunningService, serve_ephemeral
from tests.scale import scaled


@pytest.fixture(scope="module")
def own_service() -> Iterator[RunningService]:
    """A log with one full tile and a partial one."""
    for service in serve_ephemeral():
        with SyncClient.connect(service.grpc, log_key=service.log_key) as client:
            tables = [client.register_table(os.urandom(16)) for _ in range(30)]
            for _ in range(3):
                hands = [pair[0] for pair in client.reserve_all(tables)]  # type: ignore[index]
                client.seal_all(hands, 5)
                client.close_all(hands)
        yield service


def test_store_folder_and_address_give_the_same_verdict(own_service: RunningService, tmp_path: Path) -> None:
    key = ("--log-key", own_service.log_key, "--json")
    by_web = rngsvc("audit", own_service.http, *key)
    by_store = rngsvc("audit", own_service.folder / "log.sqlite3", *key)
    assert by_web.code == by_store.code == ExitCode.OK
    assert by_web.json == by_store.json
    assert by_web.json["size"] == 301
    assert by_web.json["entries"] == {"integrity": 1, "table": 30, "reserve": 90, "seal": 90, "close": 90}
    for path in ("checkpoint", "tile/0/000", "tile/0/001.p/45", "tile/1/000.p/1", "tile/entries/000",
                 "tile/entries/001.p/45"):  # fmt: skip
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with urlopen(f"{own_service.http}/{path}") as answer:
            file.write_bytes(answer.read())
    by_folder = rngsvc("audit", tmp_path, *key)
    assert by_folder.json == by_web.json


def test_people_read_the_same(own_service: RunningService) -> None:
    ran = rngsvc("audit", own_service.http, "--log-key", own_service.log_key)
    assert ran.code == ExitCode.OK
    assert "301 entries, 30 tables" in ran.stdout
    assert "90 hand complete" in ran.stdout


# --- A log of samples, made here, so that it can be wrong in every place ---


@pytest.fixture(scope="module")
def signer() -> tuple[NoteKey, SigningKey]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = SigningKey(Ed25519PrivateKey.generate())
    return NoteKey("made.example/log", key.public_key), key


def write_log(folder: Path, size: int, signer: tuple[NoteKey, SigningKey]) -> None:
    """Write a log of ``size`` samples as tiles."""
    entries = [SampleEntry(time=i, id=b"%d" % i, kind="bits", count=1).encode() for i in range(size)]
    level, hashes = 0, [leaf_hash(entry) for entry in entries]
    files = {"checkpoint": Checkpoint(signer[0].name, size, root_of(hashes)).sign(signer[0], signer[1].sign).encode()}
    for index in range((size + 255) // 256):
        files[Tile.covering(None, index, size).path] = encode_bundle(entries[256 * index : 256 * index + 256])
    while hashes:
        for index in range((len(hashes) + 255) // 256):
            files[Tile.covering(level, index, size).path] = b"".join(hashes[256 * index : 256 * index + 256])
        hashes = [root_of(hashes[i : i + 256]) for i in range(0, len(hashes) - 255, 256)]
        level += 1
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


@pytest.mark.parametrize("size", [1, 255, 256, 257, 512, 600, scaled(1000, 66_000)])
def test_a_log_of_any_size_passes(tmp_path: Path, signer: tuple[NoteKey, SigningKey], size: int) -> None:
    write_log(tmp_path, size, signer)
    seen: list[tuple[int, int]] = []
    audited = Audit(signer[0], progress=lambda done, total: seen.append((done, total))).run(TilesFolder(tmp_path))
    assert audited.passed
    assert seen[-1] == (size, size)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def say_another_root(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n600\n", b"\n600\n" + base64_text(bytes(32)).encode() + b"\n", 1))
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:3], *lines[4:]]))


def drop(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


DAMAGES: list[tuple[str, Callable[[Path], None], ExitCode, str]] = [
    ("tile/0/001", flip, ExitCode.CHECK_FAILED, "tile/0/001: does not hold"),
    ("tile/0/002.p/88", flip, ExitCode.CHECK_FAILED, "tile/0/002.p/88: does not hold"),
    ("tile/1/000.p/2", flip, ExitCode.CHECK_FAILED, "tile/1/000.p/2: does not hold"),
    ("tile/1/000.p/2", cut, ExitCode.CHECK_FAILED, "tile/1/000.p/2: does not hold"),
    ("tile/entries/001", flip, ExitCode.CHECK_FAILED, "tile/0/001: does not hold"),
    ("tile/entries/001", flip, ExitCode.CHECK_FAILED, "entry 511: "),
    ("tile/entries/001", cut, ExitCode.UNDECIDED, "tile/entries/001"),
    ("tile/entries/001", drop, ExitCode.UNDECIDED, "tile/entries/001: is not there"),
    ("tile/0/001", drop, ExitCode.UNDECIDED, "tile/0/001: is not there"),
    ("checkpoint", say_another_root, ExitCode.CHECK_FAILED, "do not give the signed root"),
    ("checkpoint", cut, ExitCode.UNDECIDED, "checkpoint: note"),
    ("checkpoint", drop, ExitCode.UNDECIDED, "checkpoint: is not there"),
]


@pytest.mark.parametrize(
    ("path", "damage", "code", "said"), DAMAGES, ids=[f"{row[1].__name__} {row[0]}" for row in DAMAGES]
)
def test_damage_is_found_where_it_is(
    tmp_path: Path,
    signer: tuple[NoteKey, SigningKey],
    path: str,
    damage: Callable[[Path], None],
    code: ExitCode,
    said: str,
) -> None:
    write_log(tmp_path, 600, signer)
    damage(tmp_path / path)
    ran = rngsvc("audit", tmp_path, "--log-key", signer[0].vkey)
    assert ran.code == code
    assert said in ran.stdout + ran.stderr


def test_a_full_tile_stands_for_the_partial_one_that_it_replaced(
    tmp_path: Path, signer: tuple[NoteKey, SigningKey]
) -> None:
    write_log(tmp_path, 300, signer)
    checkpoint = (tmp_path / "checkpoint").read_bytes()
    for partial in ("tile/0/001.p/44", "tile/1/000.p/1", "tile/entries/001.p/44"):
        (tmp_path / partial).unlink()
    write_log(tmp_path, 600, signer)
    (tmp_path / "checkpoint").write_bytes(checkpoint)
    (tmp_path / "tile/1/000.p/1").write_bytes((tmp_path / "tile/1/000.p/2").read_bytes()[:32])
    assert Audit(signer[0]).run(TilesFolder(tmp_path)).checkpoint.size == 300
    assert Audit(signer[0]).run(TilesFolder(tmp_path)).passed


def test_the_wrong_key_does_not_pass(own_service: RunningService) -> None:
    stranger = NoteKey(own_service.origin, bytes(32)).vkey
    ran = rngsvc("audit", own_service.http, "--log-key", stranger, "--json")
    assert ran.code == ExitCode.CHECK_FAILED
    assert "no known key" in ran.json["log_faults"][0]


def test_another_logs_checkpoint_does_not_pass(own_service: RunningService) -> None:
    key = NoteKey("other.example", NoteKey.from_vkey(own_service.log_key).public_key)
    assert rngsvc("audit", own_service.http, "--log-key", key.vkey).code == ExitCode.CHECK_FAILED


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("http://127.0.0.1:1", ExitCode.UNDECIDED),
        ("no-such-place", ExitCode.USAGE),
        (__file__, ExitCode.UNDECIDED),
        (str(Path(__file__).parent), ExitCode.UNDECIDED),
    ],
)
def test_a_source_that_is_none_is_named(source: str, code: ExitCode) -> None:
    ran = rngsvc("audit", source, "--log-key", NoteKey("a.example", bytes(32)).vkey)
    assert ran.code == code
    assert ran.stderr


def test_single_entries_are_proven_from_tiles_alone(tmp_path: Path, signer: tuple[NoteKey, SigningKey]) -> None:
    write_log(tmp_path, 600, signer)
    log = TilesLog(TilesFolder(tmp_path), signer[0])
    for index in (0, 1, 255, 256, 511, 512, 599):
        logged = log.entry(index)
        assert logged.entry.time == index
        assert TlogProof.parse(logged.proof_text).verify(logged.leaf, log.origin, [signer[0]]).size == 600
    assert [(run.first, len(run.entries)) for run in log.entries(250, 520)] == [(250, 6), (256, 256), (512, 8)]
    for outside in (-1, 600):
        with pytest.raises(IndexError):
            log.entry(outside)
    for outside in (0, 601):
        with pytest.raises(IndexError):
            log.consistency(outside)


def test_no_consistency_is_shown_from_tiles_that_contradict_each_other(
    tmp_path: Path, signer: tuple[NoteKey, SigningKey]
) -> None:
    write_log(tmp_path, 600, signer)
    log = TilesLog(TilesFolder(tmp_path), signer[0])
    assert log.consistency(500)
    flip(tmp_path / "tile/0/001")  # its last hash, which a tree of 512 ends with
    with pytest.raises(InclusionUnproven):
        TilesLog(TilesFolder(tmp_path), signer[0]).consistency(511)


TILE_DAMAGES = [
    ("tile/entries/001", flip, InclusionUnproven),
    ("tile/0/001", flip, InclusionUnproven),
    ("tile/1/000.p/2", flip, InclusionUnproven),
    ("checkpoint", say_another_root, CheckpointRejected),
    ("tile/entries/001", drop, SourceUnreadable),
]


@pytest.mark.parametrize(("path", "damage", "expected"), TILE_DAMAGES)
def test_damaged_tiles_prove_nothing(
    tmp_path: Path,
    signer: tuple[NoteKey, SigningKey],
    path: str,
    damage: Callable[[Path], None],
    expected: type[Exception],
) -> None:
    write_log(tmp_path, 600, signer)
    damage(tmp_path / path)
    with pytest.raises(expected):
        # A proof needs its entry's neighbour, so that both are asked for.
        list(TilesLog(TilesFolder(tmp_path), signer[0]).entries(510, 512))


def test_an_audit_needs_every_entry(tmp_path: Path, signer: tuple[NoteKey, SigningKey]) -> None:
    write_log(tmp_path, 300, signer)
    (tmp_path / "tile/entries/001.p/44").write_bytes(encode_bundle([b"{}"] * 43))
    with pytest.raises(SourceUnreadable, match="has 43 entries, not 44"):
        Audit(signer[0]).run(TilesFolder(tmp_path))
