"""What Prometheus sees of a card room (`docs/metrics.md`). No label grows with tables, hands or players."""

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dealer.card_room import CardRoom
from dealer.rooms import GAMES
from dealer.table_live import Decision

OVERDUE_MS: Final = 5_000
OUTCOMES: Final = ("complete", "aborted")
FAILURES: Final = ("failed", "lost")
_CALL_BUCKETS: Final = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1, 2, 4, 8)
_DECISION_BUCKETS: Final = (0.5, 1, 2, 5, 10, 15, 20, 30, 45, 60, 90)


class Metrics:
    """All instruments of one dealer, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = r = CollectorRegistry()
        self.requests = Counter(
            "dealer_requests", "Finished calls by method and gRPC status code.", ["method", "code"], registry=r
        )
        self.request_seconds = Histogram(
            "dealer_request_seconds",
            "From a call's start to its end.",
            ["method"],
            registry=r,
            buckets=_CALL_BUCKETS,
        )
        self.in_flight = Gauge(
            "dealer_requests_in_flight", "Calls that are being answered; Watch: open streams.", ["method"], registry=r
        )
        self.store_seconds = Histogram(
            "dealer_store_write_seconds", "Making a write durable.", ["verb"], registry=r, buckets=_CALL_BUCKETS
        )
        self.store_failures = Counter(
            "dealer_store_failures", "Calls of the store that failed, and stores lost for good.", ["kind"], registry=r
        )
        self.service_calls = Counter(
            "dealer_rngsvc_calls", "Calls to the shuffle service, retries included.", ["method", "code"], registry=r
        )
        self.service_seconds = Histogram(
            "dealer_rngsvc_call_seconds",
            "How long the shuffle service took to answer.",
            ["method"],
            registry=r,
            buckets=_CALL_BUCKETS,
        )
        self.service_reachable = Gauge(
            "dealer_rngsvc_reachable", "1 if the shuffle service answered when it was last asked.", registry=r
        )
        self.hands = Counter("dealer_hands", "Hands closed.", ["game", "outcome"], registry=r)
        self.decisions = Counter("dealer_decisions", "Decisions, and who made them.", ["game", "by"], registry=r)
        self.decision_seconds = Histogram(
            "dealer_decision_seconds",
            "Clock time used for a decision.",
            ["game"],
            registry=r,
            buckets=_DECISION_BUCKETS,
        )
        self.imbalance_cents = Gauge("dealer_ledger_imbalance_cents", "How far the ledger is out.", registry=r)
        self.ledger_checked = Gauge(
            "dealer_ledger_checked_time_seconds", "Unix time of the last check of the ledger.", registry=r
        )
        self.certificate_expires = Gauge(
            "dealer_certificate_expires_seconds", "Unix time at which a certificate expires.", ["use"], registry=r
        )
        self.build = Info("dealer_build", "Version of the running dealer.", registry=r)
        ProcessCollector(registry=r)
        # Each series from the start: Prometheus does not see a rise from "absent" to 1.
        for game in GAMES:
            for outcome in OUTCOMES:
                self.hands.labels(game, outcome)
            for by in ("player", "clock"):
                self.decisions.labels(game, by)
        for kind in FAILURES:
            self.store_failures.labels(kind)

    def decided(self, decision: Decision) -> None:
        """Count a decision."""
        self.decisions.labels(decision.game, "clock" if decision.by_clock else "player").inc()
        self.decision_seconds.labels(decision.game).observe(decision.seconds)

    def watch(self, room: CardRoom) -> None:
        """Read the room's figures at each scrape."""
        self.registry.register(_Room(room))


class _Room(Collector):
    """Figures of the tables as they are now."""

    def __init__(self, room: CardRoom) -> None:
        self._room = room

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        by_game = {
            name: GaugeMetricFamily(name, about, labels=["game"])
            for name, about in {
                "dealer_tables": "Open tables.",
                "dealer_seats_taken": "Seats with a player.",
                "dealer_players_connected": "Seated players who watch their table.",
                "dealer_hands_in_play": "Hands that have begun and are not over.",
            }.items()
        }
        for game in GAMES:
            tables = [live.table for live in self._room.live if live.rules.name == game]
            seats = [seat for table in tables for seat in table.seats.values()]
            figures = (
                sum(not table.is_closed for table in tables),
                len(seats),
                sum(seat.connected for seat in seats),
                sum(table.playing for table in tables),
            )
            for family, figure in zip(by_game.values(), figures, strict=True):
                family.add_metric([game], figure)
        now_ms = self._room.now_ms()
        deadlines = [live.table.next_deadline_ms() for live in self._room.live]
        delayed = sum(bool(live.delay) for live in self._room.live)
        distrusting = sum(live.distrusts for live in self._room.live)
        overdue = sum(deadline is not None and now_ms > deadline + OVERDUE_MS for deadline in deadlines)
        return [
            *by_game.values(),
            GaugeMetricFamily("dealer_tables_delayed", "Tables that wait for cards they cannot get.", value=delayed),
            GaugeMetricFamily(
                "dealer_tables_distrusting", "Tables that deal no more: an answer proved nothing.", value=distrusting
            ),
            GaugeMetricFamily("dealer_tables_overdue", "Tables whose clock has run out without effect.", value=overdue),
        ]
