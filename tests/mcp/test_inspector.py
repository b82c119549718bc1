"""MCP Inspector's command line: a client in another language, and a critic of schemas.

Both transports, both protocol generations. Not for approvals: its one-shot form offers none.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import harness
from clients import WAYS, Way
from harness import ATTRIBUTE_TOOL, BASH_TOOL, PYTHON_TOOL, Site

pytestmark = pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.transport}-{way.era}")

OK, TOOL_ERROR = 0, 5


@dataclass(frozen=True)
class Inspector:
    """The Inspector, told where a server is."""

    folder: Path
    target: list[str]

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Runs one method and waits for its end."""
        command = [str(harness.NODE), str(harness.NODE_MODULES / ".bin" / "mcp-inspector"), "--cli"]
        # What it keeps, it keeps in the test's folder.
        environment = harness.server_environment() | {
            "HOME": str(self.folder),
            "MCP_INSPECTOR_SECRET_STORE": "memory",
        }
        return subprocess.run(
            [*command, *self.target, "--format", "json", *options],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=harness.PATIENCE_S,
        )

    def result(self, *options: str, status: int = OK) -> dict[str, object]:
        """The result of a method that ends with `status`."""
        done = self.run(*options)
        assert done.returncode == status, done.stderr or done.stdout
        found: dict[str, object] = json.loads(done.stdout)["result"]
        return found

    def call(self, tool: str, arguments: dict[str, object], status: int = OK) -> dict[str, object]:
        """The result of a tool call."""
        options = ["--tool-name", tool, "--tool-args-json", json.dumps(arguments)]
        return self.result("--method", "tools/call", *options, status=status)


@contextlib.contextmanager
def inspecting(way: Way, site: Site) -> Iterator[Inspector]:
    """An Inspector that reaches a server of `site` in that way."""
    era = ["--protocol-era", way.era]
    if way.transport == "http":
        with harness.http_server(site) as url:
            yield Inspector(site.root, ["--server-url", url, "--transport", "http", *era])
        return
    server = {
        "command": str(harness.BINARY),
        "args": site.stdio_arguments,
        "env": harness.server_environment(),
    }
    session = site.root / "session.json"
    session.write_text(json.dumps({"mcpServers": {"cofferdam": server}}))
    yield Inspector(site.root, ["--config", str(session), "--server", "cofferdam", *era])


def test_its_strict_check_finds_no_error_in_the_schemas(way: Way, site: Site) -> None:
    with inspecting(way, site) as inspector:
        done = inspector.run("--method", "tools/list", "--strict")
        assert done.returncode == OK, done.stderr
        names = [tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]]
        assert names == [PYTHON_TOOL, BASH_TOOL, ATTRIBUTE_TOOL]
        assert "Error: tool" not in done.stderr


def test_it_can_run_code(way: Way, site: Site) -> None:
    with inspecting(way, site) as inspector:
        result = inspector.call(PYTHON_TOOL, {"code": "print(6 * 7)"})
        assert result["structuredContent"]["result"]["stdout"] == "42\n"
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]["result"]


def test_a_failing_program_is_no_error_for_it(way: Way, site: Site) -> None:
    with inspecting(way, site) as inspector:
        result = inspector.call(BASH_TOOL, {"code": "exit 3"})
        assert result["structuredContent"]["result"]["returncode"] == 3


def test_a_refusal_is_an_error_for_it(way: Way, site: Site) -> None:
    with inspecting(way, site) as inspector:
        result = inspector.call(BASH_TOOL, {"code": "true", "cwd": "/usr"}, status=TOOL_ERROR)
        assert result["isError"] is True and "/usr" in result["content"][0]["text"]
