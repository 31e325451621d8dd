"""Find the logical axes of a written module: trace its source, and follow the axes of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from port.parity.sides.precision import cpu_precision
from port.translation.artifact.written_module import WrittenModule
from port.translation.axes.classes import AxisClasses
from port.translation.axes.following import CallResult, FollowedArray, Following
from port.translation.axes.names import BATCH, EMBED, HEADS, HIDDEN, KV, QKV, head_counts, names_of
from port.translation.codegen.axis_sites import calls_of, sites_of
from port.translation.codegen.marked_source import SITE, marked
from port.translation.frontend.example_inputs import Given
from port.translation.structure.logical_axes import CalledLayer, LogicalAxes, Names

if TYPE_CHECKING:
    from port.nn.logical_axes import Rules

RULES: Rules = {
    "batch": ("data", "fsdp"),
    "length": None,
    "embed": "fsdp",
    "heads": "tensor",
    "kv": "tensor",
    "qkv": None,
    "head_dim": None,
    "mlp": "tensor",
    "vocab": "tensor",
    "gates": "fsdp",
    "hidden": "fsdp",
    "channels": "fsdp",
    "classes": None,
    "position": None,
    "layers": None,
}
"""Logical name → the mesh axes that divide an axis of this name, where the mesh has them.

``data`` divides the batch. ``fsdp`` divides the batch and the axes that pass from layer to layer. ``tensor`` divides
the axes between two projections: the first layer's outputs and the second layer's inputs, so that one sum after the
second is enough."""


def logical_axes_of(written: WrittenModule, example: Given) -> LogicalAxes:
    """Return the names of a module's axes, for each construction and call in its source. No array is made.

    Args:
        written: the module.
        example: an example call of the original.
    """
    constructions = sites_of(written.source)
    found: list[dict[str, list[Names]]] = [{} for _ in constructions]
    with cpu_precision(written.needs_x64):  # the default construction, whatever the process has set
        traced = _traced(replace(written, source=marked(written.source), package=None), example)
    unnamed = []
    for path, variable in traced.variables.items():
        number, name = variable.get_metadata(SITE, None) or (None, "")
        if number is not None:
            found[number].setdefault(name, []).append(traced.names[path])
        if len(variable.shape) > 1 and (number is None or not any(traced.names[path])):
            unnamed.append(path)
    weights = tuple(
        {name: _agreed(made[name]) for name in site.variables or tuple(made) if name in made}
        for site, made in zip(constructions, found, strict=True)
    )
    in_weights = {name for site in weights for names in site.values() for name in names}
    in_results = {name for call in traced.calls.values() for name in call.gives}
    rules = _rules({*in_weights, *in_results, *(("layers",) if written.stacked else ())}, traced.heads)
    calls = tuple(
        traced.calls[place].by_rules(rules) if place in traced.calls else CalledLayer()
        for place in range(len(calls_of(written.source)))
    )
    return LogicalAxes(weights, calls, rules, tuple(unnamed))


def _rules(names: set[str | None], heads: Mapping[str, int]) -> Rules:
    from port.nn import by_head

    used = {BATCH, *names}
    # One projection for queries, keys and values is cut across the heads: to divide it would send parts of heads about.
    whole = {HEADS} if QKV in used else set()
    rules: dict[str, Any] = {name: None if name in whole else along for name, along in RULES.items() if name in used}
    return {
        name: by_head(along, heads=heads[name], or_whole=name == KV) if along is not None and name in heads else along
        for name, along in rules.items()
    }


@dataclass(frozen=True)
class _Call:
    """A call of a layer that projects its input or looks up rows.

    Attributes:
        gives: the axes of the result, if it passes from layer to layer or is a projection to heads; or none.
        by: the names of the weights' axes.
        is_lookup: whether it looks up rows.
    """

    gives: Names
    by: frozenset[str | None]
    is_lookup: bool

    def by_rules(self, rules: Rules) -> CalledLayer:
        """Return how the source calls the layer.

        Its weights are gathered if only mesh axes that divide the batch divide them. With others each device has its
        own part to compute, and the compiler gathers no more than that. Keys and values may be the one or the other,
        as the mesh divides their heads or not.
        """
        batch = _axes_of(BATCH, rules)
        axes = {axis for name in self.by for axis in _axes_of(name, rules)}
        is_gathered = self.is_lookup or KV in self.by or (bool(axes) and axes <= batch)
        return CalledLayer(self.gives, is_gathered)


def _axes_of(name: str | None, rules: Rules) -> set[str]:
    axes = rules.get(name or "")
    return set() if axes is None else {axes} if isinstance(axes, str) else {*axes}


def _call(results: Sequence[CallResult], names: Callable[[Sequence[int]], Names]) -> _Call:
    shapes = [each.axes for each in results if each.axes is not None]
    is_one_rank = len(shapes) == len(results) and len({*map(len, shapes)}) == 1
    along = _agreed([names(axes) for axes in shapes]) if is_one_rank else ()
    is_stream = bool(along) and along[-1] in (EMBED, HIDDEN, KV, QKV) and BATCH in along
    by = frozenset(name for each in results for name in names(each.by))
    return _Call(along if is_stream else (), by, is_lookup=all(each.is_lookup for each in results))


def _agreed(all_names: list[Names]) -> Names:
    """Return the names of several arrays that one construction makes, None for an axis where they differ."""
    return tuple(each[0] if len({*each}) == 1 else None for each in zip(*all_names, strict=True))


@dataclass(frozen=True)
class _Traced:
    """The axes found in a traced module.

    Attributes:
        variables: path → a parameter.
        names: path → the names of its axes; of a stack, without that of the layers.
        calls: number of a call in the source → its layer's result.
        heads: ``heads`` or ``kv`` → how many there are.
    """

    variables: dict[str, Any]
    names: dict[str, Names]
    calls: dict[int, _Call]
    heads: dict[str, int]


def _traced(written: WrittenModule, example: Given) -> _Traced:
    import jax
    from flax import nnx

    from port.nn import Frozen

    arguments = written.boundary.to_flax(*example)
    with written.filled_later():
        model = nnx.eval_shape(lambda: written.constructor(rngs=nnx.Rngs(0)))
    model.eval()
    graph, state = nnx.split(model)
    flat = dict(nnx.to_flat_state(state))
    paths = list(flat)

    def call(values: Sequence[Any], arguments: Any) -> Any:
        filled = [(path, flat[path].replace(value)) for path, value in zip(paths, values, strict=True)]
        return written.boundary.call(nnx.merge(graph, nnx.from_flat_state(filled)), arguments)

    values = [variable.get_value() for variable in flat.values()]
    jaxpr = jax.make_jaxpr(call)(values, arguments).jaxpr
    classes = AxisClasses()
    is_weight = [isinstance(each, nnx.Param | Frozen) for each in flat.values()]
    axes = [classes.new(getattr(variable.aval, "shape", ())) for variable in jaxpr.invars]
    count = len(paths)
    arrays = [FollowedArray(own, is_weight=one) for own, one in zip(axes, is_weight, strict=False)]
    arrays += [FollowedArray(own, by_inputs=True) for own in axes[count:]]
    following = Following(classes)
    outputs = [each.axes for each in following.follow(jaxpr, arrays)]
    weights = {}
    for path, own, is_one in zip(paths, axes, is_weight, strict=False):
        if is_one:
            dotted = ".".join(map(str, path))
            is_stacked = any(dotted.startswith(f"{stack}.") for stack in written.stacked)
            weights[dotted] = own[1:] if is_stacked else own
    by_class = names_of(classes, weights, axes[count:], outputs)

    def names(own: Sequence[int]) -> Names:
        return tuple(by_class.get(classes.of(axis)) for axis in own)

    variables = {".".join(map(str, path)): flat[path] for path in paths}
    return _Traced(
        {path: variables[path] for path in weights},
        {path: names(own) for path, own in weights.items()},
        {number: _call(results, names) for number, results in following.calls.items() if results},
        head_counts(classes, weights, by_class),
    )
