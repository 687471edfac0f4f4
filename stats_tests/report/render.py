"""HTML and PDF of a report: what the document says, and nothing else; the same document gives the same bytes."""

import json
import tempfile
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import typst

from stats_tests.report.plots import pictures, to_svg
from stats_tests.report.view import view

TEMPLATES = files(__package__)
WIDEST = 9.5
"""Width of the widest picture, in inches."""


def to_html(report: dict[str, Any], raw: bytes, *, signed_by: str) -> str:
    """Return one self-contained page: no script, nothing fetched."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string(TEMPLATES.joinpath("report.html.j2").read_text(encoding="utf-8"))
    drawn = [{"title": title, "text": text, "svg": to_svg(figure)} for title, text, figure in pictures(report)]
    return template.render(view=view(report, raw, signed_by=signed_by), pictures=drawn)


def to_pdf(report: dict[str, Any], raw: bytes, *, signed_by: str) -> bytes:
    """Return a tagged PDF."""
    with tempfile.TemporaryDirectory(prefix="stats-tests-") as folder:
        drawn = []
        for number, (title, text, figure) in enumerate(pictures(report)):
            name = f"picture-{number}.svg"
            Path(folder, name).write_text(to_svg(figure), encoding="utf-8")
            # The largest picture is as wide as the page, the others in proportion, so that all letters are one size.
            share = 100 * figure.get_figwidth() / WIDEST
            drawn.append({"title": title, "text": text, "file": name, "share": share})
        main = Path(folder, "report.typ")
        main.write_text(TEMPLATES.joinpath("report.typ").read_text(encoding="utf-8"), encoding="utf-8")
        data = {"view": view(report, raw, signed_by=signed_by), "pictures": drawn}
        # A fixed time: the report's own is a text in it, and the clock must not show in the bytes.
        pdf: bytes = typst.compile(
            str(main),
            root=folder,
            sys_inputs={"report": json.dumps(data)},
            timestamp=int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()),
            ignore_system_fonts=True,
        )
        return pdf
