"""EvoFabric's own `ToolController`, asked about the cases: prints what it decides, as JSON.

Runs in EvoFabric's environment. Its output is committed as `evofabric_table.json`, so that what is
compared with it needs no EvoFabric:

    target/test-envs/evofabric/bin/python tests/mcp/evofabric_oracle.py > tests/mcp/evofabric_table.json

With `--check` it prints nothing but how the committed table differs, and fails if it does.
"""

from __future__ import annotations

import difflib
import json
import sys
from pathlib import Path

from evofabric.core.tool import ToolController

from evofabric_cases import NAMES, PATTERNS, SCENARIOS


def active(controller: ToolController) -> list[str]:
    """The names that the controller finds active, by both of its ways to ask."""
    listed = [tool["name"] for tool in controller.filter_tool_list([{"name": name} for name in NAMES])]
    assert listed == [name for name in NAMES if controller.check_tool_status(name)]
    return listed


def matched(pattern: str) -> list[str]:
    """The names that one pattern is about."""
    return active(ToolController(default_mode="deactivate", rules=[{"mode": "activate", "pattern": pattern}]))


def decided(default_mode: str, rules: list[tuple[str, str]], changes: list[tuple[str, str]]) -> list[str]:
    """The names that are active under these rules, after these changes at run time."""
    rules = [{"mode": mode, "pattern": pattern} for mode, pattern in rules]
    controller = ToolController(default_mode=default_mode, rules=rules)
    for change, pattern in changes:
        getattr(controller, f"{change}_tool")(pattern)
    return active(controller)


def table() -> str:
    """The table: one pattern and one scenario a line."""
    patterns = [{"pattern": pattern, "matches": matched(pattern)} for pattern in PATTERNS]
    scenarios = [
        {"default_mode": mode, "rules": rules, "changes": changes, "active": decided(mode, rules, changes)}
        for mode, rules, changes in SCENARIOS
    ]
    rows = [("names", json.dumps(NAMES)), ("patterns", lines(patterns)), ("scenarios", lines(scenarios))]
    return "{\n" + ",\n".join(f'"{key}": {value}' for key, value in rows) + "\n}\n"


def lines(entries: list[dict[str, object]]) -> str:
    """A list with an entry on each line."""
    return "[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]"


def main(arguments: list[str]) -> int:
    """Prints the table or compares it; the status to end with."""
    if arguments != ["--check"]:
        print(table(), end="")
        return 0
    committed = Path(__file__).with_name("evofabric_table.json").read_text()
    differences = list(difflib.unified_diff(committed.splitlines(), table().splitlines(), "committed", "EvoFabric"))
    print("\n".join(differences))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
