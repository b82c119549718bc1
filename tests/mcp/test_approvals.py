"""Approvals with the official SDK: the same callback is asked in both protocol generations.

What holds against clients that do not keep to the protocol is claimed in `tests/approvals`.
"""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

from clients import WAYS, Way
from harness import BASH_TOOL, Site

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.transport}-{way.era}"),
]

DENIED = "Tool execution was denied by the user."


class Person:
    """Stands where a client would show its dialogue."""

    def __init__(self, action: str = "accept", content: dict[str, Any] | None = None) -> None:
        self.asked: list[ElicitRequestParams] = []
        self.may_answer = anyio.Event()
        self.may_answer.set()
        self.thinks_for_s = 0.0
        self._result = ElicitResult(action=action, content=content)

    async def decide(self, _context: object, params: ElicitRequestParams) -> ElicitResult:
        """The SDK's elicitation callback."""
        self.asked.append(params)
        await self.may_answer.wait()
        await anyio.sleep(self.thinks_for_s)
        return self._result


def code_of(result: CallToolResult) -> str:
    """The machine-readable code of a result that is an error."""
    assert result.is_error, result
    return str(result.meta["cofferdam"]["code"])


async def test_a_person_is_shown_the_call_and_it_runs_once_they_agree(way: Way, site: Site) -> None:
    site.ask_about_every_call()
    person = Person("accept", {"approve": True})
    async with way.connect(site, elicitation_callback=person.decide) as client:
        result = await client.call_tool(BASH_TOOL, {"code": "echo run >> runs; cat runs"})
        assert not result.is_error, result.content
        assert result.structured_content["result"]["stdout"] == "run\n"
    (asked,) = person.asked
    assert re.search(r"^May `bash_coding_tool.execute` run this\?$", asked.message, re.M)
    assert re.search(r"^\| echo run >> runs; cat runs$", asked.message, re.M)
    assert list(asked.requested_schema["properties"]) == ["approve"]
    assert asked.requested_schema["properties"]["approve"]["type"] == "boolean"


@pytest.mark.parametrize(
    "action,content", [("decline", None), ("cancel", None), ("accept", {"approve": False})]
)
async def test_a_call_that_is_not_agreed_to_does_not_run(
    way: Way, site: Site, action: str, content: dict[str, Any] | None
) -> None:
    site.ask_about_every_call()
    person = Person(action, content)
    async with way.connect(site, elicitation_callback=person.decide) as client:
        result = await client.call_tool(BASH_TOOL, {"code": "touch ran"})
    assert (code_of(result), result.content[0].text) == ("denied", DENIED)
    assert len(person.asked) == 1
    assert not (site.workspace / "ran").exists()


async def test_an_acceptance_without_content_is_one(way: Way, site: Site) -> None:
    site.ask_about_every_call()
    async with way.connect(site, elicitation_callback=Person("accept").decide) as client:
        result = await client.call_tool(BASH_TOOL, {"code": "echo ran"})
    assert result.structured_content["result"]["stdout"] == "ran\n"


async def test_a_client_without_a_callback_is_refused_with_a_way_on(way: Way, site: Site) -> None:
    site.ask_about_every_call('[approval]\nchannel = "elicitation"\n')
    async with way.connect(site) as client:
        result = await client.call_tool(BASH_TOOL, {"code": "touch ran"})
    assert code_of(result) == "approval_required"
    assert "elicitation" in result.meta["cofferdam"]["hint"]
    assert not (site.workspace / "ran").exists()


async def test_other_calls_are_answered_while_the_person_thinks(way: Way, site: Site) -> None:
    site.ask_about_every_call("max_running = 1\n")
    person = Person("accept")
    person.may_answer = anyio.Event()
    results: list[CallToolResult] = []
    async with way.connect(site, elicitation_callback=person.decide) as client:

        async def wait_for_the_person() -> None:
            results.append(await client.call_tool(BASH_TOOL, {"code": "echo waited"}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_the_person)
            free = await client.call_tool(BASH_TOOL, {"code": "echo free", "profile": "default"})
            assert free.structured_content["result"]["stdout"] == "free\n"
            assert not results
            person.may_answer.set()
    assert results[0].structured_content["result"]["stdout"] == "waited\n"


async def test_an_answer_that_comes_too_late_runs_nothing(way: Way, site: Site) -> None:
    site.ask_about_every_call('[approval]\nwait = "1ms"\n')
    person = Person("accept")
    person.thinks_for_s = 0.1
    async with way.connect(site, elicitation_callback=person.decide) as client:
        result = await client.call_tool(BASH_TOOL, {"code": "touch ran"})
    assert code_of(result) == "approval_required"
    assert not (site.workspace / "ran").exists()
