"""The logical axes of a written module: its source is traced, and what its parameters' axes are followed through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from port.parity.sides.precision import cpu_precision
from port.translation.artifact.written_module import WrittenModule
from port.translation.axes.classes import AxisClasses
from port.translation.axes.following import FollowedArray, Following
from port.translation.axes.names import BATCH, EMBED, HEADS, QKV, names_of
from port.translation.codegen.axis_sites import calls_of, sites_of
from port.translation.codegen.marked_source import SITE, marked
from port.translation.frontend.example_inputs import Given
from port.translation.structure.logical_axes import CalledLayer, LogicalAxes, Names

Rules = Mapping[str, str | tuple[str, ...] | None]
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
    "channels": "fsdp",
    "classes": None,
    "position": None,
    "layers": None,
}
"""Logical name → the axes of a mesh that an axis of this name is divided along, where the mesh has them.

``data`` divides the batch; ``fsdp`` the batch, and what goes on from layer to layer; ``tensor`` what stands between two
projections: a layer's first one is then divided by what it gives, its second by what it takes, and what both give is
summed once."""


def logical_axes_of(written: WrittenModule, given: Given) -> LogicalAxes:
    """The names of a module's axes, by the constructions in its source. No array is made.

    Args:
        written: the module.
        given: an example call of the original's.
    """
    constructions = sites_of(written.source)
    found: list[dict[str, list[Names]]] = [{} for _ in constructions]
    with cpu_precision(written.needs_x64):  # as it is constructed by default, whatever the process has
        variables, named, called = _followed(replace(written, source=marked(written.source), package=None), given)
    unnamed = []
    for path, variable in variables.items():
        number = variable.get_metadata(SITE, None)
        if number is not None:
            name = path.rpartition(".")[2] if constructions[number].variables else ""
            found[number].setdefault(name, []).append(named[path])
        if len(variable.shape) > 1 and (number is None or not any(named[path])):
            unnamed.append(path)
    weights = tuple(
        {name: _agreed(made[name]) for name in site.variables or ("",) if name in made}
        for site, made in zip(constructions, found, strict=True)
    )
    sites = range(len(calls_of(written.source)))
    said = {name for site in weights for names in site.values() for name in names}
    along = {name for call in called.values() for name in call.gives}
    used = {BATCH, *said, *along, *(("layers",) if written.stacked else ())}
    # A device's part of a projection for all three is not that of its heads: they would be sent about.
    whole = {HEADS} if QKV in used else set()
    rules = {name: None if name in whole else along for name, along in RULES.items() if name in used}
    calls = tuple(called[site].by_rules(rules) if site in called else CalledLayer() for site in sites)
    return LogicalAxes(weights, calls, rules, tuple(unnamed))


@dataclass(frozen=True)
class _Call:
    """A call that gives projections, or rows of a table.

    Attributes:
        gives: how that lies, where it is what goes on, or what heads are cut from.
        by: the names of the weights' axes.
        is_lookup: whether it gives rows.
    """

    gives: Names
    by: frozenset[str | None]
    is_lookup: bool

    def by_rules(self, rules: Rules) -> CalledLayer:
        """What the source says of it.

        A projection is called with the whole of its weights where the axes of a mesh divide them that divide the batch
        too, and no others: elsewhere each device has a part of it to compute, and a compiler gathers no more.
        """
        batch = _axes_of(BATCH, rules)
        axes = {axis for name in self.by for axis in _axes_of(name, rules)}
        return CalledLayer(self.gives, is_gathered=self.is_lookup or (bool(axes) and axes <= batch))


def _axes_of(name: str | None, rules: Rules) -> set[str]:
    axes = rules.get(name or "")
    return set() if axes is None else {axes} if isinstance(axes, str) else {*axes}


def _call(found: Sequence[FollowedArray], said: Callable[[Sequence[int]], Names]) -> _Call:
    along = _agreed([said(each.axes) for each in found]) if len({len(each.axes) for each in found}) == 1 else ()
    goes_on = bool(along) and along[-1] in (EMBED, QKV) and BATCH in along
    by = frozenset(name for each in found for name in said(each.by))
    return _Call(along if goes_on else (), by, is_lookup=all(each.is_looked_up for each in found))


def _agreed(all_names: list[Names]) -> Names:
    """What several arrays that one construction makes are all called: where they differ, nothing."""
    return tuple(each[0] if len({*each}) == 1 else None for each in zip(*all_names, strict=True))


def _followed(written: WrittenModule, given: Given) -> tuple[dict[str, Any], dict[str, Names], dict[int, _Call]]:
    """A module's parameters by their paths; the names of their axes, a stack's without that of its layers; and those of
    what goes on from layer to layer, by the numbers of the calls that give it.
    """
    import jax
    from flax import nnx

    from port.nn import Frozen

    arguments = written.boundary.to_flax(*given)
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
    names = names_of(classes, weights, axes[count:], outputs)

    def said(own: Sequence[int]) -> Names:
        return tuple(names.get(classes.of(axis)) for axis in own)

    called = {number: _call(found, said) for number, found in following.sites.items()}
    variables = {".".join(map(str, path)): flat[path] for path in paths}
    return {path: variables[path] for path in weights}, {path: said(own) for path, own in weights.items()}, called
