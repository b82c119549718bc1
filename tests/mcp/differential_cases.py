"""The table of the differential test: calls that are replayed to EAA's own server and to ours.

Each row says what is sent and, where the two answers are meant to differ, the name of the difference
and what ours must be. Every other value must be equal. Not for behaviour that only we have: that is
tested where it is promised.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from harness import BASH_TOOL, PYTHON_TOOL

#: Every way in which ours differs on purpose, and why.
DIFFERENCES: Mapping[str, str] = MappingProxyType(
    {
        "argument errors name the key": "the text of a validation library is no contract; ours says "
        "which argument was wrong and what was expected, in one line",
        "non-UTF-8 output is kept": "EAA drops all output when one byte of it cannot be decoded",
        "carriage returns are kept": "EAA reads through universal newlines and rewrites the output",
        "the reply comes at main exit": "EAA waits for the last holder of the pipes; ours kills what is left",
        "valid code is never changed": "EAA rewrites typographic quotes and quoted sources before running",
        "cwd stays inside the roots": "EAA runs anywhere on the host",
        "a missing cwd is refused by name": "EAA reports its own temporary script as missing",
        "timeout is above zero": "EAA takes 0 and negative numbers and ends the run at once",
        "img_path is absolute": "a relative path means nothing to a client in another folder",
        "img_path is a real PNG": "EAA believes the suffix of any file on the host",
        "the server's environment is hidden": "EAA passes every variable, secrets included",
        "no script is left in the workspace": "EAA writes its temporary script into the user's folder",
        "python output is unbuffered": "the profile sets PYTHONUNBUFFERED, so that a hard exit loses nothing",
        "a NUL is refused": "EAA writes it into the script and the interpreter fails in its own words",
    }
)


@dataclass(frozen=True)
class Matches:
    """Our value is text that this regular expression matches as a whole (`.` matches newlines)."""

    pattern: str


@dataclass(frozen=True)
class Absent:
    """The key is missing from our result."""


@dataclass(frozen=True)
class Differs:
    """An intended difference: its name in `DIFFERENCES` and what ours answers instead."""

    name: str
    #: Result key to our value; the key `isError` stands for a refusal whose text is the value.
    ours: Mapping[str, object]


@dataclass(frozen=True)
class Case:
    """One call."""

    name: str
    tool: str
    arguments: Mapping[str, object]
    files: Mapping[str, bytes] = field(default_factory=dict)
    differs: tuple[Differs, ...] = ()


def python(name: str, code: str, *differs: Differs, files: Mapping[str, bytes] | None = None, **more: object) -> Case:
    """A call of the Python tool."""
    return Case(name, PYTHON_TOOL, {"code": code, **more}, files or {}, differs)


def bash(name: str, code: str, *differs: Differs, files: Mapping[str, bytes] | None = None, **more: object) -> Case:
    """A call of the Bash tool."""
    return Case(name, BASH_TOOL, {"code": code, **more}, files or {}, differs)


def png() -> bytes:
    """A real picture of one grey pixel."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\x00\x80")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


RAISE = "def inner(x):\n    return 1 / x\n\ndef outer():\n    return inner(0)\n\nouter()\n"
CHAINED = "try:\n    {}['a']\nexcept KeyError as error:\n    raise RuntimeError('wrapped') from error\n"
SUBPROCESS = (
    "import subprocess, sys\n"
    "done = subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True, text=True)\n"
    "print(done.returncode, done.stdout.strip())\n"
)
POOL = (
    "import multiprocessing\n"
    "def square(x):\n    return x * x\n"
    "if __name__ == '__main__':\n"
    "    context = multiprocessing.get_context('{method}')\n"
    "    with context.Pool(2) as pool:\n        print(pool.map(square, range(4)))\n"
)
THREADS = (
    "import threading\n"
    "found = []\n"
    "threads = [threading.Thread(target=found.append, args=(n,)) for n in range(4)]\n"
    "[t.start() for t in threads]; [t.join() for t in threads]\n"
    "print(sorted(found))\n"
)
BACKGROUND = "import subprocess\nsubprocess.Popen(['sleep', '60'])\nprint('started', flush=True)\n"
SLEEPER = "import time\ntime.sleep(60)\n"
RECURSION = "def again():\n    return again()\nagain()\n"
SOURCE = "import inspect\ndef shown():\n    return 'here'\nprint(inspect.getsource(shown))\n"

PYTHON_CASES = (
    python("prints", "print(6 * 7)"),
    python("prints unicode", "print('é 漢字 🦀 \\u202e')"),
    python("prints without a final newline", "print('tail', end='')"),
    python("prints nothing", "x = 1"),
    python("empty code", ""),
    python("only a comment", "# nothing"),
    python("prints to both streams", "import sys\nprint('out')\nprint('err', file=sys.stderr)"),
    python("prints a NUL", "print('a\\0b')"),
    python(
        "prints CRLF",
        "import sys\nsys.stdout.write('a\\r\\nb\\r\\n')",
        Differs("carriage returns are kept", {"stdout": "a\r\nb\r\n"}),
    ),
    python(
        "prints a progress bar",
        "import sys\nsys.stderr.write('1%\\r2%\\r')",
        Differs("carriage returns are kept", {"stderr": "1%\r2%\r"}),
    ),
    python(
        "prints bytes that are not UTF-8",
        "import sys\nprint('before', flush=True)\nsys.stdout.buffer.write(b'\\xff\\xfe|')",
        Differs(
            "non-UTF-8 output is kept",
            {"stdout": "before\n\ufffd\ufffd|", "returncode": 0, "error": Absent()},
        ),
    ),
    python("prints 60,000 characters", "print('x' * 59_999)"),
    python("prints 2,000 lines", "for n in range(2_000): print(n)"),
    python("prints at exit", "import atexit\natexit.register(print, 'bye')"),
    python("CRLF in code", "x = 1\r\nprint(x)\r\n"),
    python("CRLF inside a string literal", "print(repr('''a\r\nb'''))"),
    python("byte order mark before the code", "\ufeffprint(1)"),
    python("an encoding cookie in the code", "# -*- coding: utf-8 -*-\nprint('é')"),
    python("a future import comes first", "from __future__ import annotations\nx: Missing = 1\nprint(x)"),
    python("a module docstring", "'''what for'''\nprint(__doc__)"),
    python("top-level await is an error", "await x"),
    python("exit status 0", "import sys\nsys.exit(0)"),
    python("exit status 3", "import sys\nprint('so far')\nsys.exit(3)"),
    python("exit status 256", "import sys\nsys.exit(256)"),
    python("exit status -1", "import sys\nsys.exit(-1)"),
    python("exit with a message", "import sys\nsys.exit('stopped: é')"),
    python("exit with None", "raise SystemExit"),
    python("exit by the builtin", "exit(4)"),
    python("hard exit after a flush", "import os\nprint('x', flush=True)\nos._exit(7)"),
    python(
        "hard exit without a flush",
        "import os\nprint('x')\nos._exit(7)",
        Differs("python output is unbuffered", {"stdout": "x\n"}),
    ),
    python("kills itself", "import os\nos.kill(os.getpid(), 9)"),
    python("terminates itself", "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)"),
    python("aborts", "import os\nos.abort()"),
    python("crashes", "import ctypes\nctypes.string_at(0)"),
    python("is interrupted", "raise KeyboardInterrupt"),
    python("an alarm ends it", "import signal\nsignal.alarm(1)\nsignal.pause()"),
    python("an exception with a traceback", RAISE),
    python("a chained exception", CHAINED),
    python("endless recursion", RECURSION),
    python("a syntax error", "x = (1,\nprint(x\n"),
    python("an indentation error", "if True:\nprint(1)\n"),
    python("an unprintable surrogate", "print(ascii('\\udc80'))"),
    python("a warning", "import warnings\nwarnings.warn('careful')"),
    python("is the main module", "print(__name__, __package__, __spec__)"),
    python("has a file that exists", "import os\nprint(os.path.isabs(__file__), os.path.isfile(__file__))"),
    python("its arguments", "import sys\nprint(len(sys.argv), sys.argv[0] == __file__)"),
    python("its flags", "import sys\nprint(sys.flags)"),
    python("its source can be read", SOURCE),
    python("imports from the workspace", "import helper\nprint(helper.VALUE)", files={"helper.py": b"VALUE = 42\n"}),
    python("imports what is installed", "import numpy\nprint(numpy.arange(4).sum())"),
    python("is the same interpreter", "import sys\nprint(sys.version)"),
    python("the working directory", "import os\nprint(os.getcwd())"),
    python("reads a file of the workspace", "print(open('data.txt').read())", files={"data.txt": "é\n".encode()}),
    python("writes a file in the workspace", "open('new.txt', 'w').write('é')\nprint(open('new.txt').read())"),
    python("the temporary folder works", "import tempfile\nwith tempfile.TemporaryFile() as f: print(f.write(b'x'))"),
    python(
        "lists the workspace",
        "import os\nprint(len(os.listdir('.')))",
        Differs("no script is left in the workspace", {"stdout": "1\n"}),
        files={"data.txt": b""},
    ),
    python("starts a program", SUBPROCESS),
    python("forks a pool", POOL.format(method="fork")),
    python("spawns a pool", POOL.format(method="spawn")),
    python("threads", THREADS),
    python("asyncio", "import asyncio\nasync def main(): print('loop')\nasyncio.run(main())"),
    python("standard input as text", "print(repr(input()))", input_text="é and more"),
    python("standard input to its end", "import sys\nprint(repr(sys.stdin.read()))", input_text="a\nb\n"),
    python("empty standard input", "import sys\nprint(repr(sys.stdin.read()))", input_text=""),
    python("binary standard input", "import sys\nprint(sys.stdin.buffer.read())", input_text="a\r\nb"),
    python("input past the end", "input()", input_text=""),
    python("a megabyte of input", "import sys\nprint(len(sys.stdin.read()))", input_text="x" * 1_000_000),
    python("input that nobody reads", "print('done')", input_text="x" * 1_000_000),
    python(
        "no standard input given",
        "import sys\nprint(repr(sys.stdin.read()))",
    ),
    python("the locale", "import os, sys\nprint(os.environ['LANG'], sys.stdout.encoding)"),
    python("a home", "import os\nprint(os.path.isdir(os.environ['HOME']), os.path.expanduser('~') == os.environ['HOME'])"),
    python("programs on the path", "import shutil\nprint(bool(shutil.which('bash')), bool(shutil.which('python3')))"),
    python(
        "the server's secrets",
        "import os\nprint(os.environ.get('COFFERDAM_TEST_SECRET'))",
        Differs("the server's environment is hidden", {"stdout": "None\n"}),
    ),
    python(
        "a timeout after output",
        "print('before', flush=True)\n" + SLEEPER,
        timeout=1,
    ),
    python("a timeout without output", SLEEPER, timeout=1),
    python("a fraction of a second", SLEEPER, timeout=0.5),
    python("a number written as text", "print(1)", timeout="5"),
    python("nulls stand for defaults", "print(1)", timeout=None, cwd=None, last_print_is_image_path=False),
    python(
        "a timeout of zero",
        "print(1)",
        Differs("timeout is above zero", {"isError": Matches(".*`timeout`.*above 0.*")}),
        timeout=0,
    ),
    python(
        "a negative timeout",
        "print(1)",
        Differs("timeout is above zero", {"isError": Matches(".*`timeout`.*above 0.*")}),
        timeout=-1,
    ),
    python(
        "a child that stays behind",
        BACKGROUND,
        Differs(
            "the reply comes at main exit",
            {"returncode": 0, "timeout": False, "error": Absent()},
        ),
        timeout=2,
    ),
    python("an absolute cwd", "import os\nprint(os.getcwd())", cwd="{workspace}/sub", files={"sub/x": b""}),
    python(
        "a relative cwd",
        "import os\nprint(os.path.basename(os.getcwd()))",
        cwd="sub",
        files={"sub/x": b""},
    ),
    python(
        "imports from its cwd",
        "import helper\nprint(helper.VALUE)",
        cwd="{workspace}/sub",
        files={"sub/helper.py": b"VALUE = 1\n"},
    ),
    python(
        "a cwd that is missing",
        "print(1)",
        Differs("a missing cwd is refused by name", {"isError": Matches(".*`?cwd`?.*missing.*|.*/missing.*")}),
        cwd="{workspace}/missing",
    ),
    python(
        "a cwd outside",
        "print(1)",
        Differs("cwd stays inside the roots", {"isError": Matches(".*cwd.*")}),
        cwd="/usr",
    ),
    python("a picture", "print('{workspace}/a.png')", files={"a.png": png()}, last_print_is_image_path=True),
    python(
        "a picture and blank lines after it",
        "print('text')\nprint('{workspace}/a.png')\nprint()",
        files={"a.png": png()},
        last_print_is_image_path=True,
    ),
    python(
        "a picture by a relative path",
        "print('a.png')",
        Differs("img_path is absolute", {"img_path": "{workspace}/a.png"}),
        files={"a.png": png()},
        last_print_is_image_path=True,
    ),
    python("a picture that nobody asked for", "print('{workspace}/a.png')", files={"a.png": png()}),
    python("a picture that is missing", "print('{workspace}/none.png')", last_print_is_image_path=True),
    python("a picture that is a text file", "print('{workspace}/a.txt')", files={"a.txt": b"x"}, last_print_is_image_path=True),
    python("no line to be a picture", "pass", last_print_is_image_path=True),
    python(
        "a text file called a picture",
        "print('{workspace}/a.png')",
        Differs("img_path is a real PNG", {"img_path": Absent()}),
        files={"a.png": b"not a picture"},
        last_print_is_image_path=True,
    ),
    python("typographic quotes around a string", "print(\u201chi\u201d)"),
    python(
        "typographic quotes inside a string",
        "print('it\u2019s')",
        Differs("valid code is never changed", {"stdout": "it\u2019s\n", "stderr": "", "returncode": 0}),
    ),
    python(
        "a source that is one string literal",
        "'print(1)\\nprint(2)'",
        Differs("valid code is never changed", {"stdout": ""}),
    ),
    python(
        "a NUL in the code",
        "print(1)\0",
        Differs("a NUL is refused", {"isError": Matches(".*`code` has a NUL.*")}),
    ),
)

BASH_CASES = (
    bash("bash prints", "echo $((6 * 7))"),
    bash("bash prints unicode", "printf '%s' 'é 漢字 🦀'"),
    bash("bash with nothing to do", ""),
    bash("bash prints to both streams", "echo out; echo err >&2"),
    bash("bash exit status", "echo so far; exit 3"),
    bash("bash exit status 256", "exit 256"),
    bash("bash ends with the last status", "true; false"),
    bash("bash stops at an error", "set -euo pipefail\necho one\nfalse\necho two"),
    bash("bash kills itself", "kill -9 $$"),
    bash("bash terminates itself", "kill -TERM $$"),
    bash("bash a program is killed", "{ sh -c 'kill -9 $$'; } 2>/dev/null; echo $?"),
    bash("bash an unknown command", "echo before\nno_such_command_here"),
    bash("bash a syntax error", "echo before\nif true; then\n"),
    bash("bash an unset variable", "set -u\necho $missing"),
    bash("bash its own words", "a=(1 2 3); [[ ${#a[@]} == 3 ]] && echo ${a[-1]}"),
    bash("bash a here-document", "cat <<'END'\n$a é\nEND"),
    bash("bash a pipeline", "seq 100 | grep 7 | wc -l"),
    bash("bash process substitution", "cat <(echo one) <(echo two)"),
    bash("bash writes to its streams by name", "echo a > /dev/stdout; echo b > /dev/stderr"),
    bash("bash a trap at exit", "trap 'echo bye' EXIT; exit 5"),
    bash("bash its parameters", 'echo $# "$@"'),
    bash("bash its file exists", 'test -f "$0" && echo yes; test -f "${BASH_SOURCE[0]}" && echo yes'),
    bash("bash its mask", "umask"),
    bash("bash its folder", "pwd; ls -A *.txt", files={"data.txt": b""}),
    bash("bash sources a file", ". ./lib.sh; greet", files={"lib.sh": b"greet() { echo hello; }\n"}),
    bash("bash writes and reads", "echo é > new; cat new; rm new"),
    bash("bash standard input", "read -r line; echo \"<$line>\"; cat", input_text="one\ntwo\n"),
    bash("bash an empty standard input", "cat | wc -c", input_text=""),
    bash(
        "bash no standard input given",
        "cat; echo end",
    ),
    bash("bash starts python", "python3 -c 'print(6 * 7)'"),
    bash("bash replaces itself", "exec sh -c 'echo new; exit 9'"),
    bash("bash waits for its jobs", "(echo one) & wait; echo two"),
    bash(
        "bash a job that stays behind",
        "sleep 60 & echo started",
        Differs(
            "the reply comes at main exit",
            {"returncode": 0, "timeout": False, "error": Absent()},
        ),
        timeout=2,
    ),
    bash("bash a job that let go of the pipes", "sleep 60 >/dev/null 2>&1 & echo started"),
    bash("bash a timeout", "sleep 60", timeout=1),
    bash(
        "bash a timeout after output",
        "echo before; echo oops >&2; sleep 60",
        timeout=1,
    ),
    bash("bash an absolute cwd", "pwd", cwd="{workspace}/sub", files={"sub/x": b""}),
    bash(
        "bash a relative cwd",
        'basename "$PWD"',
        cwd="sub",
        files={"sub/x": b""},
    ),
    bash(
        "bash CRLF in code",
        "echo one\r\necho two\r\n",
        Differs("carriage returns are kept", {"stdout": "one\r\ntwo\r\n"}),
    ),
    bash(
        "bash prints bytes that are not UTF-8",
        "printf 'a\\377b'",
        Differs("non-UTF-8 output is kept", {"stdout": "a\ufffdb", "returncode": 0, "error": Absent()}),
    ),
    bash("bash typographic quotes are text", "echo \u201chi\u201d"),
    bash("bash 50,000 characters", "head -c 50000 /dev/zero | tr '\\0' x"),
)

