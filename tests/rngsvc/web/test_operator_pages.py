"""What an operator sees: the pages of errors and metrics against the running service, health, and the stop."""

import ast
import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import grpc
import pytest
from google.rpc import code_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.parser import text_string_to_metric_families

import rngsvc
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.errors import Reason
from rngsvc.gate import STATUS
from rngsvc.v1 import log_pb2, log_pb2_grpc, shuffle_pb2, shuffle_pb2_grpc
from rngsvc.web import operator_app
from tests.rngsvc.web.http import get
from tests.simulation.process import ServerProcess

DOCS = Path(__file__).parents[3] / "docs"
PACKAGE = Path(rngsvc.__path__[0])


def rows(page: str, columns: int) -> Iterator[list[str]]:
    """The rows of all tables of a page that have so many columns and begin with a name in backticks."""
    for line in (DOCS / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == columns and re.fullmatch(r"`\w+`", cells[0]):
            yield cells


# --- docs/errors.md ---


def raised() -> dict[str, set[str]]:
    """Reason -> the statuses with which the code raises it, found by reading every `Family(Reason.WORD, ..)`."""
    families = {family.__name__: code_pb2.Code.Name(status) for family, status in STATUS.items()}
    # These two give their reason themselves.
    found: dict[str, set[str]] = {"INVALID_FIELD": {families["InvalidField"]}}
    found["SIGNING_STOPPED"] = {families["SigningStopped"]}
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name):
                first = node.args[0]
                if (
                    isinstance(first, ast.Attribute)
                    and isinstance(first.value, ast.Name)
                    and first.value.id == "Reason"
                ) and node.func.id in families:
                    found.setdefault(first.attr, set()).add(families[node.func.id])
    return found


def test_the_page_of_errors_has_every_reason_with_its_status_and_what_to_do() -> None:
    page = {cells[0].strip("`"): cells for cells in rows("errors.md", 4)}
    assert set(page) == set(Reason)
    said = raised()
    for reason, (_, status, meaning, advice) in page.items():
        assert {status} == said.get(reason), reason
        assert meaning.endswith(".")
        assert advice.endswith(".")


def test_every_reason_is_raised_somewhere() -> None:
    assert set(raised()) == set(Reason)


# --- docs/metrics.md, live ---


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("served")) as server:
        yield server
        assert server.terminate() == ExitCode.OK


