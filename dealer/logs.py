"""Logs: one JSON object a line on stderr, our own lines and those of the libraries alike; stdout is for the address.

No card and no secret may come into a line: tracebacks show no local variables, and bytes appear as their type's name.
"""

import logging
import sys

import structlog
from structlog.processors import ExceptionRenderer
from structlog.stdlib import ProcessorFormatter
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor, WrappedLogger

# uvicorn tells at `info` what our own lines say better.
_LEVEL = logging.WARNING


def to_stderr() -> None:
    """Send all logs of this process to stderr."""
    every_line: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_bytes,
        ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
    ]
    as_json = structlog.processors.JSONRenderer()
    structlog.configure(processors=[*every_line, as_json], logger_factory=structlog.WriteLoggerFactory(sys.stderr))
    libraries = logging.StreamHandler(sys.stderr)
    libraries.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *every_line],
            processors=[ProcessorFormatter.remove_processors_meta, as_json],
        )
    )
    logging.basicConfig(level=_LEVEL, handlers=[libraries], force=True)


def _without_bytes(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {name: "<bytes>" if isinstance(value, bytes) else value for name, value in event.items()}
