"""Tool control beside EvoFabric's: the same rules, the same tools, through the built program.

What EvoFabric decides is in `evofabric_table.json`, which `evofabric_oracle.py --check` holds against
EvoFabric itself. The policy crate compares every name of the table; here are the names that a server
has, asked by real clients and at the command line. Not for what clients are told of changes: that is
`tests/control`.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

import harness
from evofabric_cases import PATTERNS, SCENARIOS
from harness import ATTRIBUTE_TOOL, BASH_TOOL, PYTHON_TOOL, Site

TABLE = json.loads(Path(__file__).with_name("evofabric_table.json").read_text())
TOOLS = [PYTHON_TOOL, BASH_TOOL, ATTRIBUTE_TOOL]


@pytest.fixture
def runtime() -> Iterator[Path]:
    """Where this test's server and its owner find each other, and no other. A socket's path is short."""
    with tempfile.TemporaryDirectory(prefix="cofferdam-") as folder:
        yield Path(folder)


def expected(active: list[str]) -> list[str]:
    """The tools that a server has among the names that EvoFabric finds active."""
    return [tool for tool in TOOLS if tool in active]


def configuration(default_mode: str, rules: list[tuple[str, str]]) -> str:
    """The `[tools]` table with these rules."""
    written = [f"{{ mode = {json.dumps(mode)}, pattern = {json.dumps(pattern)} }}" for mode, pattern in rules]
    return f"[tools]\ndefault_mode = {json.dumps(default_mode)}\nrule = [{', '.join(written)}]\n"


def cofferdam(site: Site, *arguments: str, runtime: Path | None = None) -> subprocess.CompletedProcess[str]:
    """One command to its end."""
    environment = harness.server_environment()
    if runtime is not None:
        environment["COFFERDAM_RUNTIME_DIR"] = str(runtime)
    command = [str(harness.BINARY), "--config", str(site.config), *arguments]
    return subprocess.run(command, env=environment, cwd=site.workspace, capture_output=True, text=True, check=False)


def test_the_table_is_about_these_cases() -> None:
    assert [row["pattern"] for row in TABLE["patterns"]] == PATTERNS
    assert len(TABLE["scenarios"]) == len(SCENARIOS)
    assert len(PATTERNS) * len(TABLE["names"]) >= 60 * 10


@pytest.mark.parametrize("row", TABLE["patterns"], ids=lambda row: repr(row["pattern"]))
def test_a_pattern_of_the_configuration_is_about_the_tools_it_is_about_in_evofabric(
    site: Site, row: dict[str, object]
) -> None:
    site.config.write_text(configuration("deactivate", [("activate", str(row["pattern"]))]))
    finished = cofferdam(site, "tools", "--json")
    if finished.returncode != 0:
        assert "must be a glob" in finished.stderr
        assert expected(row["matches"]) == []
        return
    assert [tool["name"] for tool in json.loads(finished.stdout)] == expected(row["matches"])


@pytest.mark.parametrize("scenario", TABLE["scenarios"], ids=lambda scenario: json.dumps(scenario["changes"]))
def test_rules_and_changes_at_run_time_decide_as_in_evofabric(
    site: Site, runtime: Path, scenario: dict[str, list]
) -> None:
    site.config.write_text(configuration(scenario["default_mode"], scenario["rules"]))

    async def main() -> None:
        server = StdioServerParameters(
            command=str(harness.BINARY),
            args=site.stdio_arguments,
            env=harness.server_environment() | {"COFFERDAM_RUNTIME_DIR": str(runtime)},
        )
        async with Client(server, mode="auto") as client:
            for change, pattern in scenario["changes"]:
                arguments = ["tools", change, pattern]
                finished = await anyio.to_thread.run_sync(lambda: cofferdam(site, *arguments, runtime=runtime))
                assert finished.returncode == 0, finished.stderr
            active = expected(scenario["active"])
            found = await client.list_tools()
            assert [tool.name for tool in found.tools] == active
            for tool in [PYTHON_TOOL, BASH_TOOL]:
                result = await client.call_tool(tool, {"code": "1"})
                if tool in active:
                    assert not result.is_error
                else:
                    assert result.is_error
                    text = f"Cannot call {tool} because this tool is deactivate now."
                    assert result.content[0].text == text

    anyio.run(main)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_real_client_is_told_that_the_list_has_changed(site: Site, runtime: Path, mode: str) -> None:
    async def main() -> None:
        told = anyio.Event()

        async def note(message: object) -> None:
            if "list_changed" in repr(message) or "ToolListChanged" in type(getattr(message, "root", message)).__name__:
                told.set()

        server = StdioServerParameters(
            command=str(harness.BINARY),
            args=site.stdio_arguments,
            env=harness.server_environment() | {"COFFERDAM_RUNTIME_DIR": str(runtime)},
        )

        def deactivate() -> None:
            finished = cofferdam(site, "tools", "deactivate", "bash_*", runtime=runtime)
            assert finished.returncode == 0, finished.stderr

        async with Client(server, mode=mode, message_handler=note) as client:
            assert len((await client.list_tools()).tools) == len(TOOLS)
            with anyio.fail_after(harness.PATIENCE_S):
                if mode == "auto":
                    async with client.listen(tools_list_changed=True) as changes:
                        await anyio.to_thread.run_sync(deactivate)
                        await anext(aiter(changes))
                else:
                    await anyio.to_thread.run_sync(deactivate)
                    await told.wait()
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == [PYTHON_TOOL, ATTRIBUTE_TOOL]

    anyio.run(main)
