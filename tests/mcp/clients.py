"""Connections of the official SDK to a site: two transports, two protocol generations.

Not for EAA's client, which is synchronous and has a test file of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import harness
from harness import PATIENCE_S, Site

#: The SDK's name for each protocol generation.
MODES = {"legacy": "legacy", "modern": "2026-07-28"}


@dataclass(frozen=True)
class Way:
    """How a client reaches a server."""

    transport: str
    era: str

    @contextlib.asynccontextmanager
    async def connect(self, site: Site, **options: Any) -> AsyncIterator[Client]:
        """A client of a server of `site`, both of which end with the block; `options` are the client's."""
        mode = MODES[self.era]
        if self.transport == "http":
            with harness.http_server(site) as url:
                async with Client(url, mode=mode, read_timeout_seconds=PATIENCE_S, **options) as client:
                    yield client
            return
        server = StdioServerParameters(
            command=str(harness.BINARY),
            args=site.stdio_arguments,
            env=harness.server_environment(),
            cwd=site.root,
        )
        with site.log.open("a") as log:
            transport = stdio_client(server, errlog=log)
            async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE_S, **options) as client:
                yield client


WAYS = [Way(transport, era) for transport in ("stdio", "http") for era in MODES]


async def until(condition: harness.Condition, complaint: str) -> None:
    """Like `harness.wait_until`, without blocking the event loop."""
    await anyio.to_thread.run_sync(harness.wait_until, condition, complaint)
