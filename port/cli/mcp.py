"""`port mcp`: the commands as tools for assistants, by the Model Context Protocol."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from port.cli.parsing import parsed
from port.extras import require


@dataclass(frozen=True)
class Arguments:
    """Serve the commands as tools of the Model Context Protocol, on standard input and output.

    An assistant starts it: register `port mcp` as the command of a server. Each call runs one command in a process of
    its own, in the folder that the call names, and returns what the command prints with --json.
    """

    list: bool = False
    """print the tools as JSON, with the schemas of their options and of their results, and exit"""


def main(arguments: Sequence[str]) -> int:
    """Run the server until its input ends; returns the exit code."""
    options = parsed(Arguments, "mcp", arguments)
    require("port mcp", mcp=("mcp", "pydantic"))
    import anyio
    from mcp.server.stdio import stdio_server

    from port.cli.server.tools import server, tools

    if options.list:
        found = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools()]
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0

    async def serve() -> None:
        serving = server()
        async with stdio_server() as (reading, writing):
            await serving.run(reading, writing, serving.create_initialization_options())

    anyio.run(serve)
    return 0
