"""Runs a command and fails when a process of it is left after it has ended.

usage: no_leftovers.py COMMAND [ARG ...]

It becomes the parent of every orphan below it, so a process can neither hide in a namespace nor by
becoming a daemon. What is left is listed, then killed. The command's own status comes first; 97 means
that only the leftovers were wrong.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mcp"))
import harness  # noqa: E402

GRACE_S = 10.0
LEFTOVERS = 97


def hear_signals() -> None:
    """A shell's background job ignores the interrupt, and whatever it starts does so too."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def main(command: list[str]) -> int:
    """Runs `command` and returns the status to end with."""
    harness.adopt_orphans()
    try:
        # In a session of its own, as below a real init: the kernel ends stopped orphans only then.
        status = subprocess.run(
            command, check=False, start_new_session=True, preexec_fn=hear_signals
        ).returncode
    except KeyboardInterrupt:
        harness.kill_descendants()
        return 130
    deadline = time.monotonic() + GRACE_S
    while True:
        harness.reap_orphans()
        left = harness.descendants()
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    if not left:
        return status if status >= 0 else 128 - status
    for process in left:
        print(f"left running: {process}", file=sys.stderr)
    harness.kill_descendants()
    return status or LEFTOVERS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
