"""Makes each page of `rngsvc/pages/` one file that works from disk, out of `rngsvc/pages/source/`.

    python deploy/build_pages.py            writes verify.html and status.html
    python deploy/build_pages.py --check    says whether they are current (exit code 1 if not)

Style and modules go into the file, and the page's Content-Security-Policy names their hashes: nothing else runs in it,
wherever the file is opened.
"""

import re
import sys
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

PAGES = Path(__file__).parents[1] / "rngsvc" / "pages"
SOURCE = PAGES / "source"
NAMES = ("verify", "status")

_STYLE = '<link rel="stylesheet" href="style.css">'
_POLICY = '<meta http-equiv="Content-Security-Policy" content="">'
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "(\S+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


def build(name: str) -> str:
    """Return the text of page ``name``."""
    page = (SOURCE / f"{name}.html").read_text(encoding="utf-8")
    style = (SOURCE / "style.css").read_text(encoding="utf-8")
    script = _bundle(SOURCE / f"{name}.js")
    assert "</script" not in script, "the script would end there"
    assert "<!--" not in script, "the script would be read in another way from there"
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    for placeholder, text in (
        (_POLICY, _POLICY.replace('content=""', f'content="{policy}"')),
        (_STYLE, f"<style>{style}</style>"),
        (f'<script type="module" src="{name}.js"></script>', f'<script type="module">{script}</script>'),
    ):
        assert page.count(placeholder) == 1, f"{name}.html must have {placeholder} once"
        page = page.replace(placeholder, text)
    return page


def _bundle(module: Path) -> str:
    """Return a module's text with what it imports inside: each imported module becomes a function that returns it."""

    def inline(found: re.Match[str]) -> str:
        names, path = found.groups()
        body = _bundle((module.parent / path).resolve())
        exported = ", ".join(name for _, name in _EXPORT.findall(body))
        body = _EXPORT.sub(r"\1", body)
        return f"const {names} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n"

    bundle = _IMPORT.sub(inline, module.read_text(encoding="utf-8"))
    assert not re.search(r"^import ", bundle, re.MULTILINE), f"{module.name} must import names from modules beside it"
    return bundle


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def main(arguments: list[str]) -> int:
    """Write the pages, or check them; return the exit code."""
    stale = []
    for name in NAMES:
        path = PAGES / f"{name}.html"
        page = build(name)
        if path.exists() and path.read_text(encoding="utf-8") == page:
            continue
        stale.append(path.name)
        if "--check" not in arguments:
            path.write_text(page, encoding="utf-8")
    print(f"{'stale' if '--check' in arguments else 'written'}: {', '.join(stale) or 'nothing'}")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
