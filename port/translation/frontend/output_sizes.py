"""Layers that accept an output size in their call: unpooling and transposed convolution."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from port.pairs import pairs_of_torch
from port.pairs.layers.conv_transpose import given_an_output_size
from port.translation.ir.graph import Graph, LayerCall, Loop, Step
from port.translation.ir.number import KnownNumber, Path


def with_spatial_output_sizes(root: Any, graph: Graph) -> Graph:
    """Reduce each ``output_size`` to its spatial part; torch accepts it with or without the batch and channel axes.

    Transposed convolutions that receive one are registered, so that their twin accepts a size: see
    `port.pairs.layers.conv_transpose.output_sizes_at_calls`.

    Args:
        root: the torch module.
        graph: the graph of one mode.
    """
    return replace(graph, steps=tuple(_with_sizes(step, root) for step in graph.steps))


def _with_sizes(step: Step, root: Any) -> Step:
    if isinstance(step, Loop):
        return replace(step, steps=tuple(_with_sizes(inner, root) for inner in step.steps))
    if not isinstance(step, LayerCall) or (sized := _sized(step)) is None:
        return step
    if type(step.module).__name__.startswith("ConvTranspose"):
        given_an_output_size(step.module)
        given_an_output_size(root.get_submodule(step.path))
    return sized


def _sized(step: LayerCall) -> LayerCall | None:
    """Return the call with its spatial size; None where it passes none."""
    name = type(step.module).__name__
    if type(step.module).__module__.partition(".")[0] != "torch" or not name.startswith(("ConvTranspose", "MaxUnpool")):
        return None
    names = list(inspect.signature(type(step.module).forward).parameters)[1:]
    arguments = {**dict(zip(names, step.arguments, strict=False)), **step.keywords}
    size = arguments.get("output_size")
    channels = pairs_of_torch(step.module)[0].channels
    if size is None or channels is None:
        return None
    spatial = tuple(size)[channels + 1 :]
    others = tuple(arguments[name] for name in names if name in arguments and name != "output_size")
    key = "output_size" if "output_size" in step.keywords else names.index("output_size")
    left_out = len(tuple(size)) - len(spatial)
    numbers: dict[Path, KnownNumber] = {
        ("output_size", path[1] - left_out): number
        for path, number in step.numbers.items()
        if path[0] == key and len(path) == 2 and isinstance(path[1], int) and path[1] >= left_out
    }
    return replace(step, arguments=others, keywords={"output_size": spatial}, numbers=numbers)
