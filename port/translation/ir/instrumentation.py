"""Watch the graph after each pass: print it (``--print-after``), or verify it (in tests)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from port.translation.ir.graph import Graph
from port.translation.ir.layout_decisions import Layouts
from port.translation.ir.lowered import LoweredGraph
from port.translation.ir.printer import print_graph, print_lowered
from port.translation.ir.verifier import verify_graph, verify_lowered

PASSES = (
    "export",
    "reroll-loops",
    "generalize-lengths",
    "remove-identities",
    "needless-expands",
    "output-sizes",
    "canonical-names",
    "stateful-loops",
    "layout",
    "lower",
)
"""The passes in the order in which they run; a pass that a model does not need is skipped."""

Watcher = Callable[[str, "bool | None", "Graph | LoweredGraph | Layouts"], None]
"""Called with a pass's name, whether the mode is training (None for both modes), and the pass's result."""

_MODES = {None: "both modes", True: "training", False: "evaluation"}

_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())

G = TypeVar("G", Graph, LoweredGraph, Layouts)


@contextmanager
def watching_passes(watcher: Watcher) -> Iterator[None]:
    """Context manager: call ``watcher`` after each pass of every translation.

    Args:
        watcher: receives each graph, and must not change it.
    """
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


@contextmanager
def unwatched() -> Iterator[None]:
    """Context manager: call no watcher, for auxiliary translations that the user did not request."""
    token = _watchers.set(())
    try:
        yield
    finally:
        _watchers.reset(token)


def after(name: str, graph: G, *, training: bool | None) -> G:
    """Show a graph to all watchers, and return it.

    Args:
        name: the pass that returned it, one of `PASSES`.
        graph: the graph.
        training: the mode; None for both.
    """
    for watcher in _watchers.get():
        watcher(name, training, graph)
    return graph


def printing(passes: tuple[str, ...], write: Callable[[str], None]) -> Watcher:
    """Return a watcher that prints the graphs after some passes.

    Args:
        passes: names from `PASSES`.
        write: called with the text of each graph.
    """

    def watch(name: str, training: bool | None, graph: Graph | LoweredGraph | Layouts) -> None:
        if name in passes:
            write(f"after {name}, {_MODES[training]}\n{_printed(graph)}\n")

    return watch


def _printed(graph: Graph | LoweredGraph | Layouts) -> str:
    match graph:
        case Graph():
            return print_graph(graph)
        case LoweredGraph():
            return print_lowered(graph)
    return str(graph)


def verifying(name: str, training: bool | None, graph: Graph | LoweredGraph | Layouts) -> None:
    """Verify every graph, as a watcher.

    Raises:
        BrokenGraph: a graph is inconsistent; the message names the pass, the mode and the fault.
    """
    try:
        match graph:
            case Graph():
                verify_graph(graph)
            case LoweredGraph():
                verify_lowered(graph)
    except AssertionError as error:
        raise type(error)(f"after {name}, {_MODES[training]}: {error}") from None
