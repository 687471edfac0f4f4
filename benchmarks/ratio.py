"""How a measured ratio is printed, the same for every bar."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """A bar: its name, what is divided by what, and the ratios to reach."""

    name: str
    what: str
    bar: float
    stretch: float

    def report(self, ratios: Sequence[float], detail: str) -> None:
        """Print the median of the rounds' ratios beside the bar."""
        ratio = statistics.median(ratios)
        verdict = "stretch" if ratio >= self.stretch else "reached" if ratio >= self.bar else "MISSED"
        spread = f"{min(ratios):.2f}..{max(ratios):.2f}"
        print(f"{self.name}  {self.what}")
        print(f"    ratio {ratio:.2f} ({spread})   bar {self.bar}   stretch {self.stretch}   {verdict}")
        print(f"    {detail}")
