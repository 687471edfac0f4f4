"""Watching a service for years: what may be looked at every day without crying wolf.

A test at 1 % repeated on growing counts each day for a year raises a false alarm with chance near 1 in 5. Two
measures bear any number of looks:

- an e-process. Under uniform cells, the likelihood of the counts under a Dirichlet prior over their probabilities,
  over their likelihood under uniformity, is a test martingale (Lindon and Malek, NeurIPS 2022); that it ever reaches
  1/alpha has chance at most alpha (Ville). Averages of such processes are one again, whatever their dependence.
- alpha spending. Four looks a year at the growing table of position against card share one alpha by the shape of
  O'Brien and Fleming: little at first, most at the end.

The state holds cumulative integer counts, so states of several nodes merge.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import rfc8785
from scipy import special

from stats_tests.nulls import log_chi_square_tail

SCHEMA: Final = "stats_tests-monitor/1"
ALPHA: Final = 0.01
"""Chance of a false alarm for ever (e-process), and in a year (alpha spending)."""
DAYS: Final = 365
DAILY_ALPHA: Final = ALPHA / DAYS
"""The share of one day's battery."""
LOOKS: Final = (91, 182, 273, 365)
"""Days after which the cumulative table is judged."""
CONCENTRATIONS: Final = (10.0, 100.0, 1000.0, 10_000.0)
"""How close to uniform the alternatives lie, in Dirichlet counts for each cell; they are averaged."""


class MonitorError(ValueError):
    """The monitor's state is none, or does not fit."""


def log_e_value(counts: np.ndarray[Any, Any], concentration: float) -> np.ndarray[Any, Any]:
    """Return the log e-value of each row of counts against uniform cells, for one Dirichlet prior."""
    cells = counts.shape[-1]
    total = counts.sum(axis=-1)
    prior = concentration * np.ones(cells)
    evidence = (
        special.gammaln(prior.sum())
        - special.gammaln(prior.sum() + total)
        + (special.gammaln(prior + counts) - special.gammaln(prior)).sum(axis=-1)
    )
    result: np.ndarray[Any, Any] = evidence + total * math.log(cells)
    return result


def log_e_of_table(table: np.ndarray[Any, Any]) -> float:
    """Return the log of the average e-value over all positions (rows) and priors.

    One deck adds one card to each row, so each row is a martingale along the decks, and so is their average.
    """
    values = np.concatenate([log_e_value(table, concentration) for concentration in CONCENTRATIONS])
    return float(special.logsumexp(values) - math.log(len(values)))


def spent(share: float) -> float:
    """Return the alpha spent when a share 0..1 of the year is over (O'Brien and Fleming's shape)."""
    if share <= 0:
        return 0.0
    critical = -float(special.ndtri(ALPHA / 2))
    return 2 * float(special.ndtr(-critical / math.sqrt(min(1.0, share))))


@dataclass
class Monitor:
    """Cumulative counts of the current year of days, and the days.

    Attributes:
        n: cards in a deck.
        table: decks by position and card, n x n, since the first day.
        largest_log_e: the largest log e-value so far: an alarm, once raised, stays.
        days: one entry a day: time, decks, verdict and alarms.
    """

    n: int
    table: np.ndarray[Any, Any]
    largest_log_e: float = -math.inf
    days: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, n: int) -> Self:
        """Return a monitor that has seen nothing."""
        return cls(n, np.zeros((n, n), dtype=np.int64))

    @property
    def decks(self) -> int:
        """Decks seen."""
        return int(self.table[0].sum())

    def add(self, table: np.ndarray[Any, Any], day: Mapping[str, Any]) -> tuple[str, ...]:
        """Add a day's counts and return the alarms: e-process, and the cumulative table at the year's looks."""
        self.table = self.table + table
        log_e = log_e_of_table(self.table)
        self.largest_log_e = max(self.largest_log_e, log_e)
        alarms = []
        if self.largest_log_e >= -math.log(ALPHA):
            alarms.append("e-process")
        number = len(self.days) + 1
        if (number - 1) % DAYS + 1 in LOOKS and self.log_p() < math.log(self._share_of_look(number)):
            alarms.append("cumulative table")
        self.days.append({**day, "log10_e": log_e / math.log(10), "alarms": list(alarms)})
        return tuple(alarms)

    def log_p(self) -> float:
        """Return the log P-value of the cumulative table of position against card."""
        expected = self.decks / self.n
        statistic = (self.n - 1) / self.n * float(((self.table - expected) ** 2).sum()) / expected
        return log_chi_square_tail(statistic, (self.n - 1) ** 2)

    @staticmethod
    def _share_of_look(number: int) -> float:
        day = (number - 1) % DAYS + 1
        before = max((look for look in LOOKS if look < day), default=0)
        return spent(day / DAYS) - spent(before / DAYS)

    def merge(self, other: Self) -> None:
        """Add another node's counts and days; MonitorError if it watches other decks."""
        if other.n != self.n:
            raise MonitorError(f"monitors of {self.n} and of {other.n} cards do not merge")
        self.table = self.table + other.table
        self.largest_log_e = max(self.largest_log_e, other.largest_log_e, log_e_of_table(self.table))
        self.days = sorted([*self.days, *other.days], key=lambda day: (day["time"], rfc8785.dumps(day)))

    def encode(self) -> bytes:
        """Return the state: canonical JSON and a line break."""
        return (
            rfc8785.dumps(
                {
                    "schema": SCHEMA,
                    "n": self.n,
                    "counts": self.table.ravel().tolist(),
                    "largest_log_e": None if math.isinf(self.largest_log_e) else self.largest_log_e,
                    "days": self.days,
                }
            )
            + b"\n"
        )

    @classmethod
    def read(cls, path: Path, n: int) -> Self:
        """Read a state, an empty one if there is no file yet; MonitorError if it is none or of other decks."""
        if not path.exists():
            return cls.of(n)
        try:
            state = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise MonitorError(f"{path}: not JSON: {error}") from error
        if not isinstance(state, dict) or state.get("schema") != SCHEMA:
            raise MonitorError(f"{path}: not the state of a monitor, whose schema is {SCHEMA}")
        if state.get("n") != n:
            raise MonitorError(f"{path}: not a monitor of {n} cards")
        try:
            largest = state["largest_log_e"]
            table = np.array(state["counts"], dtype=np.int64).reshape(n, n)
            return cls(n, table, -math.inf if largest is None else float(largest), list(state["days"]))
        except KeyError as error:
            raise MonitorError(f"{path}: the member {error} is missing") from error
        except (ValueError, TypeError, OverflowError) as error:
            raise MonitorError(f"{path}: {error}") from error
