"""The official conformance suite against the real HTTP server: the scenarios that need no fixtures.

The others need tools, prompts and resources made for the suite, which a product does not have.
"""

from __future__ import annotations

import json
import subprocess

import pytest

import harness
from harness import Site

MODERN, LEGACY = "2026-07-28", "2025-11-25"

SCENARIOS = [
    ("tools-list", LEGACY),
    ("tools-list", MODERN),
    ("server-initialize", LEGACY),
    ("ping", LEGACY),
    ("server-sse-multiple-streams", LEGACY),
    ("dns-rebinding-protection", LEGACY),
    ("dns-rebinding-protection", MODERN),
    ("http-header-validation", MODERN),
    ("input-required-result-unsupported-methods", MODERN),
    ("input-required-result-validate-input", MODERN),
]


@pytest.mark.parametrize("scenario,version", SCENARIOS)
def test_the_scenario_passes(scenario: str, version: str, site: Site) -> None:
    program = harness.NODE_MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    reports = site.root / "reports"
    with harness.http_server(site) as url:
        done = subprocess.run(
            [
                str(harness.NODE), str(program), "server", "--url", url,
                "--scenario", scenario, "--spec-version", version, "-o", str(reports),
            ],
            cwd=site.root,
            env=harness.server_environment() | {"HOME": str(site.root)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=harness.PATIENCE_S,
        )  # fmt: skip
    checks = [check for path in reports.glob("*/checks.json") for check in json.loads(path.read_text())]
    failed = [(check["id"], check.get("errorMessage")) for check in checks if check["status"] == "FAILURE"]
    assert (done.returncode, failed) == (0, []), done.stdout + done.stderr
    assert any(check["status"] == "SUCCESS" for check in checks), "the scenario checked nothing"
