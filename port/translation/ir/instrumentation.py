"""Who looks at the graph behind each pass: a printer for people, the verifier in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from port.translation.ir.graph import Graph
from port.translation.ir.lowered import LoweredGraph
from port.translation.ir.printer import print_graph, print_lowered
from port.translation.ir.verifier import verify_graph, verify_lowered

PASSES = (
    "export",
    "reroll-loops",
    "generalize-lengths",
    "output-sizes",
    "canonical-names",
    "stateful-loops",
    "lower",
)
"""The passes in the order in which they run; a pass that a model does not need is left out."""

Watcher = Callable[[str, bool, Graph | LoweredGraph], None]
"""Takes a pass's name, whether the graph is of training, and the graph that the pass gave."""

_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())

G = TypeVar("G", Graph, LoweredGraph)


@contextmanager
def watching_passes(watcher: Watcher) -> Iterator[None]:
    """Within it, ``watcher`` is called behind each pass of every translation.

    Args:
        watcher: is given each graph; it does not change it.
    """
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def after(name: str, graph: G, *, training: bool) -> G:
    """Show a graph to all watchers, and give it back.

    Args:
        name: of the pass that gave it, one of `PASSES`.
        graph: of one mode.
        training: the mode.
    """
    for watcher in _watchers.get():
        watcher(name, training, graph)
    return graph


def printing(passes: tuple[str, ...], write: Callable[[str], None]) -> Watcher:
    """A watcher that prints the graphs of some passes.

    Args:
        passes: their names, of `PASSES`.
        write: takes the text of each.
    """

    def watch(name: str, training: bool, graph: Graph | LoweredGraph) -> None:
        if name in passes:
            text = print_graph(graph) if isinstance(graph, Graph) else print_lowered(graph)
            write(f"after {name}, {'training' if training else 'evaluation'}\n{text}\n")

    return watch


def verifying(name: str, training: bool, graph: Graph | LoweredGraph) -> None:
    """A watcher that verifies every graph.

    Raises:
        BrokenGraph: names the pass, the mode and what is wrong.
    """
    try:
        verify_graph(graph) if isinstance(graph, Graph) else verify_lowered(graph)
    except AssertionError as error:
        raise type(error)(f"after {name}, {'training' if training else 'evaluation'}: {error}") from None
