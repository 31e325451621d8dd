"""The server: each command is a tool, run in a process of its own, whose result is the JSON that it prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server import Server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

from port.cli.server.command_options import command_line, description_of, schema_of
from port.cli.skill import skill
from port.errors import PortError, UnknownChoice, UsageError
from port.report.results import schema as schema_of_results
from port.version import __version__

if TYPE_CHECKING:
    from anyio.abc import Process

TOOLS = ("translate", "convert", "check", "match", "script", "train", "compare")
"""The commands that are tools, in the order in which a port needs them."""
FOLDER = "folder"
FOLDER_SCHEMA = {
    "type": "string",
    "description": "The project's folder: paths are relative to it, and its modules can be imported. The server's own "
    "folder if not given",
}
SECONDS_TO_END = 10
"""For a command that was cancelled, before it is killed."""
LAST_LINES = 40
"""Of what a command said, where it ended without a result."""
Tell = Callable[[str], Awaitable[None]]


def server() -> Server[Any]:
    """The server, with the guide for assistants as its instructions."""
    return Server(
        "port",
        version=__version__,
        instructions=skill(),
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )


def tools() -> list[Tool]:
    """Every tool, with the schemas of what it takes and of what it gives."""
    return [_tool(command) for command in TOOLS]


def _tool(command: str) -> Tool:
    schema = schema_of(command)
    schema["properties"] = {FOLDER: FOLDER_SCHEMA, **schema["properties"]}
    return Tool(
        name=command,
        description=description_of(command),
        input_schema=schema,
        output_schema=schema_of_results(),
        annotations=ToolAnnotations(read_only_hint=command in ("check", "compare"), open_world_hint=False),
    )


async def run(command: str, options: Mapping[str, Any], tell: Tell) -> CallToolResult:
    """Run a command.

    Args:
        command: one of `TOOLS`.
        options: its options, by the names of its schema; and the folder.
        tell: is called with each line that the command prints meanwhile.
    """
    rest = {name: value for name, value in options.items() if name != FOLDER}
    folder = Path(options.get(FOLDER) or ".")
    try:
        if command not in TOOLS:
            raise UnknownChoice("tool", command, TOOLS)
        if not folder.is_dir():
            raise UsageError(f"{FOLDER}: {folder} is no folder")
        line = [sys.executable, "-m", "port", *command_line(command, rest)]
    except PortError as error:
        return _refused(str(error))
    said: list[str] = []
    async with await anyio.open_process(line, cwd=folder, stdin=None) as process:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_follow, process, said, tell)
                printed = await _all_of(process)
            exit_code = await process.wait()
        except anyio.get_cancelled_exc_class():
            await _end(process)
            raise
    return _result(printed, said, exit_code)


async def _follow(process: Process, said: list[str], tell: Tell) -> None:
    """Hand on the lines of standard error, as they come."""
    from anyio.streams.text import TextReceiveStream

    assert process.stderr is not None
    rest = ""
    async for text in TextReceiveStream(process.stderr, errors="replace"):
        *lines, rest = (rest + text).split("\n")
        for line in filter(None, map(str.strip, lines)):
            said.append(line)
            await tell(line)
    said += [rest.strip()] if rest.strip() else []


async def _all_of(process: Process) -> str:
    assert process.stdout is not None
    return b"".join([part async for part in process.stdout]).decode("utf-8", "replace")


async def _end(process: Process) -> None:
    """End a command whose call was cancelled, with what it started."""
    with anyio.CancelScope(shield=True):
        process.terminate()
        with anyio.move_on_after(SECONDS_TO_END):
            await process.wait()
            return
        process.kill()


def _result(printed: str, said: list[str], exit_code: int) -> CallToolResult:
    try:
        found = json.loads(printed)
    except ValueError:
        return _refused(
            "\n".join(said[-LAST_LINES:]) or f"the command ended with exit code {exit_code}, and said nothing"
        )
    # 1, they differ, and 4, nobody can say, are results; 2 and 3 are not.
    return CallToolResult(
        content=[TextContent(type="text", text=printed)],
        structured_content=found,
        is_error=exit_code not in (0, 1, 4),
    )


def _refused(why: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=why)], is_error=True)


async def _list_tools(context: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(tools=tools())


async def _call_tool(context: Any, params: Any) -> CallToolResult:
    count = 0

    async def tell(line: str) -> None:
        nonlocal count
        count += 1
        await context.session.report_progress(count, message=line)

    return await run(params.name, params.arguments or {}, tell)
