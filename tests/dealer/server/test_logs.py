"""What a dealer logs: JSON lines, the libraries' too, without local variables and bytes."""

import json
import subprocess
import sys

SCRIPT = """
import logging
import structlog
from dealer import logs
logs.to_stderr()
log = structlog.get_logger("dealer.test")
log.info("ready", grpc="127.0.0.1:1")
log.info("odd", seed=b"secret bytes")
def fails():
    card = "the ace of spades"
    raise RuntimeError("no card")
try:
    fails()
except RuntimeError as error:
    log.error("defect", exc_info=error)
    logging.getLogger("grpc").error("their defect", exc_info=True)
logging.getLogger("uvicorn").info("Started server process")
logging.getLogger("asyncio").warning("slow %s", "callback")
"""


def test_every_line_is_a_json_object_and_shows_no_variable_and_no_bytes() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == ""
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["ready", "odd", "defect", "their defect", "slow callback"]
    assert all({"level", "timestamp"} <= set(line) for line in lines)
    assert lines[0]["grpc"] == "127.0.0.1:1"
    assert lines[1]["seed"] == "<bytes>"
    assert lines[2]["exception"][0]["exc_value"] == "no card"
    assert "ace of spades" not in done.stderr
    assert "secret" not in done.stderr
