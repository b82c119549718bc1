"""The wire itself, without a client's kindness: what strange, rude or vanished peers get.

Raw JSON-RPC over pipes and raw HTTP. Not for what well-behaved clients see: `test_sdk` has that.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import threading
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

import harness
from harness import BASH_TOOL, Site

MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Pipe:
    """A stdio server and the raw lines that go in and out."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def write(self, line: str) -> None:
        """Sends one line."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def send(self, method: str, params: dict[str, object], **more: object) -> None:
        """Sends one message."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}))

    def answer(self, identity: int) -> dict[str, Any]:
        """The answer to the request of that id; whatever comes before it must be JSON-RPC too."""
        for line in self.process.stdout:
            message: dict[str, Any] = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if message.get("id") == identity:
                return message
        raise AssertionError("the server ended without an answer")

    def call(self, identity: int, code: str) -> None:
        """Sends a modern tool call, which needs no handshake."""
        arguments = {"code": code, "timeout": 600}
        self.send("tools/call", {"name": BASH_TOOL, "arguments": arguments, "_meta": MODERN_META}, id=identity)


@pytest.fixture
def pipe(site: Site) -> Iterator[Pipe]:
    """A stdio server that ends, with status 0, when its input does."""
    with site.log.open("w") as log:
        process = subprocess.Popen(
            [str(harness.BINARY), *site.stdio_arguments],
            cwd=site.root,
            env=harness.server_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    watchdog = threading.Timer(harness.PATIENCE_S, process.kill)  # a reader waits for as long as the server lives
    watchdog.start()
    try:
        yield Pipe(process)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        rest = process.stdout.read()
        assert process.wait(harness.PATIENCE_S) == 0, site.log.read_text()
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        process.stdout.close()


def test_an_input_that_ends_at_once_ends_the_server_well(pipe: Pipe) -> None:
    assert pipe.process.poll() is None


def test_both_generations_work_on_one_pipe(pipe: Pipe) -> None:
    pipe.send("server/discover", {"_meta": MODERN_META}, id=1)
    assert "2026-07-28" in pipe.answer(1)["result"]["supportedVersions"]
    pipe.send("initialize", INITIALIZE, id=2)
    assert pipe.answer(2)["result"]["protocolVersion"] == "2025-11-25"
    pipe.send("notifications/initialized", {})
    pipe.call(3, "echo modern")
    assert pipe.answer(3)["result"]["structuredContent"]["result"]["stdout"] == "modern\n"
    pipe.send("tools/call", {"name": BASH_TOOL, "arguments": {"code": "echo legacy"}}, id=4)
    assert pipe.answer(4)["result"]["structuredContent"]["result"]["stdout"] == "legacy\n"


@pytest.mark.parametrize(
    "garbage",
    ["", "not json", "[]", "{}", '{"jsonrpc": "2.0"}', "null", '{"jsonrpc":"2.0","id":9,"method":5}', "\0\0", '"' * 70_000],
    ids=["empty", "text", "array", "object", "no-method", "null", "bad-method", "nul", "long"],
)
def test_garbage_does_not_stop_the_server(pipe: Pipe, garbage: str) -> None:
    pipe.write(garbage)
    pipe.call(1, "echo on")
    assert pipe.answer(1)["result"]["structuredContent"]["result"]["stdout"] == "on\n"


def test_an_unknown_method_is_an_error_of_the_protocol(pipe: Pipe) -> None:
    pipe.send("no/such", {"_meta": MODERN_META}, id=1)
    assert pipe.answer(1)["error"]["code"] == -32601


def test_a_client_that_vanishes_takes_its_run_along(pipe: Pipe) -> None:
    marker = f"cofferdam-marker-{uuid.uuid4().hex}"
    pipe.call(1, f"exec -a {marker} sleep 600")
    harness.wait_until(lambda: bool(harness.running(marker)), "the run did not start")
    pipe.process.stdin.close()
    harness.wait_until(lambda: not harness.running(marker), "the run outlives its client")


def test_a_long_line_of_output_is_one_message(pipe: Pipe) -> None:
    pipe.call(1, "head -c 60000 /dev/zero | tr '\\0' x")
    assert pipe.answer(1)["result"]["structuredContent"]["result"]["stdout"] == "x" * 60_000


@pytest.mark.parametrize(
    "headers,status",
    [
        ({}, 200),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
    ],
)
def test_pages_of_other_sites_are_turned_away(site: Site, headers: dict[str, str], status: int) -> None:
    with harness.http_server(site) as url:
        assert post(url, headers)[0] == status


def test_a_body_that_is_no_json_is_refused_and_the_server_lives_on(site: Site) -> None:
    with harness.http_server(site) as url:
        assert 400 <= post(url, {}, b"{")[0] < 500
        assert 400 <= post(url, {}, b"x" * (5 * 1024 * 1024))[0] < 500
        assert post(url, {})[0] == 200


def post(url: str, headers: dict[str, str], body: bytes | None = None) -> tuple[int, bytes]:
    """Posts a legacy `initialize`, or `body`, and returns status and body of the answer."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=harness.PATIENCE_S)
    try:
        connection.request(
            "POST",
            parts.path,
            body if body is not None else json.dumps(request).encode(),
            {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers},
        )
        answer = connection.getresponse()
        return answer.status, answer.read() if answer.status != 200 else b""
    finally:
        connection.close()
