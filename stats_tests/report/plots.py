"""The report's pictures, as SVG: the same data give the same bytes.

Colours say one thing only: blue what was seen, orange what was expected or a threshold.
"""

import io
import math
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from stats_tests.catalogue import Kind

BLUE: Final = "#1f5fa8"
ORANGE: Final = "#d95f02"
GREY: Final = "#888888"
MOST_DOTS: Final = 40
MOST_PANELS: Final = 24
LARGEST_MAP: Final = 128
LOWEST: Final = -20.0
"""P-values below 10^-20 are drawn at the edge."""

SETTINGS: Final[Any] = {
    "svg.hashsalt": "stats_tests",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def to_svg(figure: Figure) -> str:
    """Return the figure's SVG element, without what changes from run to run."""
    with mpl.rc_context(SETTINGS):
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


TEXTS: Final = {
    "P-values": """
        Left: all P-values, smallest first, against what that many uniform ones would be; honest results follow the grey
        line. Right: the smallest ones by test, with the line below which the smallest of all would count.
    """,
    "Position and card": """
        How often each card lay at each position, less what is expected, in standard deviations. A fair shuffle looks
        like noise; stripes and patches are faults.
    """,
    "What this sample could show": """
        The smallest relative bias (root mean square over the cells of the leading test) that is seen with 99 % chance,
        by size of sample. The dot is this sample; a bias below the line would not have been seen.
    """,
    "Seen and expected": """
        Blue bars: how often each category was seen. Orange marks: how often it is expected.
    """,
}


def pictures(report: dict[str, Any]) -> list[tuple[str, str, Figure]]:
    """Return title, explanation and figure of each picture that the report's last campaign gives."""
    campaign = report["campaigns"][-1]
    with mpl.rc_context(SETTINGS):
        figures = {"P-values": p_value_figure(campaign["results"])}
        if (table := position_table(report)) is not None:
            figures["Position and card"] = heat_map(table)
        figures["What this sample could show"] = power_figure(campaign["power"], report["plan"]["kind"])
        if with_categories := [row for row in campaign["results"] if "categories" in row]:
            figures["Seen and expected"] = category_figure(with_categories)
    return [(title, " ".join(TEXTS[title].split()), figure) for title, figure in figures.items()]


def position_table(report: dict[str, Any]) -> np.ndarray[Any, Any] | None:
    """Return the counts of position by card of the last campaign, or None if there are none or too many to draw."""
    plan = report["plan"]
    if plan["kind"] != Kind.SHUFFLES or plan["size"] > LARGEST_MAP:
        return None
    counts = report["campaigns"][-1]["counts"]["tests"]["shuffles.position-card"]["counts"]
    table: np.ndarray[Any, Any] = np.array(counts).reshape(plan["size"], plan["size"])
    return table if table.sum() else None


def heat_map(table: np.ndarray[Any, Any]) -> Figure:
    """Draw the standardised residuals of position by card."""
    n = len(table)
    expected = table.sum() / n**2
    # A cell is binomial with chance 1/n; fixed row and column sums take a little of its variance.
    residuals = (table - expected) / math.sqrt(expected * (1 - 1 / n))
    limit = max(4.0, float(np.abs(residuals).max()))
    figure = _figure(6.4, 5.4)
    axes = figure.subplots()
    image = axes.imshow(residuals, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest", aspect="equal")
    axes.set_xlabel("card")
    axes.set_ylabel("position (0 is dealt first)")
    figure.colorbar(image, ax=axes, label="standard deviations from expected", shrink=0.85)
    return figure


def p_value_figure(rows: list[dict[str, Any]]) -> Figure:
    """Draw all P-values against uniform ones, and the smallest by test."""
    applied = sorted((row for row in rows if row["status"] == "ok"), key=lambda row: row["log10_p"])
    figure = _figure(9.5, max(3.4, 0.19 * min(MOST_DOTS, len(applied)) + 1.2))
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.5])
    count = len(applied)
    observed = [max(LOWEST, row["log10_p"]) for row in applied]
    uniform = [math.log10((i + 0.5) / count) for i in range(count)]
    lowest = min([*observed, *uniform, -2.5]) * 1.05
    left.plot([lowest, 0], [lowest, 0], color=GREY, linewidth=1)
    left.plot(uniform, observed, "o", color=BLUE, markersize=3.5)
    left.set_xlabel("log10 of uniform P-values")
    left.set_ylabel("log10 of P-values seen")
    left.set_xlim(min([*uniform, -2.5]) * 1.05, 0.05)
    left.set_ylim(lowest, 0.05 * -lowest)

    primary = sum(row["primary"] for row in applied)
    shown = applied[:MOST_DOTS]
    places = np.arange(len(shown))
    values = [max(LOWEST, row["log10_p"]) for row in shown]
    colours = [BLUE if row["primary"] else GREY for row in shown]
    right.hlines(places, values, 0, color="#dddddd", linewidth=1)
    right.scatter(values, places, c=colours, s=16, zorder=3)
    if primary:
        right.axvline(math.log10(0.01 / primary), color=ORANGE, linewidth=1, label="0.01 over the number of results")
        right.legend(loc="lower left", frameon=False, fontsize=7)
    right.set_yticks(places, [row["test"] for row in shown], fontsize=6)
    right.invert_yaxis()
    right.set_xlim(min([*values, -2.2 - math.log10(max(1, primary))]) * 1.05, 0.05)
    right.set_xlabel("log10 P")
    return figure


def power_figure(power: dict[str, Any], kind: str) -> Figure:
    """Draw the smallest bias seen against the size of the sample."""
    items = [point[0] for point in power["curve"]]
    biases = [100 * point[1] for point in power["curve"]]
    middle = len(items) // 2
    figure = _figure(6.4, 3.2)
    axes = figure.subplots()
    axes.loglog(items, biases, color=BLUE)
    axes.loglog([items[middle]], [biases[middle]], "o", color=ORANGE)
    axes.annotate(
        f"this sample: {biases[middle]:.2g} %",
        (items[middle], biases[middle]),
        textcoords="offset points",
        xytext=(8, 6),
    )
    axes.set_xlabel({"bits": "bytes", "numbers": "numbers", "shuffles": "decks"}[kind])
    axes.set_ylabel("relative bias, %")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(visible=True, which="major", color="#eeeeee")
    return figure


def category_figure(rows: list[dict[str, Any]]) -> Figure:
    """Draw what was seen and what was expected, a panel for each table."""
    rows = rows[:MOST_PANELS]
    columns = 4
    lines = -(-len(rows) // columns)
    figure = _figure(9.5, 1.75 * lines)
    panels = np.atleast_1d(figure.subplots(lines, columns)).ravel()
    for panel, row in zip(panels, rows, strict=False):
        categories = row["categories"]
        places = np.arange(len(categories))
        panel.bar(places, [c[1] for c in categories], color=BLUE, width=0.8)
        panel.plot(places, [c[2] for c in categories], "_", color=ORANGE, markersize=max(3, 90 / len(categories)))
        panel.set_title(row["test"].split(".", 1)[1], fontsize=7)
        step = max(1, len(categories) // 6)
        panel.set_xticks(places[::step], [c[0] for c in categories][::step], fontsize=5.5, rotation=20, ha="right")
        panel.tick_params(axis="y", labelsize=6)
    for panel in panels[len(rows) :]:
        panel.axis("off")
    return figure
