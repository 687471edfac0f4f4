"""A client asks for long streams and reads nothing: memory stays bounded, and nobody else notices."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.drills.account import Account
from tests.drills.figures import metric, resident_mib
from tests.drills.players import Players, check_log
from tests.scale import scaled
from tests.simulation.process import ServerProcess

STREAMS = 64
# A message is up to 1 MiB; it lies there as bytes and as frames, and a little more in gRPC's windows.
STREAM_MIB = 4
SECONDS = scaled(6, 30)
DRIFT_MIB = 16
READER = Path(__file__).with_name("stalled_reader.py")
# Keepalive: a ping after 30 s, and 10 s for its answer.
GONE_S = 60


def run(folder: Path, account: Account) -> None:
    with ServerProcess(folder) as server:
        assert server.process
        operator, log_key = server.ready["operator"], server.ready["log_key"]
        with Players(server.ready["grpc"], log_key) as players:
            account.did("started rngsvc; four game servers play")
            players.play(hands=50)
            alone = _hands_per_s(players, 3)
            account.saw(f"{alone:.0f} hands/s")
            before = resident_mib(server.process.pid)
            reader = subprocess.Popen(
                [sys.executable, READER, server.ready["grpc"], str(STREAMS)], stdout=subprocess.PIPE, text=True
            )
            try:
                assert reader.stdout
                assert reader.stdout.readline()
                os.kill(reader.pid, signal.SIGSTOP)
                account.did(f"a client began {STREAMS} streams, samples of 1 GiB and the log, and was stopped")
                beside = _hands_per_s(players, SECONDS / 2)
                half_way = resident_mib(server.process.pid)
                beside = (beside + _hands_per_s(players, SECONDS / 2)) / 2
                at_last = resident_mib(server.process.pid)
                grown = at_last - before
                allowed = STREAMS * STREAM_MIB
                account.check(f"memory grew by {grown:.0f} MiB, at most {allowed}", grown < allowed)
                drift = at_last - half_way
                account.check(f"and by {drift:.0f} MiB in the second half, at most {DRIFT_MIB}", drift < DRIFT_MIB)
                account.check(f"others play on, {beside:.0f} hands/s", beside > alone / 5, f"before: {alone:.0f}")
                if scaled(0, 1):
                    account.did("waited for keepalive to find out")
                else:
                    reader.kill()
                    account.did("ended the client, instead of waiting 40 s for keepalive to find out")
                _until_gone(account, operator)
            finally:
                reader.kill()
                reader.communicate()
            players.play(hands=20)
        account.check("no game server met an error", not players.failures, players.failures)
        players.check_told(account)
        check_log(account, server.ready["http"], log_key)
        account.check("SIGTERM ends it with exit code 0", server.terminate() == 0)


def _hands_per_s(players: Players, seconds: float) -> float:
    before, started = players.hands, time.monotonic()
    time.sleep(seconds)
    return (players.hands - before) / (time.monotonic() - started)


def _until_gone(account: Account, operator: str) -> None:
    started = time.monotonic()
    while (open_calls := metric(operator, "rngsvc_requests_in_flight")) > STREAMS / 2:
        if time.monotonic() - started > GONE_S:
            break
        time.sleep(0.2)
    account.check("its streams are ended", open_calls <= STREAMS / 2, f"{open_calls:.0f} calls in flight")
    account.saw(f"that took {time.monotonic() - started:.1f} s")
