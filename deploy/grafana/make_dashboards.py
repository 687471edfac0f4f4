"""Make the Grafana dashboards: `python deploy/grafana/make_dashboards.py` writes the JSON files beside this one.

Plain dictionaries of Grafana's dashboard model; the same input gives the same bytes. In queries `LOG` stands for the
selector of the chosen logs and `RATE` for a window that fits the scrape interval and the zoom.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
_COLUMNS: Final = 24
_SCHEMA_VERSION: Final = 39
_DATA_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

_SEALED: Final = "sum(rate(rngsvc_shuffles_total{LOG}[RATE]))"
_CLOSED: Final = "rngsvc_hands_closed_total{LOG}"
_SERVICE_FAULTS: Final = "INTERNAL|UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|DATA_LOSS|UNKNOWN"
_STEPS: Final = "ReserveHands|PromiseSeeds|SealShuffle|Reshuffle|OpenCards|CloseHand|DrawNumbers"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: ``queries`` are (legend, PromQL). A figure shows its newest value and turns red from ``red`` on."""

    title: str
    about: str
    unit: str
    queries: Sequence[tuple[str, str]]
    is_figure: bool = False
    red: float | None = None
    is_red_below: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard, read from the top."""

    name: str
    title: str
    panels: Sequence[Panel]


def _quantiles(metric: str) -> list[tuple[str, str]]:
    """Return p50 and p99 of a histogram over all nodes."""
    return [
        (f"p{round(100 * q)}", f"histogram_quantile({q}, sum by (le) (rate({metric}_bucket{{LOG}}[RATE])))")
        for q in (0.5, 0.99)
    ]


def _p99_by_method(methods: str = ".+", metric: str = "rngsvc_request_seconds") -> tuple[str, str]:
    """Return the p99 of the latency of each of ``methods``, a regular expression."""
    selected = f'{metric}_bucket{{LOG, method=~"{methods}"}}'
    return "{{method}}", f"histogram_quantile(0.99, sum by (le, method) (rate({selected}[RATE])))"


OPERATOR: Final = Dashboard(
    "operator",
    "rngsvc: operator",
    [
        Panel(
            "Signing stopped",
            "1: the service has found a doubt and signs no more.",
            "short",
            [("stopped", "max by (log) (rngsvc_signing_stopped{LOG})")],
            is_figure=True,
            red=1,
        ),
        Panel(
            "Nodes that answer",
            "One for each log: a standby answers nothing until it takes over.",
            "short",
            [("{{log}}", 'sum by (log) (up{LOG, job="rngsvc"})')],
            is_figure=True,
            red=1,
            is_red_below=True,
        ),
        Panel("Shuffles", "Sealed now.", "ops", [("sealed", _SEALED)], is_figure=True),
        Panel(
            "Failing calls",
            "Share of calls that fail for the service's reasons; more than 1 % is a page.",
            "percentunit",
            [
                (
                    "failing",
                    (
                        f'sum(rate(rngsvc_requests_total{{LOG, code=~"{_SERVICE_FAULTS}"}}[RATE])'
                        " or rate(rngsvc_requests_total{LOG}[RATE]) * 0) / sum(rate(rngsvc_requests_total{LOG}[RATE]))"
                    ),
                )
            ],
            is_figure=True,
            red=0.01,
        ),
        Panel(
            "Certificate",
            "Until the server's certificate expires.",
            "s",
            [("left", "min(rngsvc_certificate_expires_seconds{LOG} - time())")],
            is_figure=True,
            red=14 * 86_400,
            is_red_below=True,
        ),
        Panel(
            "Running",
            "Since the last start.",
            "s",
            [("{{log}}", 'time() - process_start_time_seconds{LOG, job="rngsvc"}')],
            is_figure=True,
        ),
        Panel(
            "Calls",
            "Finished calls by method.",
            "ops",
            [("{{method}}", "sum by (method) (rate(rngsvc_requests_total{LOG}[RATE]))")],
        ),
        Panel(
            "Calls that are refused or fail",
            "By status code. NOT_FOUND and FAILED_PRECONDITION are the callers'; INTERNAL is a defect.",
            "ops",
            [("{{code}}", 'sum by (code) (rate(rngsvc_requests_total{LOG, code!="OK"}[RATE]))')],
        ),
        Panel("Latency", "From a call's start to its end, commit included.", "s", _quantiles("rngsvc_request_seconds")),
        Panel(
            "Latency by method",
            "One call in a hundred takes longer.",
            "s",
            [_p99_by_method()],
        ),
        Panel("Commits", "Making a batch durable, fsync included.", "s", _quantiles("rngsvc_commit_seconds")),
        Panel(
            "Waiting for a batch",
            "How long the oldest call of a batch had waited.",
            "s",
            _quantiles("rngsvc_batch_wait_seconds"),
        ),
        Panel(
            "Calls in a batch",
            "How many calls share a commit: it grows with the load.",
            "short",
            [
                (
                    "mean",
                    "sum(rate(rngsvc_batch_steps_sum{LOG}[RATE])) / sum(rate(rngsvc_batch_steps_count{LOG}[RATE]))",
                )
            ],
        ),
        Panel(
            "Queue",
            "Calls that wait, as a share of the limit from which on they are refused.",
            "percentunit",
            [("{{log}}", "max by (log) (rngsvc_queue{LOG} / rngsvc_queue_limit{LOG})")],
        ),
        Panel(
            "Calls in flight",
            "Calls that are being answered.",
            "short",
            [("{{log}}", "sum by (log) (rngsvc_requests_in_flight{LOG})")],
        ),
        Panel(
            "Log growth",
            "Entries a second.",
            "ops",
            [("{{log}}", "sum by (log) (rate(rngsvc_log_entries_total{LOG}[RATE]))")],
        ),
        Panel(
            "Processor",
            "Cores in use by the service; gRPC and sealing share one.",
            "short",
            [("{{log}}", 'sum by (log) (rate(process_cpu_seconds_total{LOG, job="rngsvc"}[RATE]))')],
        ),
        Panel(
            "Memory",
            "Resident. Flat in the log's size; it grows with unclosed hands.",
            "bytes",
            [("{{log}}", 'max by (log) (process_resident_memory_bytes{LOG, job="rngsvc"})')],
        ),
    ],
)

AUDITOR: Final = Dashboard(
    "auditor",
    "rngsvc: auditor",
    [
        Panel(
            "Generator failed",
            "1: a health test, a self-test or an entropy source has failed.",
            "short",
            [("failed", "max by (log) (rngsvc_drbg_failed{LOG})")],
            is_figure=True,
            red=1,
        ),
        Panel(
            "Newest check failed",
            "1: the newest check of that kind did not pass.",
            "short",
            [("{{kind}}", "max by (kind) (rngsvc_integrity_failed{LOG})")],
            is_figure=True,
            red=1,
        ),
        Panel(
            "Last daily battery",
            "How long ago. More than 26 hours is a page.",
            "s",
            [("ago", 'time() - max(rngsvc_integrity_time_seconds{LOG, kind="daily"})')],
            is_figure=True,
            red=26 * 3_600,
        ),
        Panel(
            "Log",
            "Entries under the newest checkpoint.",
            "short",
            [("{{log}}", "max by (log) (rngsvc_log_size{LOG})")],
            True,
        ),
        Panel(
            "Hands past their expiry",
            "Tables whose lowest hand should have been closed.",
            "short",
            [("overdue", "sum(rngsvc_hands_overdue{LOG})")],
            is_figure=True,
            red=1,
        ),
        Panel(
            "Lost hands",
            "Declared lost by an operator since the process started: they prove nothing.",
            "short",
            [("lost", 'sum(rngsvc_hands_closed_total{LOG, outcome="lost"})')],
            is_figure=True,
            red=1,
        ),
        Panel(
            "Bytes of a shuffle",
            "Mean number of stream bytes that a shuffle takes, and what the derivation gives by chance.",
            "short",
            [
                (
                    "{{items}} items",
                    (
                        'sum by (items) (rate(rngsvc_shuffle_bytes_used_total{LOG, items!="other"}[RATE]))'
                        ' / (sum by (items) (rate(rngsvc_shuffles_total{LOG, items!="other"}[RATE])) > 0)'
                    ),
                ),
                ("{{items}} expected", "rngsvc:shuffle_bytes:mean"),
            ],
        ),
        Panel(
            "Bytes of a shuffle, distance from chance",
            "Standard deviations of the mean of six hours; beyond 6 is a page.",
            "short",
            [
                (
                    "{{items}} items",
                    (
                        "(sum by (items) (rngsvc:shuffle_bytes_used:increase6h{LOG})"
                        " - sum by (items) (rngsvc:shuffles:increase6h{LOG}) * on (items) rngsvc:shuffle_bytes:mean)"
                        " / sqrt((sum by (items) (rngsvc:shuffles:increase6h{LOG}) > 0)"
                        " * on (items) rngsvc:shuffle_bytes:variance)"
                    ),
                )
            ],
        ),
        Panel(
            "Hands closed",
            "By outcome.",
            "ops",
            [("{{outcome}}", f"sum by (outcome) (rate({_CLOSED}[RATE]))")],
        ),
        Panel(
            "Hands given up",
            "Share of closed hands that were aborted or lost.",
            "percentunit",
            [
                (
                    "given up",
                    (
                        'sum(rate(rngsvc_hands_closed_total{LOG, outcome!="complete"}[RATE]))'
                        f" / (sum(rate({_CLOSED}[RATE])) > 0)"
                    ),
                )
            ],
        ),
        Panel(
            "Not yet cosigned",
            "Entries that a witness, or the quorum, has not cosigned.",
            "short",
            [
                (
                    "{{witness}}",
                    "rngsvc_log_size{LOG} - on (log, instance) group_right () rngsvc_witness_log_size{LOG}",
                ),
                ("quorum", "rngsvc_log_size{LOG} - on (log, instance) rngsvc_cosigned_log_size{LOG}"),
            ],
        ),
        Panel(
            "Output of the DRBG",
            "Bytes given out, and bytes that went through the health tests.",
            "Bps",
            [
                ("given out", "sum(rate(rngsvc_drbg_bytes_total{LOG}[RATE]))"),
                ("health-tested", "sum(rate(rngsvc_health_tested_bytes_total{LOG}[RATE]))"),
            ],
        ),
        Panel(
            "Requests and reseeds",
            "Play reseeds before each batch.",
            "ops",
            [
                ("requests", "sum(rate(rngsvc_drbg_requests_total{LOG}[RATE]))"),
                ("reseeds", "sum(rate(rngsvc_drbg_reseeds_total{LOG}[RATE]))"),
            ],
        ),
        Panel(
            "Noise samples",
            "Samples of each entropy source that went through RCT and APT.",
            "ops",
            [("{{source}}", "sum by (source) (rate(rngsvc_entropy_samples_total{LOG}[RATE]))")],
        ),
        Panel(
            "Audits",
            "What auditors and monitors ask for.",
            "ops",
            [
                (
                    "{{method}}",
                    (
                        "sum by (method) (rate(rngsvc_requests_total"
                        '{LOG, method=~"Sample|OpenHand|RecordResult|ListResults|StreamEntries"}[RATE]))'
                    ),
                )
            ],
        ),
    ],
)

CARD_ROOM: Final = Dashboard(
    "card-room",
    "card room",
    [
        Panel("Tables", "Open tables.", "short", [("tables", "sum(dealer_tables{LOG})")], True),
        Panel("Players", "Seats that are taken.", "short", [("players", "sum(dealer_seats_taken{LOG})")], True),
        Panel("Connected", "Seated players who watch.", "short", [("now", "sum(dealer_players_connected{LOG})")], True),
        Panel("In play", "Hands that are being played.", "short", [("hands", "sum(dealer_hands_in_play{LOG})")], True),
        Panel(
            "Hands today",
            "Played to their end in the last 24 hours.",
            "short",
            [("hands", 'sum(increase(dealer_hands_total{LOG, outcome="complete"}[1d]))')],
            True,
        ),
        Panel(
            "Void today",
            "Hands of the last 24 hours in which every chip went back.",
            "short",
            [("hands", 'sum(increase(dealer_hands_total{LOG, outcome="aborted"}[1d]))')],
            is_figure=True,
            red=5,
        ),
        Panel(
            "Dealers that answer",
            "One for each room: a standby answers nothing until it takes over.",
            "short",
            [("{{room}}", 'sum by (room) (up{LOG, job="dealer"})')],
            is_figure=True,
            red=1,
            is_red_below=True,
        ),
        Panel(
            "Shuffle service",
            "1: it answered when the dealer last asked.",
            "short",
            [("answers", "min(dealer_rngsvc_reachable{LOG})")],
            is_figure=True,
            red=1,
            is_red_below=True,
        ),
        Panel(
            "Tables that wait",
            "They cannot get cards, deal no more, or their clock has run out without effect.",
            "short",
            [("tables", 'sum({LOG, __name__=~"dealer_tables_(delayed|distrusting|overdue)"})')],
            is_figure=True,
            red=1,
        ),
        Panel(
            "Ledger out by",
            "Cents. Anything but 0 is a page.",
            "short",
            [("cents", "max(dealer_ledger_imbalance_cents{LOG})")],
            is_figure=True,
            red=1,
        ),
        Panel(
            "Failing calls",
            "Share of players' calls that fail for our reasons; more than 1 % is a page.",
            "percentunit",
            [
                (
                    "failing",
                    (
                        f'sum(rate(dealer_requests_total{{LOG, code=~"{_SERVICE_FAULTS}"}}[RATE])'
                        " or rate(dealer_requests_total{LOG}[RATE]) * 0) / sum(rate(dealer_requests_total{LOG}[RATE]))"
                    ),
                )
            ],
            is_figure=True,
            red=0.01,
        ),
        Panel(
            "Slow writes",
            "One write in a hundred takes longer; all tables wait meanwhile.",
            "s",
            [_quantiles("dealer_store_write_seconds")[1]],
            is_figure=True,
            red=0.1,
        ),
        Panel(
            "Hands a minute",
            "Closed, by game.",
            "short",
            [("{{game}}", "60 * sum by (game) (rate(dealer_hands_total{LOG}[RATE]))")],
        ),
        Panel("Seats", "Taken, by game.", "short", [("{{game}}", "sum by (game) (dealer_seats_taken{LOG})")]),
        Panel("Hands in play", "By game.", "short", [("{{game}}", "sum by (game) (dealer_hands_in_play{LOG})")]),
        Panel(
            "Time for a decision",
            "What players use of their clocks.",
            "s",
            _quantiles("dealer_decision_seconds"),
        ),
        Panel(
            "Time for a decision by game",
            "Mean.",
            "s",
            [
                (
                    "{{game}}",
                    (
                        "sum by (game) (rate(dealer_decision_seconds_sum{LOG}[RATE]))"
                        " / (sum by (game) (rate(dealer_decision_seconds_count{LOG}[RATE])) > 0)"
                    ),
                )
            ],
        ),
        Panel(
            "Decided by the clock",
            "Share of decisions whose player let his time run out.",
            "percentunit",
            [
                (
                    "{{game}}",
                    (
                        'sum by (game) (rate(dealer_decisions_total{LOG, by="clock"}[RATE]))'
                        " / (sum by (game) (rate(dealer_decisions_total{LOG}[RATE])) > 0)"
                    ),
                )
            ],
        ),
        Panel(
            "Calls",
            "Finished calls by method.",
            "ops",
            [("{{method}}", "sum by (method) (rate(dealer_requests_total{LOG}[RATE]))")],
        ),
        Panel(
            "Open streams",
            "Watchers, players and others.",
            "short",
            [("Watch", 'sum(dealer_requests_in_flight{LOG, method="Watch"})')],
        ),
        Panel(
            "Latency by method",
            "One call in a hundred takes longer; without streams.",
            "s",
            [_p99_by_method("[^W].+", "dealer_request_seconds")],
        ),
        Panel("Writing", "Making a write durable.", "s", _quantiles("dealer_store_write_seconds")),
        Panel(
            "Wait for the shuffle service",
            "One call in a hundred takes longer.",
            "s",
            [_p99_by_method(_STEPS, "dealer_rngsvc_call_seconds")],
        ),
        Panel(
            "Calls to the shuffle service",
            "By status code. NOT_FOUND is how a dealer asks whether a hand is reserved already.",
            "ops",
            [("{{code}}", "sum by (code) (rate(dealer_rngsvc_calls_total{LOG}[RATE]))")],
        ),
        Panel(
            "Decks",
            "Shuffles a minute by number of cards, for all game servers; other: reshuffled stubs and other games.",
            "short",
            [("{{items}}", "60 * sum by (items) (rate(rngsvc_shuffles_total{LOG}[RATE]))")],
        ),
        Panel(
            "Why hands were given up",
            "Aborted and lost hands a minute, by reason, for all game servers.",
            "short",
            [("{{reason}}", '60 * sum by (reason) (rate(rngsvc_hands_closed_total{LOG, outcome!="complete"}[RATE]))')],
        ),
        Panel(
            "Tables at the service",
            "Tables with an unclosed hand, for all game servers.",
            "short",
            [("{{log}}", "sum by (log) (rngsvc_tables_in_play{LOG})")],
        ),
    ],
)

DASHBOARDS: Final = (OPERATOR, AUDITOR, CARD_ROOM)


def model(dashboard: Dashboard) -> dict[str, Any]:
    """Return Grafana's model of ``dashboard``."""
    return {
        "uid": f"rngsvc-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["rngsvc"],
        "schemaVersion": _SCHEMA_VERSION,
        "editable": True,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_data_source_variable(), _log_variable()]},
        "panels": list(_placed(dashboard.panels)),
    }


