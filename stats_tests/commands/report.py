"""`stats_tests report`."""

from pathlib import Path

import click

from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.signed_note import SignedNote
from stats_tests.commands.exit_codes import bad_input_as_usage
from stats_tests.commands.options import NEW_FILE, SIGNED_FILE, WritingCommand
from stats_tests.commands.output import write_whole
from stats_tests.report.document import ReportError, decode
from stats_tests.report.signature import statement


@click.command(cls=WritingCommand)
@click.argument("report_path", metavar="REPORT", type=SIGNED_FILE)
@click.option("--html", "html_path", type=NEW_FILE, help="Page to write: one file, with pictures.")
@click.option("--pdf", "pdf_path", type=NEW_FILE, help="PDF to write.")
def command(report_path: Path, html_path: Path | None, pdf_path: Path | None) -> None:
    """Make HTML and PDF of a report. They say what the JSON says; `verify` checks the JSON."""
    if html_path is None and pdf_path is None:
        raise click.UsageError("give --html, --pdf, or both")
    from stats_tests.report.render import to_html, to_pdf  # noqa: PLC0415 - plotting is slow to load

    with bad_input_as_usage():
        raw = report_path.read_bytes()
        report = decode(raw)
        signed_by = _signer(report, raw, report_path.with_name(f"{report_path.name}.note"))
        try:
            page = to_html(report, raw, signed_by=signed_by) if html_path else ""
            pdf = to_pdf(report, raw, signed_by=signed_by) if pdf_path else b""
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise ReportError(f"{report_path}: its members contradict each other: {error!r}") from error
        if html_path is not None:
            write_whole(html_path, page.encode())
        if pdf_path is not None:
            write_whole(pdf_path, pdf)


def _signer(report: dict[str, object], raw: bytes, path: Path) -> str:
    """Return who signed the report by the note beside it; whether the signature is right, only `verify` says."""
    if not path.exists():
        return ""
    try:
        note = SignedNote.parse(path.read_text(encoding="utf-8"))
    except MalformedError as error:
        raise ReportError(f"{path}: {error}") from error
    if note.text != statement(report, raw):
        raise ReportError(f"{path}: it is the signature of another report")
    return f"{', '.join(line.name for line in note.signatures)} (verify it with stats_tests verify)"
