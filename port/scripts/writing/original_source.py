"""Write original.py, what a trainer copies from a script: its options, its data, its epochs."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from string import Template
from typing import Any

from port.errors import UsageError
from port.scripts.wording import place_of
from port.scripts.writing.loop import EpochLoop
from port.scripts.writing.ranks_source import BESIDE, OF_RANK, together_source
from port.scripts.writing.taken_statements import names_set

TEXT = Template('''\
"""The options, the data and the $course of $script, copied from it."""

from __future__ import annotations

import argparse
${beside}from collections.abc import $types
from typing import Any

$definitions


def options() -> argparse.ArgumentParser:
    """The options of $script."""
    parser = argparse.ArgumentParser()
$options
    return parser


${batches}def $data($args: argparse.Namespace) -> tuple[dict[str, Any], $gives$type]:
    """$about$more"""
$body
$generators
$inputs    return {$loaders}, $epochs$made
$rates$together''')
PLANNED = """Its batches, and its plan: the original's updates and evaluations in order, with the rate if set by hand.

    An update uses all its microbatches. The lines are copied from the original's loop.
    """
NUMBERED = " And a generator of each update's number."
CALLABLE = ", Callable[[int], Iterable[Any]]"
BATCHES = '''\
class Batches:
    """Batches that a function makes, again at each iteration over them."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        return self.make()


'''
RATES = Template('''

def rates($args: argparse.Namespace) -> Generator[float, $sent, None]:
    """The learning rate of each epoch.$more"""
$body
''')
TYPES = ("int", "float", "str")
PLAIN = {"Store", "StoreTrue", "StoreFalse", "Append", "Count"}
SWITCHES = {"StoreTrue": "store_true", "StoreFalse": "store_false", "Append": "append", "Count": "count"}


def original_source(
    loop: EpochLoop, script: str, options: Sequence[dict[str, Any]], inputs: Sequence[str] = (), ranks: int = 1
) -> str:
    """The file's unformatted text.

    Args:
        loop: the script's loop.
        script: the script's name.
        options: the observed options.
        inputs: the lines of a function that makes an update's inputs from a batch.
        ranks: the number of processes of the script: an update uses all their batches together.

    Raises:
        UsageError: an option cannot be written.
    """
    rows = loop.file.read_text("utf-8").splitlines()
    definitions = "\n".join(source_text(one, rows) for one in loop.taken.definitions)
    body = "\n".join(source_text(one, rows) for one in loop.taken.body)
    loaders = ", ".join(f'"{role}": {name}' for role, name in loop.loaders.items())
    types = [*(["Callable"] if inputs or loop.numbers else []), *(["Generator"] if loop.rates else [])]
    types.append("Iterator" if loop.is_planned else "Iterable")
    return TEXT.substitute(
        script=script,
        args=loop.taken.options or "args",
        definitions=definitions,
        options="\n".join(f"    {option_line(one)}" for one in options),
        body=textwrap.indent(body, "    "),
        loaders=loaders,
        about=_about(loop),
        course="steps" if loop.is_planned else "epochs",
        gives="Iterator[Any]" if loop.is_planned else "Iterable[int]",
        data=name_of_data(loop) if ranks == 1 else OF_RANK,
        types=", ".join(types),
        batches=BATCHES if loop.generators and not loop.numbers else "",
        generators=textwrap.indent("\n\n".join(loop.generators), "    "),
        rates=_rates(loop),
        epochs=ast.unparse(loop.epochs),
        type=(", Callable[[Any], tuple[Any, ...]]" if inputs else "") + (CALLABLE if loop.numbers else ""),
        more=(" And what it makes from a batch." if inputs else "") + (NUMBERED if loop.numbers else ""),
        inputs="".join(f"\n    {line}" for line in inputs) + "\n\n" if inputs else "",
        made=(", inputs" if inputs else "") + (f", {loop.numbers}" if loop.numbers else ""),
        together=together_source(name_of_data(loop), ranks) if ranks > 1 else "",
        beside=BESIDE if ranks > 1 else "",
    )


def _about(loop: EpochLoop) -> str:
    if loop.is_planned:
        return PLANNED
    training = loop.loaders["training"] if not loop.generators or loop.numbers else "training's batches"
    return f"Its DataLoaders, and its epochs: each is a pass over {training}."


def name_of_data(loop: EpochLoop) -> str:
    """The name of the function, which must not be a copied name."""
    taken = {name for one in [*loop.taken.definitions, *loop.taken.body] for name in names_set(one)}
    return "data" if "data" not in taken else "data_of_script"


def _rates(loop: EpochLoop) -> str:
    if not loop.rates:
        return ""
    return RATES.substitute(
        args=loop.taken.options or "args",
        sent="float" if loop.hears else "None",
        more=" The result of each epoch's evaluation is sent to it." if loop.hears else "",
        body=textwrap.indent(loop.rates, "    "),
    )


def option_line(option: dict[str, Any]) -> str:
    """Write an option's line: ``parser.add_argument("--lr", type=float, default=0.1, help="…")``.

    Raises:
        UsageError: its type or its action is defined by the script.
    """
    kind, action = option["type"], option["action"]
    if kind not in (None, *TYPES) or action not in PLAIN or isinstance(option["default"], dict):
        what = f"type {kind}, action {action}, default {option['default']}"
        raise UsageError(
            f"{place_of(option['where'])}: the option {option['name']} ({what}) is not written: write it by hand, and "
            "write the loop around train_step"
        )
    flags = option["flags"] or [option["name"]]
    said = [repr(flag) for flag in flags]
    if option["flags"] and option["name"] != _destination(option["flags"]):
        said.append(f"dest={option['name']!r}")
    if action in SWITCHES:
        said.append(f"action={SWITCHES[action]!r}")
    if kind is not None:
        said.append(f"type={kind}")
    switches = {"StoreTrue": False, "StoreFalse": True}
    if option["default"] != switches.get(action):
        said.append(f"default={option['default']!r}")
    needs = option["required"] and bool(option["flags"])
    said += [f"{name}={option[name]!r}" for name in ("choices", "metavar", "help") if option[name] is not None]
    if option["nargs"] is not None and action == "Store":
        said.append(f"nargs={option['nargs']!r}")
    return f"parser.add_argument({', '.join([*said, *(['required=True'] if needs else [])])})"


def _destination(flags: Sequence[str]) -> str:
    """The attribute name that argparse derives from flags."""
    long = [flag for flag in flags if flag.startswith("--")] or list(flags)
    return long[0].lstrip("-").replace("-", "_")


def source_text(statement: ast.stmt, rows: Sequence[str]) -> str:
    """A statement's source in the script, with the comment above it, at the left margin."""
    decorators = getattr(statement, "decorator_list", [])
    begin = min([statement.lineno, *(one.lineno for one in decorators)]) - 1
    end = statement.end_lineno or statement.lineno
    behind = rows[end - 1].encode()[statement.end_col_offset :].decode().strip()
    if rows[begin].encode()[: statement.col_offset].strip() or (behind and not behind.startswith("#")):
        return ast.unparse(statement)  # it shares its line with another statement
    while begin and rows[begin - 1].strip().startswith("#") and not rows[begin - 1].startswith("#!"):
        begin -= 1
    return textwrap.dedent("\n".join(rows[begin:end]))
