"""Log lines: JSON for programs, and never a secret in one."""

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import structlog

from rngsvc import logs
from rngsvc.config import LogFormat, LogLevel

SEED = "planted-seed-c0ffee"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    structlog.reset_defaults()
    root.handlers, root.level = handlers, level


def configured(log_format: LogFormat = LogFormat.JSON, level: LogLevel = LogLevel.INFO) -> io.StringIO:
    stream = io.StringIO()
    logs.configure(level, log_format, stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@dataclass
class Holds:
    """An object whose text would show the seed."""

    seed: str


def fails() -> None:
    seed = SEED
    held = Holds(seed)
    raise RuntimeError(f"failed while holding {type(held).__name__}")


def fails_from_a_cause() -> None:
    try:
        fails()
    except RuntimeError as error:
        cause_of = SEED
        raise ValueError(f"with a name of {len(cause_of)} letters") from error


def fails_in_a_group() -> None:
    seed = SEED
    try:
        fails()
    except RuntimeError as error:
        raise ExceptionGroup(f"a group, {len(seed)}", [error]) from None


def log_by_structlog() -> None:
    structlog.get_logger().exception("it failed")


def log_by_a_library() -> None:
    logging.getLogger("grpc").exception("it failed")


@pytest.mark.parametrize("log", [log_by_structlog, log_by_a_library])
@pytest.mark.parametrize("fail", [fails, fails_from_a_cause, fails_in_a_group])
@pytest.mark.parametrize("log_format", LogFormat)
def test_a_seed_in_a_local_variable_of_a_failing_function_is_not_logged(
    log_format: LogFormat, fail: Callable[[], None], log: Callable[[], None]
) -> None:
    stream = configured(log_format)
    try:
        fail()
    except Exception:  # noqa: BLE001 - any failure is logged
        log()
    text = stream.getvalue()
    assert "it failed" in text
    assert "failed while holding Holds" in text  # the traceback is there
    assert "fails" in text
    assert SEED not in text


def test_an_exception_that_nobody_fetched_from_a_task_is_logged_without_locals() -> None:
    stream = configured()

    async def abandon() -> None:
        async def failing() -> None:
            fails()

        task = asyncio.create_task(failing())
        await asyncio.sleep(0)
        del task
        await asyncio.sleep(0)

    asyncio.run(abandon())
    assert "failed while holding Holds" in stream.getvalue()
    assert SEED not in stream.getvalue()


@pytest.mark.parametrize("log_format", LogFormat)
@pytest.mark.parametrize(
    "value",
    [
        SEED.encode(),
        bytearray(SEED.encode()),
        Holds(SEED),
        RuntimeError(SEED),
        [SEED.encode()],
        {"seed": Holds(SEED)},
        {SEED.encode(): 1},
        ({"deep": [(Holds(SEED),)]},),
    ],
)
def test_of_what_is_not_plain_only_the_type_is_logged(value: object, log_format: LogFormat) -> None:
    stream = configured(log_format)
    structlog.get_logger().info("sealed", value=value)
    assert "sealed" in stream.getvalue()
    assert SEED not in stream.getvalue()


def test_a_line_is_one_json_object_with_time_level_and_context() -> None:
    stream = configured()
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        structlog.get_logger().info("sealed", table="aa", seq=7, hands=[1, 2], ok=True, none=None)
    logging.getLogger("uvicorn").warning("slow %s", "client")
    ours, theirs = lines(stream)
    assert ours.pop("timestamp", "").endswith("Z")  # type: ignore[attr-defined]
    assert ours == {
        "event": "sealed",
        "level": "info",
        "request_id": "r-1",
        "table": "aa",
        "seq": 7,
        "hands": [1, 2],
        "ok": True,
        "none": None,
    }
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("slow client", "warning", "uvicorn")


@pytest.mark.parametrize(
    ("level", "logged"),
    [
        (LogLevel.DEBUG, ["debug", "info", "warning", "error"]),
        (LogLevel.INFO, ["info", "warning", "error"]),
        (LogLevel.WARNING, ["warning", "error"]),
        (LogLevel.ERROR, ["error"]),
    ],
)
def test_the_level_holds_for_our_lines_and_for_the_libraries(level: LogLevel, logged: list[str]) -> None:
    stream = configured(level=level)
    for name in ("debug", "info", "warning", "error"):
        getattr(structlog.get_logger(), name)("ours")
        getattr(logging.getLogger("library"), name)("theirs")
    assert [line["level"] for line in lines(stream)] == [name for name in logged for _ in range(2)]


def test_it_may_be_configured_again() -> None:
    first = configured(level=LogLevel.ERROR)
    log = structlog.get_logger()
    log.info("unheard")
    second = configured(level=LogLevel.DEBUG)
    log.debug("heard")
    logging.getLogger("library").debug("heard once")
    assert first.getvalue() == ""
    assert [line["event"] for line in lines(second)] == ["heard", "heard once"]
