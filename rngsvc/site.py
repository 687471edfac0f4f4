"""The public pages for people, `/verify` and `/status`, and the little that they ask the service for.

Each page is one self-contained file (`pages/`, made by `deploy/build_pages.py`) that carries its own security policy
and is sent exactly as it stands in the code manifest, so that a saved copy can be compared with the log.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from rngsvc.manifest import manifest

_PAGES: Final = Path(__file__).parent / "pages"
_POLICY: Final = re.compile(rb'<meta http-equiv="Content-Security-Policy" content="([^"]+)">')


def routes(log_key: str, status: Callable[[], Awaitable[Mapping[str, Any]]]) -> list[Route]:
    """Return `/verify`, `/status`, `/status.json`, `/log-key` (the log's first key) and `/manifest`."""
    # Read once: it is the code that this process runs, whatever is installed over it meanwhile.
    files = manifest()

    async def status_json(_request: Request) -> Response:
        return JSONResponse(await status(), headers={"Cache-Control": "no-cache"})

    async def key(_request: Request) -> Response:
        return PlainTextResponse(f"{log_key}\n", headers={"Cache-Control": "no-cache"})

    async def manifest_text(_request: Request) -> Response:
        return PlainTextResponse(files, headers={"Cache-Control": "no-cache"})

    return [
        Route("/verify", _page("verify")),
        Route("/status", _page("status")),
        Route("/status.json", status_json),
        Route("/log-key", key),
        Route("/manifest", manifest_text),
    ]


def _page(name: str) -> Callable[[Request], Awaitable[Response]]:
    body = (_PAGES / f"{name}.html").read_bytes()
    policy = _POLICY.search(body)
    assert policy, "a built page has its policy"
    headers = {
        "Cache-Control": "no-cache",
        # What a page cannot say of itself from inside: nobody may show it in a frame.
        "Content-Security-Policy": f"{policy[1].decode()}; frame-ancestors 'none'",
        "Cross-Origin-Opener-Policy": "same-origin",
        "ETag": f'"{sha256(body).hexdigest()}"',
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }

    async def page(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="text/html; charset=utf-8", headers=headers)

    return page
