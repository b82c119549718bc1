"""What every test of this folder shares: a site of its own, and proof that it leaves nothing running.

Not for launching anything by itself: `harness` does that, at a test's request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import harness


def pytest_configure(config: pytest.Config) -> None:
    """Sees to it that no process of a test can get out of sight."""
    harness.adopt_orphans()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many calls of the differential test were answered alike."""
    outcomes = Counter(
        value
        for report in terminalreporter.getreports("passed")
        for name, value in report.user_properties
        if name == "differential"
    )
    if outcomes:
        terminalreporter.write_line(
            f"differential: {outcomes['same']} calls the same, "
            f"{outcomes['named difference']} with a named difference"
        )


@pytest.fixture(scope="session", autouse=True)
def the_binary_is_there() -> None:
    """A missing server fails the run; it never skips."""
    assert harness.BINARY.is_file(), f"no server at {harness.BINARY}; build it or set COFFERDAM_BIN"


@pytest.fixture(autouse=True)
def nothing_is_left_running(the_binary_is_there: None) -> Iterator[None]:
    """Fails a test after which a process of it is still there."""
    yield

    def all_gone() -> bool:
        harness.reap_orphans()
        return not harness.descendants()

    try:
        harness.wait_until(all_gone, "", patience_s=10)
    except AssertionError:
        left = harness.descendants()
        harness.kill_descendants()  # or every later test would fail for this one's fault
        pytest.fail(f"left running: {left}")


@pytest.fixture
def anyio_backend() -> str:
    """The event loop that the clients are used with."""
    return "asyncio"


@pytest.fixture
def make_site(tmp_path: Path) -> Callable[..., harness.Site]:
    """Makes further sites of one test."""
    return lambda name="site", mode="serial": harness.Site.create(tmp_path / name, mode=mode)


@pytest.fixture
def site(tmp_path: Path) -> harness.Site:
    """A site of the test's own, its calls in series as by default."""
    return harness.Site.create(tmp_path / "site")
