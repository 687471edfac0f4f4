"""The page about game servers: its program runs as it stands there, and it names what there is."""

import json
import re
import subprocess
import sys
from pathlib import Path

from rngsvc.client import Client, errors
from rngsvc.client.connection import Consistency
from rngsvc.protocol.verify import Outcome, verify
from tests.rngsvc.conftest import RunningService

PAGE = (Path(__file__).parents[3] / "docs" / "game-server.md").read_text(encoding="utf-8")


def test_the_game_server_on_the_page_deals_a_hand_that_its_players_can_check(
    service: RunningService, tmp_path: Path
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for line in program.splitlines() if line.strip()]
    assert len(lines) <= 36, "thirty lines and the imports"
    (tmp_path / "game_server.py").write_text(program, encoding="utf-8")
    ready = json.dumps({"grpc": service.grpc, "log_key": service.log_key})
    done = subprocess.run(
        [sys.executable, "-W", "error", "game_server.py", ready],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    items = json.loads(done.stdout)
    assert len(set(items)) == 8
    for player in ("alice", "bob"):
        report = verify((tmp_path / f"{player}.json").read_bytes(), service.log_key).require()
        assert {step.id for step in report.steps if step.outcome is not Outcome.CHECKED} == {"history"}


def test_the_page_names_every_error_and_every_choice() -> None:
    families = {errors.CallFailed, errors.Unproven}
    for name in errors.__all__:
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, errors.CallFailed) and kind not in families:
            assert f"`{name}`" in PAGE, name
    for each in Consistency:
        assert f"| `{each}`" in PAGE
    several = ("reserve_all", "seal_all", "seal_twin_all", "choose_all", "open_all", "close_all")
    for method in (*several, "register_table"):
        assert hasattr(Client, method)
        assert method in PAGE
