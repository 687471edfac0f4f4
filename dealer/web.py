"""The operator's pages: `/metrics`, `/healthz` (the process lives) and `/readyz` (it can deal). Plain HTTP."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dealer.config import ConfigurationRefused

Ready = Callable[[], dict[str, Any]]


def operator_pages(registry: CollectorRegistry, ready: Ready) -> Starlette:
    """Return the pages. ``ready`` gives figures for the operator, and under ``why`` what keeps it from dealing."""

    async def alive(_request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def able(_request: Request) -> Response:
        figures = ready()
        word, code = ("not ready", 503) if figures["why"] else ("ready", 200)
        return JSONResponse({"status": word, **figures}, code)

    async def figures_now(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return Starlette(routes=[Route("/healthz", alive), Route("/readyz", able), Route("/metrics", figures_now)])


@contextlib.asynccontextmanager
async def listening(address: str, pages: Starlette) -> AsyncIterator[str]:
    """Serve pages at HOST:PORT while the context lasts; give the address that was found.

    Raises ConfigurationRefused.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        found = socket.create_server((host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigurationRefused([f"http_operator: {address}: {error.strerror or error}"]) from error
    with found:
        server = uvicorn.Server(
            uvicorn.Config(pages, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2)
        )
        # It is not uvicorn that decides when this process ends.
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
        serving = asyncio.create_task(server.serve([found]))
        try:
            yield f"{address.rpartition(':')[0]}:{found.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving
