"""The table that Cofferdam's tool control is compared with EvoFabric's by: patterns, names, rule sets.

Only data: `evofabric_oracle.py` asks the original, `test_tool_control.py` and the policy crate compare.
"""

from __future__ import annotations

#: Names that a server could have, and some that none can have but that tell patterns apart.
NAMES = [
    "python_coding_tool.execute",
    "bash_coding_tool.execute",
    "executor.get_attribute_payload",
    "python_coding_tool_execute",
    "Python_coding_tool.execute",
    "uv_tool.uv",
    "file_system_tool.read_file",
    "file_system_tool.write_file",
    "image_rendering_tool.render_image_for_agent",
    "math_calculator",
    "math.calculator",
    "math/calculator",
    "a",
    "b",
    "c",
    "z",
    "ab",
    "abc",
    "a-c",
    "a.b.c",
    "a/b/c",
    "a\nb",
    "A",
    "0",
    "9",
    "-",
    "_",
    "^",
    "!",
    "]",
    "[",
    "[a]",
    "*",
    "?",
    "\\",
    "{a,b}",
    "a{1}",
    "é",
    "ß",
    "",
]

#: One per row: what a rule's `pattern` may be.
PATTERNS = [
    # Whole names, and case.
    "python_coding_tool.execute", "python_coding_tool", "coding_tool", "execute", "PYTHON_CODING_TOOL.EXECUTE",
    "Python_*", "uv_tool.uv", "math_calculator", "math.calculator",
    # Stars: any length, over dots, slashes and lines.
    "*", "**", "***", "a*", "*a", "*c", "a*c", "a*b*c", "*.*", "*.execute", "*_tool.*", "*tool*", "python*execute",
    "file_system_tool.*", "*read*", "math*", "math?calculator", "*/*", "a**c", "*a*b*", "*aa*", "*.get_*_payload",
    # Question marks: exactly one, whatever it is.
    "?", "??", "???", "a?c", "?*", "*?", "??*", "uv_tool.??", "uv_tool.???", "a?b",
    # Classes.
    "[abc]", "[a-c]", "[!a-c]", "[!a]", "[^a]", "[!^a]", "[a-]", "[-a]", "[!-a]", "[a-c-e]", "[--0]", "[a-cA-C]",
    "[c-a]", "[!c-a]", "[c-ab]", "[c-a!]", "[c-a!b]", "[]]", "[]a]", "[!]]", "[!]a]", "[[]", "[[a]", "[]-a]", "[*]",
    "[?]", "[!]", "[]", "[", "[a", "a[", "[!", "[a-", "x[y", "[0-9]", "[a-z]*", "[!a-z]*", "*[ce]", "[pb]*.execute",
    "[\\]", "[a\\-c]", "[&a]", "[a&&b]", "[~a]", "[a||b]", "[é]", "[a-é]", "[!\n]", "[a-a]", "[b-a-c]", "[z-a]",
    "[!z-a]", "[z-ax-b]", "[--]", "[---]", "[a--]", "[!--]", "[-]", "[_-]", "[a]*[c]", "[a][b][c]", "[[]a]", "[a]]",
    # What other dialects find special.
    "{a,b}", "{python,bash}_*", "a{1}", "a\\*", "\\*", "\\", "\\a", "a|b", "(a)", "a+", "a.c", ".", "^a$", "!a", "~",
    "a\nb", "é", "*é", "a/**/c", "a/*/c", "+(a)", "@(a|b)", "$", "#", " ", "a ",
]  # fmt: skip

Rule = tuple[str, str]  # mode, pattern
Change = tuple[str, str]  # what is done at run time, and to which pattern

#: default mode, rules of the configuration, and what is then done at run time, in order.
SCENARIOS: list[tuple[str, list[Rule], list[Change]]] = [
    ("activate", [], []),
    ("deactivate", [], []),
    ("activate", [("deactivate", "bash_*")], []),
    ("deactivate", [("activate", "bash_*")], []),
    ("activate", [("activate", "*.execute"), ("deactivate", "*")], []),
    ("activate", [("deactivate", "*"), ("activate", "*.execute")], []),
    ("deactivate", [("deactivate", "python_*"), ("activate", "*.execute"), ("deactivate", "*")], []),
    ("activate", [("deactivate", "[!a-n]*")], []),
    ("activate", [], [("deactivate", "bash_coding_tool.execute")]),
    ("activate", [], [("deactivate", "bash_*"), ("activate", "bash_coding_tool.execute")]),
    ("activate", [], [("activate", "bash_coding_tool.execute"), ("deactivate", "bash_*")]),
    ("activate", [("deactivate", "bash_*")], [("activate", "bash_*")]),
    ("deactivate", [("activate", "bash_*")], [("deactivate", "bash_*"), ("activate", "python_*")]),
    ("activate", [("deactivate", "*")], [("activate", "*"), ("deactivate", "*.execute"), ("activate", "*")]),
    ("activate", [], [("deactivate", "*"), ("activate", "python_*"), ("deactivate", "*")]),
    ("activate", [], [("deactivate", "*"), ("activate", "python_*"), ("activate", "executor.*"), ("deactivate", "py*")]),
    ("deactivate", [], [("activate", "*_tool.execute"), ("deactivate", "[pq]*"), ("activate", "??????_coding*")]),
    ("activate", [("activate", "python_*"), ("deactivate", "*")], [("deactivate", "python_*"), ("activate", "python_*")]),
]  # fmt: skip
