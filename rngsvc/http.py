"""Serving a small HTTP application inside a process that has a life of its own."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette

from rngsvc.config import Address


def bound(address: Address) -> socket.socket:
    """Return a listening socket; OSError if the address cannot be had."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server((address.host, address.port), family=family)


def address_of(listening: socket.socket) -> Address:
    """Return where a socket listens, with the port that was found."""
    host, port = listening.getsockname()[:2]
    return Address(host, port)


@contextlib.asynccontextmanager
async def serving(app: Starlette, listening: socket.socket) -> AsyncIterator[None]:
    """Serve ``app`` on a listening socket while the context lasts."""
    config = uvicorn.Config(
        app, log_config=None, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=2
    )
    http = uvicorn.Server(config)
    # Signals are the process's own: uvicorn would end it before its work is done.
    http.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    task = asyncio.create_task(http.serve([listening]))
    try:
        yield
    finally:
        http.should_exit = True
        await task
        listening.close()