def text(dashboard: Dashboard) -> str:
    """Return the file of ``dashboard``."""
    return json.dumps(model(dashboard), indent=1, sort_keys=True) + "\n"


def _data_source_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _log_variable() -> dict[str, Any]:
    return {
        "name": "log",
        "label": "Log",
        "type": "query",
        "datasource": _DATA_SOURCE,
        "query": {"query": "label_values(rngsvc_build_info, log)", "refId": "log"},
        "refresh": 2,  # with each change of the time range
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _placed(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    """Yield the panels' models from left to right: six figures in a row, three graphs in a row."""
    x = y = row_height = 0
    for number, panel in enumerate(panels, start=1):
        width, height = (4, 4) if panel.is_figure else (8, 8)
        if x + width > _COLUMNS or (x and height != row_height):
            x, y = 0, y + row_height
        yield _panel(panel, number) | {"gridPos": {"x": x, "y": y, "w": width, "h": height}}
        x, row_height = x + width, height


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.is_figure:
        defaults |= {"color": {"mode": "thresholds"}, "thresholds": _thresholds(panel)}
        options: dict[str, Any] = {"colorMode": "value", "reduceOptions": {"calcs": ["lastNotNull"]}}
    else:
        options = {"legend": {"showLegend": True, "placement": "bottom"}, "tooltip": {"mode": "multi"}}
    return {
        "id": number,
        "type": "stat" if panel.is_figure else "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _DATA_SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": _DATA_SOURCE,
                "expr": _expanded(query),
                "legendFormat": legend,
            }
            for place, (legend, query) in enumerate(panel.queries)
        ],
    }


def _thresholds(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "red" if panel.is_red_below else "green", "value": None}]
    if panel.red is not None:
        steps.append({"color": "green" if panel.is_red_below else "red", "value": panel.red})
    return {"mode": "absolute", "steps": steps}


def _expanded(query: str) -> str:
    return query.replace("LOG", 'log=~"$log"').replace("RATE", "$__rate_interval")


if __name__ == "__main__":
    for each in DASHBOARDS:
        (FOLDER / f"{each.name}.json").write_text(text(each))
