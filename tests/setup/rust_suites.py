"""Prints the paths of the built end-to-end test programs, from cargo's JSON messages on stdin.

Only the targets that are tests of their own (`[[test]]`): they drive the built binary and can be run
anywhere. Unit tests run where they were built.
"""

from __future__ import annotations

import json
import sys

for line in sys.stdin:
    message = json.loads(line) if line.startswith("{") else {}
    if message.get("reason") == "compiler-artifact" and message["target"]["kind"] == ["test"]:
        print(message["executable"])
