"""Starts the built server the way a person or an agent would, and looks at what it leaves behind.

For: private workspaces, the server's command lines, HTTP servers on free ports, and the list of
processes that descend from the test run. Not for: MCP (the tests speak it through real clients) and
not for building anything: the binary is the one that `$COFFERDAM_BIN` names.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ENVIRONMENTS = Path(os.environ.get("COFFERDAM_TEST_ENVS", REPOSITORY / "target" / "test-envs"))
BINARY = Path(os.environ.get("COFFERDAM_BIN", REPOSITORY / "target" / "debug" / "cofferdam"))
EAA_PYTHON = ENVIRONMENTS / "eaa" / "bin" / "python"
NODE = next(ENVIRONMENTS.glob("node/node_modules/node-linux-*/bin/node"), Path("node"))
NODE_MODULES = ENVIRONMENTS / "node" / "node_modules"

#: Where the servers of this run keep their audit log.
STATE = tempfile.TemporaryDirectory(prefix="cofferdam-state-")

PYTHON_TOOL = "python_coding_tool.execute"
BASH_TOOL = "bash_coding_tool.execute"
ATTRIBUTE_TOOL = "executor.get_attribute_payload"

#: How long a test waits for something that must happen. It bounds a hang; it claims no speed.
PATIENCE_S = 60.0

Condition = Callable[[], bool]

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Site:
    """One test's own folder: a workspace, a configuration and the server's log."""

    root: Path
    workspace: Path
    config: Path
    log: Path

    @classmethod
    def create(cls, root: Path, *, mode: str = "serial") -> Site:
        """Makes an empty workspace below `root`; `mode` is `[execution] mode`."""
        site = cls(root, root / "workspace", root / "cofferdam.toml", root / "server.log")
        site.workspace.mkdir(parents=True)
        site.config.write_text(f'[execution]\nmode = "{mode}"\n')
        return site

    def ask_about_every_call(self, configuration: str = "") -> None:
        """Makes a profile that asks about every call the default one, and adds to the configuration."""
        profiles = self.root / "sandbox-profiles"
        profiles.mkdir()
        (profiles / "ask.toml").write_text(
            'extends = "base"\n[filesystem]\nworkspace = "write"\n[approval]\n"*" = "always"\n'
        )
        self.config.write_text(f'[execution]\ndefault_profile = "ask"\n{configuration}')

    @property
    def arguments(self) -> list[str]:
        """The options that every command takes."""
        return ["--config", str(self.config), "-w", str(self.workspace)]

    @property
    def stdio_arguments(self) -> list[str]:
        """Arguments of a server that speaks MCP on its standard streams."""
        return ["stdio", *self.arguments]


def server_environment() -> dict[str, str]:
    """The environment of every server: small, known, with one secret that no run may see.

    The oracle's interpreter comes first in PATH, so that both servers run code with the same Python.
    """
    return {
        "PATH": f"{EAA_PYTHON.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": os.environ.get("HOME", "/"),
        "XDG_STATE_HOME": STATE.name,
        "LANG": "C.UTF-8",
        "COFFERDAM_TEST_SECRET": "secret-of-the-server",
    }


@contextlib.contextmanager
def http_server(site: Site) -> Iterator[str]:
    """Serves `site` over streamable HTTP while the block runs; yields the URL."""
    port = free_port()
    command = [str(BINARY), "serve", *site.arguments, "--mcp-port", str(port)]
    with site.log.open("ab") as log:
        server = subprocess.Popen(
            command,
            cwd=site.root,
            env=server_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_until(
            lambda: server.poll() is not None or is_listening(port),
            f"nothing listens on port {port}",
        )
        if server.returncode is not None:
            raise AssertionError(f"{command} ended with {server.returncode}:\n{site.log.read_text()}")
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        end(server)


def end(server: subprocess.Popen[bytes]) -> None:
    """Asks a server to end and fails when it must be killed."""
    server.terminate()
    try:
        server.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
        raise AssertionError(f"the server did not end on SIGTERM: {server.args}") from None


def free_port() -> int:
    """A TCP port of loopback that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def is_listening(port: int) -> bool:
    """Whether a connection to that port of loopback is accepted."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition: Condition, complaint: str, patience_s: float = PATIENCE_S) -> None:
    """Returns as soon as `condition` holds; fails with `complaint` when it never does."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(complaint)
        time.sleep(0.02)


@dataclass(frozen=True)
class Process:
    """One line of the process table."""

    pid: int
    parent: int
    state: str
    command: str


def adopt_orphans() -> None:
    """Makes this process the parent of every orphan below it, so that none can slip out of sight."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")


def descendants() -> list[Process]:
    """Every living process below this one, whatever namespace or user it is in."""
    table = _process_table()
    below: set[int] = {os.getpid()}
    while True:
        found = {process.pid for process in table if process.parent in below} - below
        if not found:
            break
        below |= found
    return [process for process in table if process.pid in below and process.pid != os.getpid()]


def running(marker: str) -> list[Process]:
    """The processes below this one whose command line contains `marker`."""
    return [process for process in descendants() if marker in process.command]


def kill_descendants() -> None:
    """Ends whatever still runs below this process."""
    for process in descendants():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    reap_orphans()


def reap_orphans() -> None:
    """Collects dead orphans; only safe when no child that somebody waits for is left."""
    for process in descendants():
        if process.state == "Z" and process.parent == os.getpid():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def _process_table() -> list[Process]:
    table = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name stands in parentheses and may itself contain spaces and parentheses.
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        table.append(Process(int(entry.name), int(parent), state, command))
    return table
