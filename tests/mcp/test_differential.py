"""Ours beside EAA's own server: the same calls, the same keys, the same values.

Both servers get the same workspace at the same path, one after the other. Where ours differs on
purpose the table names the difference; one that no longer occurs fails, so the table stays true.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult

import harness
from differential_cases import BASH_CASES, CASES, DIFFERENCES, PYTHON_CASES, Absent, Case, Matches
from harness import BASH_TOOL, PYTHON_TOOL, Site

EAA_KEYS = {"stdout", "stderr", "returncode", "timeout", "error", "img_path"}
OUR_KEYS = {
    "stdout_file", "stderr_file", "img_path_error", "verdict", "limits_hit", "truncated",
    "duration_ms", "usage", "sandbox", "repaired", "quarantined",
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What one server said to one call, with the name of the script taken out."""

    is_error: bool
    text: str
    values: Mapping[str, object]
    wrapped: bool


@dataclass(frozen=True)
class Answers:
    """What both servers said to the whole table."""

    workspace: Path
    eaa: Mapping[str, Answer]
    ours: Mapping[str, Answer]


@pytest.fixture(scope="module")
def answers(the_binary_is_there: None, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Both servers' answers to the whole table, asked once."""
    site = Site.create(tmp_path_factory.mktemp("differential") / "site")
    environment = harness.server_environment()
    oracle = StdioServerParameters(
        command=str(harness.EAA_PYTHON),
        args=[str(Path(__file__).with_name("oracle.py"))],
        env=environment,
        cwd=site.workspace,
    )
    ours = StdioServerParameters(
        command=str(harness.BINARY), args=site.stdio_arguments, env=environment, cwd=site.root
    )
    eaa_answers = anyio.run(replay, oracle, site)
    harness.kill_descendants()  # EAA lets the grandchildren of a run live
    return Answers(site.workspace, eaa_answers, anyio.run(replay, ours, site))


async def replay(server: StdioServerParameters, site: Site) -> dict[str, Answer]:
    """Sends the table to a server, each call on a workspace made anew."""
    found = {}
    with site.log.open("a") as log:
        async with Client(stdio_client(server, errlog=log), mode="legacy", read_timeout_seconds=60) as client:
            scripts = [await script_name(client, site, tool) for tool in (PYTHON_TOOL, BASH_TOOL)]
            for case in CASES:
                lay_out(site.workspace, case.files)
                result = await client.call_tool(case.tool, located(case.arguments, site.workspace))
                found[case.name] = answer(result, scripts)
    return found


async def script_name(client: Client, site: Site, tool: str) -> re.Pattern[str]:
    """What a server calls the script it runs; EAA's has a part that changes with each call."""
    ask = "print(__file__)" if tool == PYTHON_TOOL else 'echo "$0"'
    result = await client.call_tool(tool, {"code": ask})
    assert not result.is_error, result.content[0].text
    name = str(values_of(result)["stdout"])
    random_part = re.compile(r"tmp[a-z0-9_]{8}(?=\.(?:py|sh)$)")
    folder, dot, suffix = random_part.sub("\0", name.strip()).partition("\0")
    return re.compile(re.escape(folder) + (r"tmp[a-z0-9_]{8}" if dot else "") + re.escape(suffix))


def lay_out(workspace: Path, files: Mapping[str, bytes]) -> None:
    """Empties the workspace and writes these files there."""
    for entry in workspace.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for name, content in files.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_bytes(content)


def located(value: object, workspace: Path) -> object:
    """The same value with `{workspace}` filled in."""
    if isinstance(value, str):
        return value.replace("{workspace}", str(workspace))
    if isinstance(value, Mapping):
        return {key: located(item, workspace) for key, item in value.items()}
    return value


def answer(result: CallToolResult, scripts: list[re.Pattern[str]]) -> Answer:
    """The comparable part of a result."""

    def without_script_names(value: object) -> object:
        if isinstance(value, str):
            for script in scripts:
                value = script.sub("<script>", value)
        return value

    return Answer(
        is_error=result.is_error,
        text=str(without_script_names(result.content[0].text)),
        values={key: without_script_names(value) for key, value in values_of(result).items()},
        wrapped=bool((result.meta or {}).get("fastmcp", {}).get("wrap_result")),
    )


def values_of(result: CallToolResult) -> Mapping[str, object]:
    """The normalized object of a result, or nothing for an error."""
    if result.is_error:
        return {}
    assert set(result.structured_content) == {"result"}
    values = result.structured_content["result"]
    assert json.loads(result.content[0].text) == values
    return values


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_servers_answer_alike(
    case: Case, answers: Answers, record_property: Callable[[str, object], None]
) -> None:
    record_property("differential", "named difference" if case.differs else "same")
    eaa, ours = answers.eaa[case.name], answers.ours[case.name]
    intended = {key: value for difference in case.differs for key, value in difference.ours.items()}
    if "isError" in intended:
        assert not ours.values and ours.is_error
        assert_is(intended.pop("isError"), ours.text, answers.workspace)
        assert (eaa.is_error, eaa.text) != (ours.is_error, ours.text), "the named difference is no more"
        return
    assert ours.is_error == eaa.is_error, ours.text
    if ours.is_error:
        assert ours.text == eaa.text
        return
    assert ours.wrapped and eaa.wrapped
    assert set(ours.values) <= EAA_KEYS | OUR_KEYS
    for key in sorted(EAA_KEYS):
        theirs, own = eaa.values.get(key, Absent()), ours.values.get(key, Absent())
        if key in intended:
            assert_is(intended[key], own, answers.workspace)
            assert own != theirs, f"the named difference in `{key}` is no more"
        else:
            assert (key, own) == (key, theirs)
            assert type(own) is type(theirs)


def assert_is(wanted: object, own: object, workspace: Path) -> None:
    """Our value is the one that the table tells."""
    if isinstance(wanted, Matches):
        assert isinstance(own, str) and re.fullmatch(wanted.pattern, own, re.DOTALL), own
    else:
        assert own == located(wanted, workspace)


def test_the_table_is_large_enough_and_names_every_difference() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) >= 45
    assert PYTHON_CASES and BASH_CASES
    assert {difference.name for case in CASES for difference in case.differs} == set(DIFFERENCES)
