"""Logs: one JSON object a line on stderr, or text for a person; our own lines and those of the libraries alike.

No secret may come into a line. So tracebacks show no local variables, and of a value only plain ones are written:
bytes, messages and other objects appear as their type's name, because a seed may be in them. What is public is logged
in hex, as text.
"""

import logging
import sys
from typing import Final, TextIO

import structlog
from structlog.processors import ExceptionRenderer
from structlog.stdlib import ProcessorFormatter
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor, WrappedLogger

from rngsvc.config import LogFormat, LogLevel

_LEVELS: Final = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}


def configure(level: LogLevel, log_format: LogFormat, stream: TextIO = sys.stderr) -> None:
    """Send all logs of this process to `stream`; may be called again, for example to change the level."""
    on_every_line: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _only_plain_values,
    ]
    render: list[Processor] = [
        # `show_locals` is on by default, and would write a seed that a failing function holds.
        ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
        structlog.processors.JSONRenderer(),
    ]
    if log_format is LogFormat.TEXT:
        # The default for exceptions shows local variables where rich is installed.
        plain = structlog.dev.plain_traceback
        render = [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
    structlog.configure(
        processors=[*on_every_line, *render],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    from_libraries = logging.StreamHandler(stream)
    from_libraries.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *on_every_line],
            processors=[ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    root.handlers = [from_libraries]
    root.setLevel(_LEVELS[level])


def _only_plain_values(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    # `exc_info` and structlog's own members, which begin with an underscore, are not written as they are.
    kept = {name: value for name, value in event.items() if name == "exc_info" or name.startswith("_")}
    return {name: _plain(value) for name, value in event.items() if name not in kept} | kept


def _plain(value: object) -> object:
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return f"<{type(value).__name__}>"
