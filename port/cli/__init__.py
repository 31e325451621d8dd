"""The command line: `port COMMAND …`. Each command is a module with one line of help and a `main`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from port.cli.examples import examples_of, first_examples
from port.errors import PortError, UnknownChoice
from port.extras import naming_extras
from port.version import __version__
from port.visible import visible

COMMANDS = {
    "convert": "convert a torch checkpoint to Flax, or back",
    "translate": "translate a torch module to readable Flax source, with its weights and the proof",
    "check": "compare two modules side by side: where and why a Flax module differs from the PyTorch one",
    "match": "propose and prove the mapping between two models that were written separately",
    "train": "run both trainers and tell whether they are the same, step by step",
    "script": "watch an unchanged PyTorch training script: what it does, line by line, and its update in JAX",
    "compare": "compare two existing records",
    "report": "compare several runs, in a table and on one page",
    "diff": "read a lesson, or any two files, side by side: PyTorch and JAX",
    "mcp": "serve these commands as tools for assistants (Model Context Protocol)",
    "skill": "print the guide that tells an assistant how to port a project",
}
HELP = """usage: port COMMAND [options]

Moves a PyTorch project to JAX and proves that nothing changed.

{commands}

{examples}

port COMMAND --help lists a command's options, with examples."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. User errors are printed as one message, without a traceback."""
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    if not command_line or command_line[0] in ("-h", "--help"):
        lines = "\n".join(f"  {name:<10}{text}" for name, text in COMMANDS.items())
        print(HELP.format(commands=lines, examples=first_examples()), file=sys.stdout if command_line else sys.stderr)
        return 0 if command_line else 2
    if command_line[0] == "--version":
        print(__version__)
        return 0
    try:
        if command_line[0] not in COMMANDS:
            raise UnknownChoice("command", command_line[0], COMMANDS)
        return _run(command_line[0], command_line[1:])
    except PortError as error:
        print(f"port: {_shown(str(error))}", file=sys.stderr)
        if "--json" in command_line and command_line[0] in COMMANDS:
            _print_error(command_line[0], str(error), error.exit_code)
        return error.exit_code
    except KeyboardInterrupt:
        print("port: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as head, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _shown(message: str) -> str:
    """A message with its own newlines, in which nothing acts on the terminal: names in it come from files."""
    return "\n".join(visible(line) for line in message.split("\n"))


def _print_error(command: str, message: str, exit_code: int) -> None:
    """Print an error as JSON, for programs that asked for it."""
    from port.report.results import printed, result_of_error

    print(printed(result_of_error(command, message, exit_code)))


def _run(command: str, arguments: list[str]) -> int:
    try:
        with naming_extras(f"port {command}"):
            return import_module(f"port.cli.{command}").main(arguments)
    except SystemExit as end:
        if end.code in (0, None):  # --help was passed, and its text is printed
            print(f"{examples_of(command)}\n")
        raise