REFUSED_CASES = (
    Case("an unknown tool", "no_such_tool.execute", {}),
    Case(
        "a missing argument",
        PYTHON_TOOL,
        {},
        differs=(Differs("argument errors name the key", {"isError": Matches("missing argument `code`.*string.*")}),),
    ),
    Case(
        "an unknown argument",
        PYTHON_TOOL,
        {"code": "print(1)", "timeot": 3},
        differs=(Differs("argument errors name the key", {"isError": Matches("unknown argument `timeot`.*")}),),
    ),
    Case(
        "an argument of the wrong type",
        BASH_TOOL,
        {"code": 5},
        differs=(Differs("argument errors name the key", {"isError": Matches("argument `code` must be string.*5.*")}),),
    ),
    Case(
        "a null for what is required",
        BASH_TOOL,
        {"code": None},
        differs=(Differs("argument errors name the key", {"isError": Matches("argument `code` must be string.*null.*")}),),
    ),
    Case(
        "text for a number",
        BASH_TOOL,
        {"code": "echo", "timeout": "soon"},
        differs=(Differs("argument errors name the key", {"isError": Matches("argument `timeout` must be number.*soon.*")}),),
    ),
)

CASES = (*PYTHON_CASES, *BASH_CASES, *REFUSED_CASES)
