"""Game servers that play through a drill, remember all they were told, and can be asked whether it still holds."""

import json
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Self

from rngsvc.client import Credentials, SyncClient
from tests.drills.account import Account, Failed
from tests.scale import scaled

PLACES = (0, 1, 2)
NEWEST = scaled(25, 1_000_000)


class _Player:
    """Plays hand after hand at a table of its own. What was not answered is repeated by the client library."""

    def __init__(self, connect: Callable[[], SyncClient]) -> None:
        self._connect = connect
        self.table = secrets.token_bytes(16)
        self.told: dict[int, tuple[bytes, ...]] = {}
        self.answered_at = [time.monotonic()]
        self.failure: BaseException | None = None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            with self._connect() as client:
                table = client.register_table(self.table)
                while not self.stop.is_set():
                    hand = table.reserve()
                    hand.seal(52, {})
                    opened = hand.open(0, PLACES)
                    hand.close()
                    self.told[hand.seq] = (hand.commitment, *(bytes([card.item]) for card in opened))
                    self.answered_at.append(time.monotonic())
        except BaseException as error:  # noqa: BLE001  (told to the drill)
            self.failure = error


class Players:
    """``count`` players at the nodes of ``target``; begins at once, ``stop()`` or leaving the context ends it."""

    def __init__(
        self,
        target: str,
        log_key: str,
        *,
        count: int = 4,
        credentials: Credentials | None = None,
        timeout_s: float = 60,
    ) -> None:
        self._connect = lambda: SyncClient.connect(
            target, log_key=log_key, credentials=credentials, timeout_s=timeout_s
        )
        self._players = [_Player(self._connect) for _ in range(count)]

    def __enter__(self) -> Self:
        for player in self._players:
            player.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for player in self._players:
            player.stop.set()
        for player in self._players:
            player.thread.join(90)

    @property
    def hands(self) -> int:
        """How many hands were played to their end so far."""
        return sum(len(player.told) for player in self._players)

    @property
    def failures(self) -> list[str]:
        """What players met that they could not go on from."""
        return [f"{type(each.failure).__name__}: {each.failure}" for each in self._players if each.failure]

    def longest_wait_s(self) -> float:
        """Return the longest time in which a player finished no hand."""
        return max(
            later - earlier
            for player in self._players
            for earlier, later in zip(player.answered_at, player.answered_at[1:], strict=False)
        )

    def play(self, hands: int, within_s: float = 60) -> None:
        """Wait until so many more hands were played; Failed if it takes too long or a player gave up."""
        wanted, deadline = self.hands + hands, time.monotonic() + within_s
        while self.hands < wanted:
            if self.failures:
                raise Failed(f"a player gave up: {self.failures[0]}")
            if time.monotonic() > deadline:
                raise Failed(f"only {self.hands} of {wanted} hands within {within_s:g} s")
            time.sleep(0.05)

    def check_told(self, account: Account) -> None:
        """Check that what anybody was told is there and the same: commitments, openings, closes.

        In the small form only each player's newest hands are asked for again; the audit of the log covers all.
        """
        different, asked = [], 0
        with self._connect() as client:
            for player in self._players:
                for seq, (commitment, *items) in list(player.told.items())[-NEWEST:]:
                    asked += 1
                    hand = client.hand(player.table, seq)
                    hand.seal(52, {})
                    again = [bytes([card.item]) for card in hand.open(0, PLACES)]
                    if (hand.state, hand.commitment, again) != ("closed", commitment, items):
                        different.append((player.table.hex(), seq))
        account.check(f"{asked} of {self.hands} answered hands asked again: all the same", not different, different)


def check_log(account: Account, source: str, log_key: str, but_for: str = "") -> None:
    """Check that the whole log audits clean, ``but_for`` findings of one check that the drill itself has caused.

    ``source`` is the address of the public pages.
    """
    audited = subprocess.run(
        [sys.executable, "-m", "rngsvc", "audit", source, "--log-key", log_key, "--json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    findings = json.loads(audited.stdout or "{}").get("findings", [])
    unforeseen = [each for each in findings if each["check"] != but_for]
    foreseen = "".join(f", but for: {each['message']}" for each in findings if each not in unforeseen)
    account.check(
        f"the whole log audits clean{foreseen}", audited.stdout and not unforeseen, unforeseen or audited.stderr
    )


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody listens on now."""
    with socket.create_server((host, 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
