"""EAA's own server with its two code tools, unsandboxed, over stdio: the oracle of the differential test.

Runs in EAA's environment. Not for anything but comparing: it holds code back from nothing.
"""

from eaa_core.tool.coding import BashCodingTool, PythonCodingTool
from eaa_core.tool.mcp_server import run_mcp_server_from_tools

run_mcp_server_from_tools([PythonCodingTool(), BashCodingTool()], transport="stdio", show_banner=False)