def page(server: ServerProcess, path: str, listener: str = "operator") -> str:
    with urlopen(f"{server.ready[listener]}{path}", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


async def some_calls(server: ServerProcess) -> None:
    p = shuffle_pb2
    async with grpc.aio.insecure_channel(server.ready["grpc"]) as channel:
        stub: Any = shuffle_pb2_grpc.ShuffleServiceStub(channel)
        register = p.RegisterTableRequest(table=bytes(16), mode=p.MODE_SHOE, reveal=p.REVEAL_PUBLIC)
        await stub.RegisterTable(register, timeout=10)
        await stub.ReserveHands(p.ReserveHandsRequest(table=bytes(16), first_seq=1, count=2), timeout=10)
        await stub.SealShuffle(p.SealShuffleRequest(table=bytes(16), seq=1, item_count=52), timeout=10)
        await stub.CloseHand(p.CloseHandRequest(table=bytes(16), seq=1, outcome=p.OUTCOME_COMPLETE), timeout=10)


def test_the_page_of_metrics_is_what_a_scrape_shows(server: ServerProcess) -> None:
    asyncio.run(some_calls(server))
    time.sleep(0.2)
    scraped: dict[str, tuple[str, set[str]]] = {}
    for family in text_string_to_metric_families(page(server, "/metrics")):
        if family.name.endswith("_created"):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        scraped[name] = (family.type, labels)
    written = {
        name.strip("`"): (kind, set(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels, _ in rows("metrics.md", 4)
        if not name.startswith("`dealer_")  # tests/dealer/server/test_operator.py
    }
    assert set(written) == set(scraped)
    for name, (kind, labels) in scraped.items():
        assert kind == written[name][0], name
        # A metric without a series yet (no witness, no TLS) shows no label.
        assert labels in (written[name][1], set()), name


def test_figures_follow_what_was_done(server: ServerProcess) -> None:
    text = page(server, "/metrics")

    def figure(name: str, **labels: str) -> float:
        (value,) = (
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        )
        return value

    assert figure("rngsvc_requests_total", method="SealShuffle", code="OK") == 1
    assert figure("rngsvc_hands_closed_total", outcome="complete", reason="") == 1
    assert figure("rngsvc_shuffles_total", items="52") == 1
    assert 51 <= figure("rngsvc_shuffle_bytes_used_total", items="52") <= 100
    assert figure("rngsvc_hands_unclosed") == 1
    assert figure("rngsvc_log_size") == figure("rngsvc_log_entries_total") == 5
    assert figure("rngsvc_signing_stopped") == figure("rngsvc_drbg_failed") == 0
    assert figure("rngsvc_requests_in_flight") == 0


def test_no_series_is_named_after_a_table_or_a_hand(server: ServerProcess) -> None:
    text = page(server, "/metrics")
    assert bytes(16).hex() not in text
    assert len(text) < 60_000


# --- Health ---


def test_a_running_service_is_alive_and_ready(server: ServerProcess) -> None:
    assert json.loads(page(server, "/healthz")) == {"status": "alive"}
    ready = json.loads(page(server, "/readyz"))
    assert ready["status"] == "ready"
    assert ready["log_size"] >= 1


def test_the_public_listener_shows_no_metrics_and_the_operators_no_log(server: ServerProcess) -> None:
    for path, listener in (("/metrics", "http"), ("/readyz", "http"), ("/checkpoint", "operator")):
        with pytest.raises(HTTPError, match="404"):
            page(server, path, listener)
    assert page(server, "/checkpoint", "http").startswith(server.ready["origin"])


@pytest.mark.asyncio
async def test_who_cannot_sign_is_alive_but_not_ready() -> None:
    registry = CollectorRegistry()
    Gauge("x", "An x.", registry=registry)
    app = operator_app(registry, lambda: (False, {"why": "the clock"}))
    assert (await get(app, "/healthz")).status == 200
    answer = await get(app, "/readyz")
    assert answer.status == 503
    assert json.loads(answer.body) == {"status": "not ready", "why": "the clock"}
    assert b"# HELP x An x." in (await get(app, "/metrics")).body


def test_health_turns_before_calls_in_flight_are_over(tmp_path: Path) -> None:
    """A long sample is still being drawn when the signal comes; load balancers must hear of it at once."""

    async def run(server: ServerProcess) -> list[int]:
        seen = []
        async with grpc.aio.insecure_channel(server.ready["grpc"]) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            watching = health.Watch(health_pb2.HealthCheckRequest())
            seen.append((await watching.read()).status)
            follow = log_pb2_grpc.LogServiceStub(channel).StreamEntries(log_pb2.StreamEntriesRequest(follow=True))
            await follow.read()
            assert server.process
            os.kill(server.process.pid, signal.SIGTERM)
            seen.append((await asyncio.wait_for(watching.read(), 10)).status)
            watching.cancel()
        return seen

    with ServerProcess(tmp_path) as server:
        status = health_pb2.HealthCheckResponse
        assert asyncio.run(run(server)) == [status.SERVING, status.NOT_SERVING]
        assert server.terminate() == ExitCode.OK


# --- The head guard, as files ---


def test_a_store_put_back_from_a_copy_is_refused_until_the_operator_decides(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        assert server.terminate() == ExitCode.OK
        backup = tmp_path / "backup"
        backup.mkdir()
        for file in tmp_path.glob("log.sqlite3*"):
            if not file.name.endswith((".lock", ".checkpoint")):
                shutil.copy(file, backup)
        server.start()
        asyncio.run(some_calls(server))
        assert server.terminate() == ExitCode.OK
        for file in tmp_path.glob("log.sqlite3*"):
            if not file.name.endswith((".lock", ".checkpoint")):
                file.unlink()
        for file in backup.iterdir():
            shutil.copy(file, tmp_path)
        refused = subprocess.run(server.command(), capture_output=True, text=True, timeout=60, check=False)
        assert refused.returncode == ExitCode.STOPPED
        assert "it is an older copy" in refused.stderr
        assert "Traceback" not in refused.stderr
        # A torn guard, as a power cut may leave it, is not taken for none.
        guard = tmp_path / "log.sqlite3.checkpoint"
        guard.write_bytes(guard.read_bytes()[:700] + bytes(1348))
        refused = subprocess.run(server.command(), capture_output=True, text=True, timeout=60, check=False)
        assert refused.returncode == ExitCode.STOPPED
