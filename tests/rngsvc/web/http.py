"""Asks an ASGI application without a network in between."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


async def get(app: Any, path: str, method: str = "GET") -> Answer:
    """Return what `app` answers to a request for `path` (as a client spells it)."""
    status, headers, body = 0, {}, b""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, headers, body
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            body += message.get("body", b"")

    plain, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(plain),
        "raw_path": plain.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"testserver")],
        "client": ("127.0.0.1", 1),
        "server": ("testserver", 80),
    }
    await app(scope, receive, send)
    return Answer(status, headers, body)
