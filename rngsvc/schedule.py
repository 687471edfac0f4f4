"""When something that is done once a day is due. Pure: time and chance come in as arguments."""

from dataclasses import dataclass
from typing import Final

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Daily:
    """Once a day, ``at_s`` seconds after midnight UTC or up to ``jitter_s`` later."""

    at_s: int
    jitter_s: float

    def due_ms(self, last_ms: int | None, now_ms: int, chance: float) -> int:
        """Return when the next run is due, if the last one was at ``last_ms`` (None: never).

        ``chance``, 0 to 1, says how much of the jitter it gets. A run that was missed is due at once, with jitter too:
        after a power cut not all nodes should begin in the same second.
        """
        newest = now_ms - (now_ms - 1000 * self.at_s) % DAY_MS
        missed = last_ms is None or last_ms < newest
        return (now_ms if missed else newest + DAY_MS) + int(1000 * self.jitter_s * chance)
