"""Draw the dashboards: `python deploy/grafana/draw_panels.py` writes docs/images/dashboard-*.png.

No Grafana draws them. Each committed panel's queries are put to a real Prometheus that watches a real, loaded service,
and its answers are drawn in the panels' places. Takes about three minutes.
"""

import asyncio
import json
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from deploy.grafana.make_dashboards import DASHBOARDS, FOLDER
from deploy.grafana.observed_room import ObservedRoom, Prometheus, observed_room, play

IMAGES: Final = FOLDER.parent.parent / "docs" / "images"
_PLAYED_S: Final = 150
_TABLES: Final = 20
_STEP_S: Final = 2
_WINDOW: Final = "10s"
_COLUMNS: Final = 24
_INCH_A_COLUMN: Final = 0.55
_INCH_A_ROW: Final = 0.36
_DPI: Final = 80
_COLOURS: Final = 64
_GOOD: Final = "#1a7f37"
_BAD: Final = "#cf222e"
_SECONDS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BYTES: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_POWERS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))


def main() -> None:
    """Play, ask, draw."""
    mpl.rcParams.update({"font.size": 8, "axes.grid": True, "grid.alpha": 0.3, "axes.spines.top": False})
    mpl.rcParams.update({"axes.spines.right": False, "axes.titlesize": 9, "axes.titleweight": "bold"})
    with tempfile.TemporaryDirectory() as folder, observed_room(Path(folder)) as room:
        begin = time.time()
        asyncio.run(play(room, _PLAYED_S, _TABLES))
        end = time.time() - _STEP_S  # before the tables closed
        for dashboard in DASHBOARDS:
            model = json.loads((FOLDER / f"{dashboard.name}.json").read_text())
            _draw(model, room, begin, end, IMAGES / f"dashboard-{dashboard.name}.png")


def _draw(model: dict[str, Any], room: ObservedRoom, begin: float, end: float, to: Path) -> None:
    panels = model["panels"]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    figure = Figure((_COLUMNS * _INCH_A_COLUMN, rows * _INCH_A_ROW), dpi=_DPI, facecolor="white")
    for panel in panels:
        at = panel["gridPos"]
        # Room for the axis' numbers to the left, for the legend below.
        left, right = (0.2, 0.1) if panel["type"] == "stat" else (1.1, 0.3)
        below, above = (0.3, 0.9) if panel["type"] == "stat" else (2.3, 0.9)
        axes = figure.add_axes(
            (
                (at["x"] + left) / _COLUMNS,
                1 - (at["y"] + at["h"] - below) / rows,
                (at["w"] - left - right) / _COLUMNS,
                (at["h"] - above - below) / rows,
            )
        )
        axes.set_title(panel["title"], loc="left")
        queries = [(target["legendFormat"], _asked(target["expr"])) for target in panel["targets"]]
        if panel["type"] == "stat":
            _figure(axes, panel, room.prometheus.query_range(queries[0][1], begin, end, _STEP_S))
        else:
            _graph(axes, panel, queries, room.prometheus, begin, end)
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(to)
    Image.open(to).convert("RGB").quantize(_COLOURS).save(to, optimize=True)  # a third of the size


def _asked(expr: str) -> str:
    return expr.replace("$log", ".*").replace("$__rate_interval", _WINDOW)


def _figure(axes: Axes, panel: dict[str, Any], answer: list[dict[str, Any]]) -> None:
    """Write the newest value of each series, in the colour that its thresholds say."""
    axes.set_axis_off()
    shown = [(series["metric"].get("kind", ""), _values(series)[-1]) for series in answer]
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    for place, (name, value) in enumerate(shown):
        reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
        axes.text(
            (place + 0.5) / len(shown),
            0.5,
            _with_unit(value, panel["fieldConfig"]["defaults"]["unit"]),
            color=_GOOD if reached[-1] == "green" else _BAD,
            fontsize=18,
            ha="center",
            va="center",
            transform=axes.transAxes,
        )
        axes.text((place + 0.5) / len(shown), 0.1, name, ha="center", va="center", transform=axes.transAxes)


def _graph(
    axes: Axes, panel: dict[str, Any], queries: list[tuple[str, str]], prometheus: Prometheus, begin: float, end: float
) -> None:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    # Twenty colours that can be told apart, the strong ones first.
    axes.set_prop_cycle(color=[mpl.colormaps["tab20"](n) for n in (*range(0, 20, 2), *range(1, 20, 2))])
    for legend, expr in queries:
        for series in prometheus.query_range(expr, begin, end, _STEP_S):
            times = [float(at) - begin for at, _ in series["values"]]
            style = "--" if "expected" in legend else "-"
            axes.plot(times, _values(series), style, linewidth=1.2, label=_legend(legend, series["metric"]))
    axes.set_xlim(0, end - begin)
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low) if low < high / 3 else low, high if high > 0 else 1)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0f} s")
    axes.yaxis.set_major_formatter(lambda y, _: _with_unit(y, unit))
    axes.legend(loc="upper left", bbox_to_anchor=(-0.12, -0.13), ncols=3, frameon=False, fontsize=7, columnspacing=1)


def _values(series: dict[str, Any]) -> list[float]:
    return [float(value) for _, value in series["values"]]


def _legend(form: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        form = form.replace("{{" + name + "}}", value)
    return "" if "{{" in form else form


def _with_unit(value: float, unit: str) -> str:
    """Write ``value`` as Grafana writes its unit."""
    match unit:
        case "s":
            size, name = next((each for each in _SECONDS if abs(value) >= each[0]), _SECONDS[-1])
            return f"{value / size:.3g} {name}" if value else "0"
        case "percentunit":
            return f"{100 * value:.3g} %"
        case "bytes" | "Bps":
            size, name = next((each for each in _BYTES if abs(value) >= each[0]), _BYTES[-1])
            return f"{value / size:.3g} {name}" + ("/s" if unit == "Bps" else "")
        case _:
            if math.isnan(value):
                return "-"
            size, name = next((each for each in _POWERS if abs(value) >= each[0]), _POWERS[-1])
            return f"{value / size:.3g}{name}" + ("/s" if unit == "ops" else "")


if __name__ == "__main__":
    main()
