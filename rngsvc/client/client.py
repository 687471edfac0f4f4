"""The client: where a game server, an auditor or a monitor begins."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

from rngsvc.client import batch
from rngsvc.client.audit import Audit
from rngsvc.client.calls import DEFAULT_TIMEOUT_S, AioTransport, Caller, Credentials, Transport
from rngsvc.client.connection import Connection, Consistency
from rngsvc.client.errors import CallFailed
from rngsvc.client.log_reader import LogReader
from rngsvc.client.log_view import SignedCheckpoint, TrustedLog
from rngsvc.client.table import Hand, Table, fetch_hand, number_of
from rngsvc.protocol.entries import TableEntry
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.proven_hand import Close, Contributions, Opening, Shuffle, entry_of
from rngsvc.v1 import shuffle_pb2

MODES = {"shoe": shuffle_pb2.MODE_SHOE, "full": shuffle_pb2.MODE_FULL}
REVEALS = {"public": shuffle_pb2.REVEAL_PUBLIC, "escrow": shuffle_pb2.REVEAL_ESCROW}


class Client:
    """One service and its log. Whatever its methods return is verified; `connect` makes one.

    ``log`` reads the log, ``audit`` has the auditor's calls.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.log = LogReader(connection)
        self.audit = Audit(connection)

    @classmethod
    async def connect(
        cls,
        target: str,
        *,
        log_key: str | Iterable[str],
        credentials: Credentials | None = None,
        consistency: str = Consistency.SAMPLED,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        known_checkpoint: str | None = None,
    ) -> Self:
        """Reach the service at ``target`` (host:port, or ipv4:host:port,host:port for a node and its standby).

        Its newest checkpoint is trusted to begin with.

        ``log_key`` is the log's verifier key (name+id+key), best its first one: changes of key are followed through
        the log. Of several, one must be or have been the log's. ``credentials`` may be left out on loopback only.
        ``known_checkpoint`` is the signed note that an earlier run kept (`newest_checkpoint`): with it a log that was
        rolled back or forked since is refused. ``timeout_s`` holds for each call with its retries. Raises CallFailed,
        Unproven, or ValueError for a malformed key or target.
        """
        transport = AioTransport(target, credentials)
        return await cls.over(
            transport,
            log_key=log_key,
            consistency=consistency,
            timeout_s=timeout_s,
            known_checkpoint=known_checkpoint,
        )

    @classmethod
    async def over(
        cls,
        transport: Transport,
        *,
        log_key: str | Iterable[str],
        consistency: str,
        timeout_s: float,
        known_checkpoint: str | None,
    ) -> Self:
        """Make a client over a transport that is there already; see `connect`."""
        try:
            keys = [NoteKey.from_vkey(key) for key in ([log_key] if isinstance(log_key, str) else log_key)]
            log = TrustedLog(keys)
            connection = Connection(Caller(transport, timeout_s=timeout_s), log, Consistency(consistency))
            if known_checkpoint is not None:
                log.advance(None, await connection.checkpoint(known_checkpoint))
            client = cls(connection)
            await client.log.checkpoint()
        except BaseException:
            await transport.close()
            raise
        return client

    async def close(self) -> None:
        """End the connection."""
        await self.connection.caller.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def origin(self) -> str:
        """The log's name, which promises are made for."""
        return self.connection.origin

    @property
    def newest_checkpoint(self) -> SignedCheckpoint:
        """The newest trusted checkpoint. Keep its ``note`` over restarts."""
        newest = self.connection.log.newest
        assert newest is not None, "a client is only given out once it trusts one"
        return newest

    # --- Tables and hands ---

    async def register_table(
        self,
        table: bytes,
        *,
        mode: str = "shoe",
        reveal: str = "public",
        ttl_s: int = 0,
        auditor: tuple[bytes, bytes] | None = None,
        twin: bool = False,
    ) -> Table:
        """Register the table (16 bytes, a UUID), or find it again if it is registered with the same terms.

        ``mode`` is `shoe` (cards are opened place by place) or `full`; ``reveal`` is `public` or `escrow`, the latter
        with the ``auditor``'s raw X25519 and Ed25519 public keys. Hands that are not closed after ``ttl_s`` seconds
        (60..2592000, 0 for the service's default) expire. With ``twin`` two decks are sealed for each hand
        (`Hand.seal_twin`, `Hand.choose`), of which the public can derive one.
        """
        x25519, ed25519 = auditor or (b"", b"")
        request = shuffle_pb2.RegisterTableRequest(
            table=table,
            mode=number_of("mode", mode, MODES),
            reveal=number_of("reveal", reveal, REVEALS),
            ttl_s=ttl_s,
            auditor_x25519=x25519,
            auditor_ed25519=ed25519,
            twin=twin,
        )
        answer = await self.connection.caller.repeatable(self.connection.shuffle_service.RegisterTable, request)
        logged = await self.connection.logged(answer.logged)
        terms: dict[str, Any] = {"table": table, "mode": mode, "reveal": reveal, "auditor": auditor}
        terms["twin"] = 1 if twin else None
        if ttl_s:
            terms["ttl"] = ttl_s
        entry_of(logged, TableEntry, **terms)
        return Table(self.connection, logged)

    async def table(self, table: bytes) -> Table:
        """Return a table that has at least one reserved hand. Raises NotFound."""
        _, logged = await fetch_hand(self.connection, table, 1)
        return Table(self.connection, logged[0])

    async def hand(self, table: bytes, seq: int) -> Hand:
        """Return a hand as far as it has come, from the log: so a restarted game server goes on."""
        proven, logged = await fetch_hand(self.connection, table, seq)
        return Hand(Table(self.connection, logged[0]), proven, logged)

    # --- Many tables in one call ---

    async def reserve_all(self, tables: Sequence[Table], count: int = 1) -> list[tuple[Hand, ...] | CallFailed]:
        """Reserve ``count`` (1..64) hands at each of 1..256 different tables."""
        return await batch.reserve_all(self.connection, tables, count)

    async def seal_all(
        self, hands: Sequence[Hand], n: int, contributions: Sequence[Contributions] | None = None
    ) -> list[Shuffle | CallFailed]:
        """Seal a shuffle of items 0..n-1 for one hand at each of 1..256 tables."""
        return await batch.seal_all(self.connection, hands, n, contributions)

    async def seal_twin_all(
        self, hands: Sequence[Hand], n: int, contributions: Sequence[Contributions] | None = None
    ) -> list[CallFailed | None]:
        """Seal two decks of items 0..n-1 for one hand at each of 1..256 twin tables."""
        return await batch.seal_twin_all(self.connection, hands, n, contributions)

    async def choose_all(
        self, hands: Sequence[Hand], choices: Sequence[Contributions] | None = None
    ) -> list[Shuffle | CallFailed]:
        """Decide which deck is played in one hand at each of 1..256 twin tables; see `Hand.choose`."""
        return await batch.choose_all(self.connection, hands, choices)

    async def open_all(
        self, asked: Sequence[tuple[Hand, int, Iterable[int]]]
    ) -> list[tuple[Opening, ...] | CallFailed]:
        """Open places at 1..256 tables; ``asked`` is (hand, k, places) for each."""
        return await batch.open_all(self.connection, asked)

    async def close_all(
        self, hands: Sequence[Hand], outcome: str = "complete", reason: str = ""
    ) -> list[Close | CallFailed]:
        """Close one hand at each of 1..256 tables, all with the same outcome."""
        return await batch.close_all(self.connection, hands, outcome, reason)
