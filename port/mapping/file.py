"""Mapping files (TOML): written in full and read back, or written by hand as rules."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping as Arrays
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from port.errors import BrokenWeights, UsageError, WeightsMismatch
from port.mapping.entry import Entry
from port.mapping.gathered import Gathered, gathered
from port.mapping.mapping import Mapping, patterns_of
from port.mapping.patterns import MOST, Numbers, PatternRow, unrolled
from port.mapping.rules import Rules, kept_from, names_from, rules_from
from port.moves.move import Shapes
from port.moves.spec import moves_from, spec_of

KEYS = ("source", "target", "each", "over", "moves", "collection", "shapes", "optional")
"""The keys of an entry, in the order in which they are written."""


def save_mapping(mapping: Mapping, path: Path | str) -> None:
    """Write a mapping, one table per entry, atomically. `read_mapping` restores it exactly.

    Entries that repeat by an index share one table, ``source = "blocks.{i}.fc.weight"`` with ``each = { i = 12 }`` for
    the numbers 0 to 11, or the numbers themselves, ``each = { i = [0, 2, 4] }``. An entry with one source for each of
    these numbers, as for a stack of layers, has ``over = { i = 12 }`` instead, and the shapes of one round if all
    rounds have the same.

    Raises:
        BrokenWeights: the file cannot be written.
    """
    write_whole(Path(path), encoded_mapping(mapping))


def write_whole(path: Path, written: bytes) -> None:
    """Write a mapping file's text atomically.

    Raises:
        BrokenWeights: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")  # on the same disk, where replacing is atomic
    try:
        if path.exists() and not path.is_file():  # a device, a pipe or a folder
            raise BrokenWeights(f"the mapping cannot be written to {path}: it is no file. Choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(written)
        os.replace(temporary, path)
    except OSError as error:
        raise BrokenWeights(f"the mapping cannot be written to {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def encoded_mapping(mapping: Mapping) -> bytes:
    """Encode a mapping as the text of its file.

    Raises:
        BrokenWeights: a name cannot be encoded.
    """
    text = "\n".join(map(_written, tables_of(mapping))) or "entry = []\n"
    if mapping.kept:
        text = f"keep = {toml_value(list(mapping.kept))}\n\n{text}"
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BrokenWeights(f"the mapping cannot be written: a name contains half a character: {error}") from error


def read_mapping(path: Path | str) -> Mapping | Rules:
    """Read a mapping file.

    It is a whole mapping (``[[entry]]`` tables), or rules (``[[rename]]``, ``[fold]``, ``[[rule]]``, ``keep``).

    Raises:
        UsageError: the file is missing, is not TOML, or has invalid tables; says where.
    """
    try:
        data = tomllib.loads(Path(path).read_bytes().decode())
    except OSError as error:
        raise UsageError(f"the mapping {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not TOML, not text, or endless numbers or tables
        raise UsageError(f"the mapping {path} is not TOML: {error}") from error
    if "entry" not in data:
        return rules_from(data, str(path))
    if others := sorted(set(data) - {"entry", "keep"}):
        raise UsageError(f"{path}: entries are a whole mapping, and cannot be combined with {', '.join(others)}")
    return replace(mapping_from(data["entry"], str(path)), kept=kept_from(data, str(path)))


def tables_of(mapping: Mapping) -> list[dict[str, Any]]:
    """Return a mapping as plain data: one table per entry, or per group of entries that repeat by an index."""
    return [_table(entry, each) for entry, each in patterns_of(mapping.entries)]


def mapping_from(tables: Any, where: str) -> Mapping:
    """Read a mapping from the plain data that `tables_of` returned.

    Args:
        tables: the entries.
        where: the tables' location, for error messages.

    Raises:
        UsageError: a table is invalid; says which.
    """
    if not isinstance(tables, list):
        raise UsageError(f"{where}: entries are tables, each under [[entry]]")
    rows = [_row(table, f"{where}, entry {number}") for number, table in enumerate(tables, 1)]
    try:
        return Mapping(tuple(_of_row(row) for row in unrolled(rows)))
    except (WeightsMismatch, ValueError) as error:
        raise UsageError(f"{where}: {error}") from error


def _of_row(row: PatternRow[tuple[int, Entry]]) -> Entry:
    count, entry = row.rest
    return replace(entry, sources=row.names[:count], targets=row.names[count:])


def _table(entry: Entry, each: Arrays[str, Numbers]) -> dict[str, Any]:
    rounds = gathered(entry.sources, each)
    sources = entry.sources if rounds is None else rounds.names
    table: dict[str, Any] = {"source": _short(sources), "target": _short(entry.targets)}
    if each:
        table["each"] = {letter: _counted(numbers) for letter, numbers in each.items()}
    if rounds is not None:
        table["over"] = {rounds.letter: _counted(rounds.numbers)}
    if entry.moves:
        table["moves"] = [spec_of(move) for move in entry.moves]
    if entry.collection != "params":
        table["collection"] = entry.collection
    if entry.shapes is not None:
        shapes = entry.shapes
        if rounds is not None and shapes == shapes[: len(rounds.names)] * len(rounds.numbers):
            shapes = shapes[: len(rounds.names)]
        table["shapes"] = [list(shape) for shape in shapes]
    if entry.optional:
        table["optional"] = True
    return table


def _written(table: dict[str, Any]) -> str:
    """An entry as TOML, one key per line, so that it is easy to edit."""
    return "[[entry]]\n" + "".join(f"{key} = {toml_value(value)}\n" for key, value in table.items())


def toml_value(value: Any) -> str:
    """Format a value as TOML: strings, numbers, lists and inline tables."""
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(toml_value, value)) + "]"
        case float():  # including infinity, which JSON lacks
            return repr(value)
    # JSON strings, numbers and bools are TOML, too; but TOML requires one control character escaped that JSON does not.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _counted(numbers: Numbers) -> int | list[int]:
    return len(numbers) if numbers == tuple(range(len(numbers))) else list(numbers)


def _short(names: tuple[str, ...]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


def _row(table: Any, where: str) -> PatternRow[tuple[int, Entry]]:
    """Parse a table into a row: the entry, and how many of its names are sources."""
    try:
        if not isinstance(table, dict):
            raise ValueError("an entry is a table")
        if unknown := sorted(set(table) - {*KEYS}):
            raise ValueError(f"unknown key {', '.join(unknown)}; there are {', '.join(KEYS)}")
        sources, targets = names_from(table["source"]), names_from(table["target"])
        collection, optional = table.get("collection", "params"), table.get("optional", False)
        if not isinstance(collection, str) or not isinstance(optional, bool):
            raise ValueError("collection is a name, optional is true or false")
        written_shapes = table.get("shapes")
        if "over" in table:
            count = len(sources)
            sources = _over(table["over"], sources)
            if isinstance(written_shapes, list) and len(written_shapes) == count:
                written_shapes = written_shapes * (len(sources) // count)
        shapes = None if written_shapes is None else _shapes(written_shapes, len(sources))
        entry = Entry(sources, targets, moves_from(table.get("moves", []), shapes), collection, shapes, optional)
        if shapes is not None:
            entry.target_shapes()
        return PatternRow((*sources, *targets), (len(sources), entry), _each(table.get("each", {})))
    except KeyError as error:
        raise UsageError(f"{where}: {error.args[0]} is missing") from error
    except (ValueError, WeightsMismatch) as error:
        raise UsageError(f"{where}: {error}") from error


def _over(table: Any, sources: tuple[str, ...]) -> tuple[str, ...]:
    """Repeat the sources for each number of an index."""
    counted = _each(table)
    if len(counted) != 1:
        raise ValueError(f"over is one letter of the sources' names and its count, as in {{ i = 12 }}; got {table!r}")
    ((letter, numbers),) = counted.items()
    if not all(f"{{{letter}}}" in source for source in sources):
        raise ValueError(f"over: {{{letter}}} is not in each of its sources, {', '.join(sources)}")
    return Gathered(sources, letter, numbers).all_names


def _each(table: Any) -> dict[str, Numbers]:
    """The letters of a pattern and their numbers."""
    if not isinstance(table, dict):
        raise ValueError(f"each is a letter of the names and its count, as in {{ i = 12 }}; got {table!r}")
    found = {}
    for letter, value in table.items():
        numbers = list(range(value)) if type(value) is int and 0 < value <= MOST else value
        if not isinstance(numbers, list) or not numbers or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(f"each: {letter} is a count, from 0 up to it, or a list of numbers; got {value!r}")
        found[letter] = tuple(numbers)
    return found


def _shapes(value: Any, count: int) -> Shapes:
    """Parse the sources' shapes, one each."""
    lists = isinstance(value, list) and all(isinstance(shape, list) for shape in value)
    if not lists or not all(type(size) is int and size >= 0 for shape in value for size in shape):
        raise ValueError(f"shapes are lists of sizes, one for each source, as in [[64, 3, 7, 7]]; got {value!r}")
    if len(value) != count:
        raise ValueError(f"{count} sources need {count} shapes, got {len(value)}")
    return tuple(map(tuple, value))
