"""Counts what a suite's report says: `PASSED FAILED SKIPPED` on one line.

usage: count.py cargo LOG | count.py pytest JUNIT.xml

A report that is missing or tells of no test counts as one failure: a suite that ran nothing proved
nothing. Not for deciding whether a suite passed; its exit status does that.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

CARGO_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", re.MULTILINE)


def cargo(report: Path) -> tuple[int, int, int]:
    """Sums the result lines of `cargo test` or of test programs."""
    found = [tuple(map(int, counts)) for counts in CARGO_RESULT.findall(report.read_text(errors="replace"))]
    return sum(row[0] for row in found), sum(row[1] for row in found), sum(row[2] for row in found)


def pytest(report: Path) -> tuple[int, int, int]:
    """Sums the suites of a JUnit report."""
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    total = failed = skipped = 0
    for suite in suites:
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return max(total - failed - skipped, 0), failed, skipped


def main(kind: str, path: str) -> None:
    """Prints the counts of one report."""
    try:
        counts = {"cargo": cargo, "pytest": pytest}[kind](Path(path))
    except (FileNotFoundError, ElementTree.ParseError):
        counts = (0, 1, 0)
    if sum(counts) == 0:
        counts = (0, 1, 0)
    print(*counts)


if __name__ == "__main__":
    main(*sys.argv[1:])
