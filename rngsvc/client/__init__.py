"""The caller's side of `rngsvc`: a client that returns only what it has verified.

`Client` is for asyncio, `SyncClient` for everybody else. How a game server uses them: `docs/game-server.md`. Their
errors are in `rngsvc.client.errors`: a `CallFailed` is no answer, an `Unproven` is a false one.
"""

from rngsvc.client.audit import Bits, Numbers, OpenedHand, Sample, SampleSummary, Shuffles
from rngsvc.client.blocking import SyncClient, SyncHand, SyncLog, SyncSample, SyncTable
from rngsvc.client.calls import Credentials
from rngsvc.client.client import Client
from rngsvc.client.connection import Consistency
from rngsvc.client.errors import CallFailed, Unproven
from rngsvc.client.log_view import Logged, SignedCheckpoint
from rngsvc.client.table import Hand, Table
from rngsvc.client.tiles_log import TilesLog
from rngsvc.proven_hand import Close, Draw, Opening, ProvenHand, Shuffle

__all__ = [
    "Bits",
    "CallFailed",
    "Client",
    "Close",
    "Consistency",
    "Credentials",
    "Draw",
    "Hand",
    "Logged",
    "Numbers",
    "OpenedHand",
    "Opening",
    "ProvenHand",
    "Sample",
    "SampleSummary",
    "Shuffle",
    "Shuffles",
    "SignedCheckpoint",
    "SyncClient",
    "SyncHand",
    "SyncLog",
    "SyncSample",
    "SyncTable",
    "Table",
    "TilesLog",
    "Unproven",
]
