"""How the package is built: one name for one concept, no circle of imports, and imports at the top of their modules."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import port

ROOT = Path(port.__file__).parents[1]
SHARED = {"Arguments"}
"""Names that several classes may have: a subcommand's own options are its module's `Arguments`, and no other module
imports them."""
HEAVY = {"torch", "torchvision", "jax", "flax", "optax", "orbax", "grain", "sklearn", "matplotlib", "plotly"} | {
    "jinja2",
    "pygments",
    "rich",
    "psutil",
}
"""Libraries that take long to import, or that a machine may lack."""


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package, parsed, by its dotted name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_text())
        for path in sorted((ROOT / "port").rglob("*.py"))
    }


def defined_twice(modules: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Public class name → the modules that define it, where there are several; also classes within functions."""
    homes = defaultdict(set)
    for name, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(name)
    return {name: sorted(found) for name, found in homes.items() if len(found) > 1 and name not in SHARED}


def imports(tree: ast.AST, known: Collection[str], *, within: bool = True) -> Iterator[str]:
    """What a module imports: modules of ours, and the libraries. Not what only its annotations name.

    Args:
        tree: the module, or a part of it.
        known: our modules.
        within: whether also within functions; otherwise only what importing the module imports.
    """
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING"), orelse=otherwise):
                pending += otherwise
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                submodules = {f"{module}.{alias.name}" for alias in names}
                yield from submodules & set(known)
                if not submodules <= set(known):
                    yield module
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not within:
                pass
            case _:
                pending += ast.iter_child_nodes(node)


def circles(modules: Mapping[str, ast.Module]) -> list[list[str]]:
    """Sets of modules each of which imports all others of its set, through others or at once."""
    graph = {name: (set(imports(tree, modules)) & modules.keys()) - {name} for name, tree in modules.items()}
    reached = {name: reachable(name, graph) for name in graph}
    found = {
        frozenset(other for other in reached[name] if name in reached[other]) for name in graph if name in reached[name]
    }
    return sorted(map(sorted, found))


def reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    """What is imported, through others or at once."""
    found: set[str] = set()
    pending = set(graph[start])
    while pending:
        found |= pending
        pending = {after for name in pending for after in graph[name]} - found
    return found


def heavy_imports(modules: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Module → the heavy libraries that importing it imports, through others and its packages or at once."""
    graph = {name: set(imports(tree, modules, within=False)) for name, tree in modules.items()}
    for name in graph:
        for imported in (name, *graph[name] & modules.keys()):
            graph[name] = graph[name] | packages_of(imported)
    libraries = set().union(*graph.values()) - graph.keys()
    whole = {**graph, **{library: set() for library in libraries}}
    return {name: {other.partition(".")[0] for other in reachable(name, whole)} & HEAVY for name in graph}


def packages_of(name: str) -> set[str]:
    """Those that are imported before a module is."""
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


def needless_within(modules: Mapping[str, ast.Module]) -> set[tuple[str, str]]:
    """Imports within functions that keep nothing heavy out: the module and what it imports of ours.

    One may stand within a function only if the imported module imports a heavy library that the module itself, as it
    is imported, does without. A module that imports itself is another matter: its code runs in another's globals.
    """
    heavy = heavy_imports(modules)
    return {
        (name, imported)
        for name, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for imported in set(imports(node, modules)) & modules.keys() - {name}
        if heavy[imported] <= heavy[name]
    }


def test_a_public_class_name_stands_once() -> None:
    assert defined_twice(trees()) == {}


def test_there_is_no_circle_of_imports() -> None:
    assert circles(trees()) == []


def test_an_import_within_a_function_keeps_something_heavy_out() -> None:
    assert needless_within(trees()) == set()


def parsed(sources: Mapping[str, str]) -> dict[str, ast.Module]:
    return {name: ast.parse(source) for name, source in sources.items()}


def test_a_second_class_of_a_name_is_found() -> None:
    sources = {
        "port.a": "class Node: ...\nclass _Own: ...\nclass Arguments: ...",
        "port.b": "def f():\n    class Node: ...\nclass _Own: ...\nclass Arguments: ...",
    }
    assert defined_twice(parsed(sources)) == {"Node": ["port.a", "port.b"]}


@pytest.mark.parametrize(
    ("of_a", "of_b", "found"),
    [
        ("from port.b import f", "import port.c", []),
        ("from port.b import f", "from port.c import g\nfrom port.a import h", [["port.a", "port.b"]]),
        ("from port import b", "from port.c import g", []),
        ("from port import b", "def g():\n    import port.a", [["port.a", "port.b"]]),
        ("from port import b", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from port.a import h", []),
        ("from port.b import f", "def f():\n    from port.a import f", [["port.a", "port.b"]]),
    ],
    ids=["none", "at the top", "a submodule", "within a function", "for annotations", "both ways"],
)
def test_a_circle_is_found(of_a: str, of_b: str, found: list[list[str]]) -> None:
    assert circles(parsed({"port": "", "port.a": of_a, "port.b": of_b, "port.c": ""})) == found


@pytest.mark.parametrize(
    ("of_a", "needless"),
    [
        ("def f():\n    from port.light import g", True),
        ("def f():\n    from port.heavy import g", False),
        ("def f():\n    from port.through import g", False),
        ("def f():\n    from port.late import g", True),
        ("import torch\ndef f():\n    from port.heavy import g", True),
        ("from port.through import h\ndef f():\n    from port.heavy import g", True),
        ("import jax\ndef f():\n    from port.heavy import g", False),
    ],
    ids=["light", "heavy", "heavy through another", "light until called", "heavy too", "heavy too, through", "other"],
)
def test_a_needless_import_within_a_function_is_found(of_a: str, needless: bool) -> None:
    others = {
        "port": "",
        "port.light": "import math",
        "port.heavy": "import torch.nn",
        "port.through": "from port import heavy",
        "port.late": "def g():\n    import torch",
    }
    assert {name for name, _ in needless_within(parsed({**others, "port.a": of_a}))} == (
        {"port.a"} if needless else set()
    )
