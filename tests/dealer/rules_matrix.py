"""Writes docs/rules.md: each house rule with the tests that show it and the code that obeys it.

``python -m tests.dealer.rules_matrix`` writes the page; `test_rules_matrix.py` checks that it is up to date and whole.
The rules are those of the pages beside the rooms, the tests those marked ``rule("ID")``, the code where the id stands.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("casino_club", "poker777", "limit_stud", "pokerkings", "all_houses")
PAGE = ROOT / "docs" / "rules.md"
ID = re.compile(r"\b(?:DK|CC|P7|LS|PK|AL)-\d+\b")
HEAD = """# House rules: test and code

Written by `python -m tests.dealer.rules_matrix`; do not edit. The rules themselves stand beside the rooms in
`dealer/rooms/<room>.md`, those that all houses share in `dealer/rooms/all_houses.md`.
"""


def rules() -> dict[str, str]:
    """Return every rule's id and the page it stands on, in the order of the pages."""
    found: dict[str, str] = {}
    for page in PAGES:
        text = (ROOT / "dealer" / "rooms" / f"{page}.md").read_text()
        for rule in re.findall(r"^- \*\*([A-Z0-9]+-\d+)\*\*", text, flags=re.MULTILINE):
            assert rule not in found, f"{rule} stands on two pages"
            found[rule] = page
    return found


def tests() -> dict[str, list[str]]:
    """Return the tests marked with each id, as file and name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for rule in _marks(node.decorator_list):
                    found[rule].append(f"{path.relative_to(ROOT / 'tests')}: {node.name}")
            elif isinstance(node, ast.Assign) and any(getattr(name, "id", "") == "pytestmark" for name in node.targets):
                for rule in _marks(node.value.elts if isinstance(node.value, ast.List) else [node.value]):
                    found[rule].append(f"{path.relative_to(ROOT / 'tests')}: the whole file")
    return found


def _marks(decorators: list[ast.expr]) -> list[str]:
    return [
        str(argument.value)
        for decorator in decorators
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.rule"
        for argument in decorator.args
        if isinstance(argument, ast.Constant)
    ]


def code() -> dict[str, list[str]]:
    """Return the modules in which each id is named."""
    found: dict[str, list[str]] = defaultdict(list)
    for package in ("dealer", "rngsvc"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "v1" in path.parts:
                continue
            for rule in sorted(set(ID.findall(path.read_text()))):
                found[rule].append(str(path.relative_to(ROOT)))
    return found


def page() -> str:
    """Return the page's text."""
    shown, obeyed = tests(), code()
    lines = [HEAD]
    on = ""
    for rule, where in rules().items():
        if where != on:
            on = where
            lines += [f"\n## [{where}](../dealer/rooms/{where}.md)\n", "| rule | tests | code |", "| --- | --- | --- |"]
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in shown.get(rule, []):
            file, name = test.split(": ")
            by_file[file].append(name.removeprefix("test_").replace("_", " "))
        told = "<br>".join(f"`{file}`: {'; '.join(names)}" for file, names in by_file.items())
        lines.append(f"| {rule} | {told} | {', '.join(f'`{path}`' for path in obeyed.get(rule, []))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
