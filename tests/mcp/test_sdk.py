"""The official Python SDK over both transports and in both protocol generations.

What any MCP client can count on: the tools as they are listed, results and refusals, progress,
cancellation, and calls at the same time. Values of results are compared in `test_differential`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import anyio
import jsonschema
import pytest
from mcp import Client
from mcp_types import CallToolResult

import harness
from clients import WAYS, Way, until
from harness import ATTRIBUTE_TOOL, BASH_TOOL, PYTHON_TOOL, Site

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.transport}-{way.era}"),
]

CODE_TOOLS = (PYTHON_TOOL, BASH_TOOL)
#: Waits for a file, in steps; ends by itself so that a failing test leaves nothing.
AWAIT_FILE = "for i in $(seq 1200); do test -e {name} && break; sleep 0.05; done"


def values(result: CallToolResult) -> dict[str, object]:
    """The normalized object of a result that is no error."""
    assert not result.is_error, result.content
    found: dict[str, object] = result.structured_content["result"]
    return found


def refusal(result: CallToolResult) -> str:
    """The message of a result that is an error."""
    assert result.is_error and result.structured_content is None
    return str(result.content[0].text)


async def test_the_server_says_who_it_is(way: Way, site: Site) -> None:
    async with way.connect(site) as client:
        assert client.server_info is None or client.server_info.name == "cofferdam"
        if way.era == "legacy":
            assert client.server_capabilities.tools is not None


async def test_the_tools_are_listed_in_order(way: Way, site: Site) -> None:
    async with way.connect(site) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == [PYTHON_TOOL, BASH_TOOL, ATTRIBUTE_TOOL]
        assert names == [tool.name for tool in (await client.list_tools()).tools]


async def test_schemas_are_closed_objects_with_described_parameters(way: Way, site: Site) -> None:
    async with way.connect(site) as client:
        for tool in (await client.list_tools()).tools:
            schema = tool.input_schema
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object" and schema["additionalProperties"] is False
            for name, parameter in schema["properties"].items():
                assert parameter["description"], (tool.name, name)
                if name not in schema["required"]:
                    assert "default" in parameter, (tool.name, name)
                if "null" in parameter["type"]:
                    assert parameter["default"] is None, (tool.name, name)


async def test_the_code_tools_take_exactly_the_documented_parameters(way: Way, site: Site) -> None:
    shared = ["code", "timeout", "cwd", "input_text", "profile", "backend"]
    async with way.connect(site) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools[BASH_TOOL].input_schema["properties"]) == sorted(shared)
        assert sorted(tools[PYTHON_TOOL].input_schema["properties"]) == sorted([*shared, "last_print_is_image_path"])
        assert [tools[name].input_schema["required"] for name in CODE_TOOLS] == [["code"], ["code"]]


async def test_descriptions_name_every_argument(way: Way, site: Site) -> None:
    async with way.connect(site) as client:
        for tool in (await client.list_tools()).tools:
            summary, arguments = tool.description.split("Args:")
            assert summary.strip()
            for name, parameter in tool.input_schema["properties"].items():
                assert f"{name}: {parameter['description']}" in arguments
            # Clients cut descriptions at 2 KB; what stands later is never read.
            assert len(tool.description.encode()) <= 2048, tool.name


async def test_every_tool_has_a_title_and_all_four_hints(way: Way, site: Site) -> None:
    async with way.connect(site) as client:
        for tool in (await client.list_tools()).tools:
            hints = tool.annotations
            assert tool.title or hints.title
            assert hints.read_only_hint is (tool.name == ATTRIBUTE_TOOL)
            assert hints.destructive_hint is (tool.name in CODE_TOOLS)
            assert hints.idempotent_hint is (tool.name == ATTRIBUTE_TOOL)
            assert hints.open_world_hint is False


async def test_only_the_wrapped_tools_have_an_output_schema(way: Way, site: Site) -> None:
    async with way.connect(site) as client:
        for tool in (await client.list_tools()).tools:
            if tool.name == ATTRIBUTE_TOOL:
                assert tool.output_schema is None
            else:
                assert tool.output_schema["x-fastmcp-wrap-result"] is True
                assert set(tool.output_schema["properties"]) == {"result", "img_path"}


@pytest.mark.parametrize("tool,code", [(PYTHON_TOOL, "print(6 * 7)"), (BASH_TOOL, "echo 42")])
async def test_a_result_is_wrapped_and_repeated_as_text(way: Way, site: Site, tool: str, code: str) -> None:
    async with way.connect(site) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool(tool, {"code": code})
        jsonschema.validate(result.structured_content, listed[tool].output_schema)
        assert set(result.structured_content) == {"result"}
        assert result.meta["fastmcp"] == {"wrap_result": True}
        text = result.content[0].text
        assert json.loads(text) == values(result)
        assert text == json.dumps(values(result), separators=(",", ":"), ensure_ascii=False)
        assert list(values(result))[:4] == ["stdout", "stderr", "returncode", "timeout"]
        assert values(result)["stdout"] == "42\n" and values(result)["verdict"] == "ok"


async def test_a_run_says_how_strongly_it_was_held(way: Way, site: Site) -> None:
    async with way.connect(site) as client:
        found = values(await client.call_tool(BASH_TOOL, {"code": "true"}))
        sandbox = found["sandbox"]
        assert (sandbox["backend"], sandbox["profile"]) == ("bubblewrap", "default")
        assert sorted(sandbox["enforcement"]) == ["files", "limits", "network", "privileges", "processes"]
        held = {name: sandbox["enforcement"][name] for name in ("files", "network", "processes", "privileges")}
        assert set(held.values()) == {"full"}, held
        assert sandbox["enforcement"]["limits"] in ("full", "partial")
        assert found["duration_ms"] >= 0 and found["limits_hit"] == [] and found["truncated"] is False


@pytest.mark.parametrize(
    "code,verdict", [("true", "ok"), ("exit 3", "exit"), ("kill -9 $$", "signal"), ("sleep 60", "timeout")]
)
async def test_a_program_that_fails_is_a_finished_call(way: Way, site: Site, code: str, verdict: str) -> None:
    async with way.connect(site) as client:
        found = values(await client.call_tool(BASH_TOOL, {"code": code, "timeout": 1 if verdict == "timeout" else 60}))
        assert found["verdict"] == verdict


async def test_an_unknown_tool_is_an_error_of_the_call(way: Way, site: Site) -> None:
    async with way.connect(site) as client:
        result = await client.call_tool("no.such_tool", {})
        assert refusal(result) == "Unknown tool: 'no.such_tool'"
        assert result.meta["cofferdam"]["code"] == "unknown_tool"


async def test_underscored_names_can_be_called(way: Way, site: Site) -> None:
    async with way.connect(site) as client:
        result = await client.call_tool("bash_coding_tool_execute", {"code": "echo 42"})
        assert values(result)["stdout"] == "42\n"


BAD_ARGUMENTS = [
    ({}, "missing argument `code`"),
    ({"code": "true", "timeuot": 1}, "unknown argument `timeuot`"),
    ({"code": ["true"]}, "argument `code` must be string, got an array"),
    ({"code": "true", "timeout": "soon"}, "argument `timeout` must be number or null"),
    ({"code": "true", "timeout": 0}, "`timeout` must be a finite number of seconds above 0"),
    ({"code": "true", "timeout": -1}, "`timeout` must be a finite number of seconds above 0"),
    ({"code": "true", "timeout": "nan"}, "argument `timeout` must be number or null"),
    ({"code": "true\0"}, "`code` has a NUL character at byte 4"),
    ({"code": "#" * (4 * 1024 * 1024 + 1)}, "`code` is 4194305 bytes long"),
    ({"code": "true", "backend": "moon"}, "backend"),
    ({"code": "true", "profile": "none-such"}, "none-such"),
    ({"code": "true", "cwd": "/usr"}, "/usr"),
    ({"code": "true", "cwd": "../.."}, ".."),
    ({"code": "true", "cwd": "missing"}, "missing"),
]


async def test_bad_arguments_are_refused_by_name_and_the_server_lives_on(way: Way, site: Site) -> None:
    async with way.connect(site) as client:
        without_hint: list[str] = []
        for arguments, message in BAD_ARGUMENTS:
            result = await client.call_tool(BASH_TOOL, arguments)
            assert message in refusal(result)
            assert "\n" not in refusal(result) and len(refusal(result)) < 500
            assert result.meta["cofferdam"]["code"], message
            if not result.meta["cofferdam"]["hint"]:
                without_hint.append(refusal(result))
        assert values(await client.call_tool(BASH_TOOL, {"code": "echo on"}))["stdout"] == "on\n"
        assert list(site.workspace.iterdir()) == []
        assert without_hint == []


async def test_the_last_values_can_be_read(way: Way, site: Site) -> None:
    async with way.connect(site) as client:
        await client.call_tool(BASH_TOOL, {"code": "echo out; echo err >&2; exit 3"})
        wanted = {"last_stdout": "out\n", "last_stderr": "err\n", "last_returncode": 3}
        for name, value in wanted.items():
            result = await client.call_tool(ATTRIBUTE_TOOL, {"name": name})
            assert result.structured_content == {"result": value}
            assert "fastmcp" not in (result.meta or {})
        assert refusal(await client.call_tool(ATTRIBUTE_TOOL, {"name": "x"})) == "Unknown attribute 'x'."


async def test_a_run_that_goes_on_tells_its_last_line(way: Way, site: Site) -> None:
    told: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))
        if message and "step one" in message:
            (site.workspace / "go").touch()

    async with way.connect(site) as client:
        code = f"echo step one; {AWAIT_FILE.format(name='go')}; test -e go && echo done"
        result = await client.call_tool(BASH_TOOL, {"code": code}, progress_callback=on_progress)
        assert values(result)["stdout"] == "step one\ndone\n"
    assert told and [progress for progress, _ in told] == sorted({progress for progress, _ in told})


async def test_cancelling_kills_the_run_and_the_server_lives_on(way: Way, site: Site) -> None:
    marker = f"cofferdam-marker-{uuid.uuid4().hex}"
    code = f"(exec -a {marker}-child sleep 600) & exec -a {marker} sleep 600"
    async with way.connect(site) as client:
        async with anyio.create_task_group() as calls:
            calls.start_soon(client.call_tool, BASH_TOOL, {"code": code, "timeout": 600})
            await until(lambda: len(harness.running(marker)) >= 2, "the run did not start")
            calls.cancel_scope.cancel()
        await until(lambda: not harness.running(marker), "the cancelled run goes on")
        assert values(await client.call_tool(BASH_TOOL, {"code": "echo on"}))["stdout"] == "on\n"


async def test_calls_of_a_concurrent_server_run_at_the_same_time(
    way: Way, make_site: Callable[..., Site]
) -> None:
    async with way.connect(make_site(mode="concurrent")) as client:
        results = await call_all(
            client,
            [f"touch here-{me}; {AWAIT_FILE.format(name=f'here-{other}')}; test -e here-{other}" for me, other in ("ab", "ba")],
        )
        assert [values(result)["returncode"] for result in results] == [0, 0]


async def test_calls_of_a_serial_session_never_overlap(way: Way, site: Site) -> None:
    async with way.connect(site) as client:
        results = await call_all(client, ["mkdir busy && sleep 0.1 && rmdir busy"] * 6)
        assert [values(result)["returncode"] for result in results] == [0] * 6


async def call_all(client: Client, codes: list[str]) -> list[CallToolResult]:
    """Sends all calls at once and collects their results in the order of the calls."""
    results: dict[int, CallToolResult] = {}

    async def call(index: int, code: str) -> None:
        results[index] = await client.call_tool(BASH_TOOL, {"code": code})

    async with anyio.create_task_group() as calls:
        for index, code in enumerate(codes):
            calls.start_soon(call, index, code)
    return [results[index] for index in range(len(codes))]
