"""What the alerts rest on: figures that the service takes from its own status and certificate."""

from typing import Any

from rngsvc.metrics import Metrics

NOW_MS = 1_800_000_000_000


def board(*, overdue: int = 0, late: bool = False, **newest: str) -> dict[str, Any]:
    """Return a status as `status.Board` reads it; ``newest`` is kind -> verdict."""
    results = {kind: {"time": NOW_MS, "verdict": verdict} for kind, verdict in newest.items()}
    log_audit = {"time": NOW_MS, "size": 5, "verdict": "pass", "trouble": ""}
    integrity = {"daily_overdue": late, "newest": results, "log_audit": log_audit}
    return {"hands": {"overdue": overdue}, "integrity": integrity}


def figure(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_the_newest_result_of_each_kind_is_shown_with_its_time_and_only_a_pass_is_good() -> None:
    metrics = Metrics()
    metrics.show_status(board(start="pass"))
    assert figure(metrics, "rngsvc_integrity_time_seconds", kind="start") == NOW_MS / 1000
    assert figure(metrics, "rngsvc_integrity_failed", kind="start") == 0
    assert figure(metrics, "rngsvc_integrity_failed", kind="daily") is None, "there was none"
    for verdict, failed in (("fail", 1), ("undecided", 1), ("pass", 0)):
        metrics.show_status(board(start="pass", daily=verdict))
        assert figure(metrics, "rngsvc_integrity_failed", kind="daily") == failed, verdict


def test_overdue_hands_and_results_come_and_go() -> None:
    metrics = Metrics()
    for overdue, late in ((0, False), (3, True), (0, False)):
        metrics.show_status(board(overdue=overdue, late=late))
        assert figure(metrics, "rngsvc_hands_overdue") == overdue
        assert figure(metrics, "rngsvc_integrity_overdue") == late


def test_a_lost_hand_and_every_deck_are_counted_from_zero() -> None:
    """Prometheus sees no rise in a series that appears with its first event."""
    metrics = Metrics()
    for reason in ("seed_lost", "key_lost"):
        assert figure(metrics, "rngsvc_hands_closed_total", outcome="lost", reason=reason) == 0
    assert figure(metrics, "rngsvc_hands_closed_total", outcome="aborted", reason="expired") == 0
    for items in ("52", "36", "32", "other"):
        assert figure(metrics, "rngsvc_shuffles_total", items=items) == 0
        assert figure(metrics, "rngsvc_shuffle_bytes_used_total", items=items) == 0


def test_without_tls_no_certificate_is_said_to_expire() -> None:
    metrics = Metrics()
    assert figure(metrics, "rngsvc_certificate_expires_seconds", use="server") is None
    metrics.show_certificate(NOW_MS / 1000)
    assert figure(metrics, "rngsvc_certificate_expires_seconds", use="server") == NOW_MS / 1000
