"""Logical names of parameter axes, and the rules that map them to axes of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any, TypeVar

import flax.core.spmd
import jax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from port.errors import UnknownChoice, UsageError, WeightsMismatch, described

Layer = TypeVar("Layer", bound=nnx.Module)
BATCH = "batch"


class ByHead(tuple[str, ...]):
    """The axes of a mesh that divide an axis of attention heads, if each device gets whole heads. See `by_head`.

    Attributes:
        heads: how many there are.
        or_whole: whether each device holds all of them where the mesh does not divide their number.
    """

    heads: int
    or_whole: bool

    def __new__(cls, axes: str | tuple[str, ...], heads: int, or_whole: bool = False) -> ByHead:
        made = super().__new__(cls, _tuple(axes))
        made.heads, made.or_whole = heads, or_whole
        return made

    def __repr__(self) -> str:
        axes = self[0] if len(self) == 1 else tuple(self)
        return f"by_head({axes!r}, heads={self.heads}{', or_whole=True' if self.or_whole else ''})"

    def divides(self, mesh: Mesh) -> bool:
        """Whether the devices along these axes divide the heads; an axis that the mesh does not have counts as one."""
        return self.heads % prod(mesh.shape.get(axis, 1) for axis in self) == 0


def by_head(axes: str | tuple[str, ...], *, heads: int, or_whole: bool = False) -> ByHead:
    """Return a rule for an axis of attention heads: divided along ``axes`` of a mesh that divide the number of heads.

    A mesh that does not is refused: devices with a part of a head would have to send it about. With ``or_whole`` each
    device then holds all heads, and `port.nn.on_mesh` warns.

    Args:
        axes: one axis of the mesh, or several.
        heads: the number of heads.
        or_whole: for keys and values that serve several heads of queries each, and are fewer.
    """
    return ByHead(axes, heads, or_whole)


Rules = Mapping[str, str | tuple[str, ...] | None]
"""Logical name → the mesh axis that it is sharded along, several mesh axes, or None."""
MOST_DIVISORS = 12
"""The most possible mesh sizes that a message lists."""


def logical_axes(*names: str | None) -> dict[str, Any]:
    """Return variable metadata with logical axis names: ``kernel_metadata=logical_axes("embed", "mlp")``.

    It sets Flax's ``out_sharding``. A constructor still puts its arrays on one device, with or without a mesh; to build
    a model onto a mesh use `port.nn.on_mesh`.

    Args:
        names: one for each axis; None for an axis that is never sharded.
    """
    return {"out_sharding": names, "eager_sharding": False}


def divided(x: Any, *names: str | None) -> Any:
    """Constrain activations to the sharding of their axis names under `rules_on`; elsewhere return them unchanged.

    Of a tuple, as recurrent layers and attention return, only the first array is constrained.
    """
    if isinstance(x, tuple):
        return (divided(x[0], *names), *x[1:])
    rules = _current_rules()
    return x if rules is None else _lying(x, partition_spec(names, rules))


def gathered(layer: Layer) -> Layer | Callable[..., Any]:
    """All-gather a layer's parameters when it is called, along the mesh axes of the batch; needs `rules_on`.

    Outside of `rules_on` the layer is returned unchanged. Parameters are gathered for the call, and again for its
    gradient, which is scattered to the devices: as in FSDP. XLA mostly does so by itself where every device computes
    on its own samples. Left alone, it instead exchanges parts of the results when it looks up rows in a table that is
    sharded by columns, or multiplies by a matrix that tensor parallelism leaves whole.
    """
    rules = _current_rules()
    if rules is None:
        return layer
    called = partial(_called_whole, rules)
    is_traced = any(isinstance(array, jax.core.Tracer) for array in jax.tree.leaves(nnx.state(layer)))
    if not is_traced:
        return partial(called, layer)

    def call(*arguments: Any, **options: Any) -> Any:
        leaves, tree = jax.tree.flatten((arguments, options), is_leaf=lambda leaf: leaf is None)
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]

        # Flags and sizes are no arrays, and would be traced as if they were.
        def on_arrays(layer: Any, arrays: list[Any]) -> Any:
            filled = [*leaves]
            for place, array in zip(places, arrays, strict=True):
                filled[place] = array
            arguments, options = jax.tree.unflatten(tree, filled)
            return called(layer, *arguments, **options)

        return nnx.remat(on_arrays)(layer, [leaves[place] for place in places])

    return call


def _called_whole(rules: Mapping[str, tuple[str, ...]], layer: Any, *arguments: Any, **options: Any) -> Any:
    others = {name: tuple(axis for axis in axes if axis not in rules.get(BATCH, ())) for name, axes in rules.items()}
    graph, state = nnx.split(layer)
    made, placed = [], []
    for path, variable in nnx.to_flat_state(state):
        if names := names_of(variable):
            array = variable.get_value()
            # Inside a scan, a layer's variables still have the stack's names, the first of which is the layer axis.
            names = names[-array.ndim :]
            # In the backward pass the gradient is reduce-scattered.
            parts = _lying(array, partition_spec(names, rules))
            whole = _lying(parts, partition_spec(names, others))
            own, variable = variable, variable.replace(whole)
            placed.append((own, variable, whole))
        made.append((path, variable))
    outputs = nnx.merge(graph, nnx.from_flat_state(made))(*arguments, **options)
    for own, variable, whole in placed:
        if variable.get_value() is not whole:  # changed by the call, as when a table's rows are renormalised
            own.set_value(variable.get_value())
    return outputs


@contextmanager
def rules_on(mesh: Mesh, own: Rules, given: Rules | None = None) -> Iterator[None]:
    """Context manager to train or call a model on a mesh.

    ``with rules_on(mesh, RULES): step(model, batch)`` sets the mesh (`jax.set_mesh`) and the rules
    (`nnx.logical_axis_rules`) for what is traced.

    Args:
        mesh: the devices.
        own: the model's rules.
        given: rules that override these.

    Raises:
        UnknownChoice, UsageError: rules or a mesh with an unknown name; a mesh without devices.
    """
    check_mesh(mesh)
    with jax.set_mesh(mesh), nnx.logical_axis_rules(tuple(chosen_rules(own, given, mesh).items())):
        yield


def check_mesh(mesh: object) -> None:
    """Check that a mesh is one of devices.

    Raises:
        UsageError: it is something else, as the text ``"fsdp=8"``, a number, or a mesh without devices.
    """
    if not isinstance(mesh, Mesh):
        got = repr(mesh) if isinstance(mesh, str | int) else described(mesh)
        raise UsageError(
            f"mesh must be a jax.sharding.Mesh of devices, as jax.make_mesh(({jax.device_count()},), ('fsdp',)) makes "
            f"one of all that are here; got {got}"
        )


def names_of(variable: Any) -> tuple[str | None, ...]:
    """Return the logical names of a variable's axes; () if it has none."""
    return tuple(variable.get_metadata("out_sharding", ()) or ()) if isinstance(variable, nnx.Variable) else ()


def chosen_rules(
    own: Rules, overrides: Rules | None, mesh: Mesh, parameters: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> dict[str, tuple[str, ...]]:
    """Resolve the rules for a mesh: logical name → the axes of the mesh that it is sharded along.

    Args:
        own: the model's rules; they may name axes that the mesh lacks.
        overrides: the user's rules, which override these.
        mesh: the devices.
        parameters: logical name → the paths of the parameters with such an axis, for messages.

    Raises:
        UnknownChoice: a rule for a logical name that the model lacks, or with an axis that the mesh lacks.
        UsageError: an axis of the mesh that no rule names; a rule that divides within a head.
    """
    for name, axes in (overrides or {}).items():
        if name not in own:
            raise UnknownChoice("logical axis", name, own)
        for axis in _tuple(axes):
            if axis not in mesh.shape and axis not in _tuple(own[name]):
                raise UnknownChoice(f"axis of the mesh for {name}", axis, mesh.shape)
    rules = {name: _tuple(axes) for name, axes in {**own, **(overrides or {})}.items()}
    known = dict.fromkeys(axis for axes in rules.values() for axis in axes)
    if idle := [axis for axis in mesh.shape if axis not in known]:
        raise UsageError(
            f"no rule divides anything along {', '.join(idle)} of the mesh: rules name "
            f"{', '.join(known) or 'no axis'}. Name the mesh's axes so, or give a rule: "
            f"rules={{{next(iter(own), 'embed')!r}: {idle[0]!r}}}"
        )
    whole = heads_left_whole(own, overrides, mesh)
    for name, axes in own.items():
        heads = ByHead(rules[name], axes.heads) if isinstance(axes, ByHead) else None
        if heads is not None and name not in whole and not heads.divides(mesh):
            raise UsageError(
                f"{name}{_listed(parameters.get(name, ()))}: {_devices_along(heads, mesh)} do not divide "
                f"{heads.heads} heads. Choose a mesh whose axis does, or leave the heads whole on every device: "
                f"rules={{{name!r}: None}}"
            )
    return {
        name: () if name in whole else tuple(axis for axis in axes if axis in mesh.shape)
        for name, axes in rules.items()
    }


def heads_left_whole(
    own: Rules, overrides: Rules | None, mesh: Mesh, parameters: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> dict[str, str]:
    """Logical axes of heads that every device holds whole, as the mesh does not divide their number → a sentence.

    Args: those of `chosen_rules`.
    """
    return {
        name: f"{name} stays whole on every device{_listed(parameters.get(name, ()))}: {_devices_along(axes, mesh)} do "
        f"not divide {axes.heads} heads. rules={{{name!r}: None}} asks for this, without a warning"
        for name, axes in own.items()
        if isinstance(axes, ByHead) and axes.or_whole and name not in (overrides or {}) and not axes.divides(mesh)
    }


def _listed(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    return f" ({paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''})"


def _devices_along(axes: Iterable[str], mesh: Mesh) -> str:
    return " and ".join(f"{mesh.shape[axis]} devices along {axis}" for axis in axes if axis in mesh.shape)


def partition_spec(names: Iterable[str | None], rules: Mapping[str, tuple[str, ...]]) -> PartitionSpec:
    """Return the partition spec of an array's axis names. Each mesh axis shards the first axis that may use it."""
    used: set[str] = set()
    spec: list[Any] = []
    for name in names:
        axes = tuple(axis for axis in rules.get(name or "", ()) if axis not in used)
        used |= {*axes}
        spec.append(axes[0] if len(axes) == 1 else axes or None)
    return PartitionSpec(*spec)


def shardings_by_rules(
    variables: Mapping[str, Any], mesh: Mesh, rules: Mapping[str, tuple[str, ...]]
) -> dict[str, NamedSharding]:
    """Return the sharding of each variable from its axis names; variables without names are replicated.

    Raises:
        WeightsMismatch: lists every variable that the mesh does not divide evenly, with its axis and sizes that would.
    """
    found: dict[str, NamedSharding] = {}
    problems = []
    for path, variable in variables.items():
        names = names_of(variable)
        found[path] = NamedSharding(mesh, partition_spec(names, rules))
        problems += undivided(path, tuple(variable.shape), found[path], names)
    if problems:
        raise WeightsMismatch("the mesh does not divide the model's arrays evenly:\n  " + "\n  ".join(problems))
    return found


def undivided(
    path: str, shape: tuple[int, ...], sharding: NamedSharding, names: tuple[str | None, ...] = ()
) -> list[str]:
    """Describe each axis of a tensor that its sharding does not divide evenly, with sizes that would."""
    spec, mesh = sharding.spec, sharding.mesh
    said = []
    for place, axes in enumerate(spec):
        along = () if axes is PartitionSpec.UNCONSTRAINED else _tuple(axes)
        count, size = prod(mesh.shape[axis] for axis in along), shape[place]
        if size % count == 0:
            continue
        divisors = [each for each in range(2, size + 1) if size % each == 0]
        could = ", ".join(map(str, divisors[:MOST_DIVISORS])) + (", …" if len(divisors) > MOST_DIVISORS else "")
        others = [f"axis {other} ({length})" for other, length in enumerate(shape) if length and length % count == 0]
        name = f", {names[place]}," if names and names[place] else ""
        said.append(
            f"{path} {shape}: axis {place}{name} of {size} is not divided by {' × '.join(along)} of {count} "
            f"devices; it would be by {could or 'none'}"
            + (f", and {count} divide {' and '.join(others)}" if others else f", and no other axis is by {count}")
        )
    return said


def _lying(x: jax.Array, spec: PartitionSpec) -> jax.Array:
    # Outside a trace, the context's mesh must be passed with its devices.
    sharding = spec if isinstance(x, jax.core.Tracer) else NamedSharding(jax.sharding.get_mesh(), spec)
    return jax.lax.with_sharding_constraint(x, sharding)


def _current_rules() -> dict[str, tuple[str, ...]] | None:
    """Return the rules of `rules_on`; None without a mesh or rules."""
    rules = flax.core.spmd.get_logical_axis_rules()
    if not rules or jax.sharding.get_abstract_mesh().empty:
        return None
    return {name: _tuple(axes) for name, axes in rules}


def _tuple(axes: Any) -> tuple[str, ...]:
    return () if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
