"""Chooses each tensor's sharding: from the user, or from the model's own variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from flax import nnx
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from port.errors import UsageError, WeightsMismatch, described
from port.nn.logical_axes import undivided

Shape = tuple[int, ...]
Spec = PartitionSpec | NamedSharding | None
Rule = Callable[[str, Shape], Spec]
Shardings = NamedSharding | PartitionSpec | Rule | Mapping[str, Spec | Rule] | None
"""One for all tensors; a function of a tensor's path and shape; a table of regular expressions, of which the first
that matches a whole path has its sharding, or the function for it; None: what the model's own variables have."""


def shardings_of(
    variables: Mapping[str, Any], mesh: Mesh | AbstractMesh | None = None, sharding: Shardings = None
) -> dict[str, NamedSharding]:
    """Return a sharding for each variable.

    Args:
        variables: path → an nnx variable or an array, or a placeholder for one.
        mesh: the devices, or their number along each axis; not needed if ``sharding`` is a `NamedSharding`, or the
            variables have some.
        sharding: see `Shardings`.

    Raises:
        WeightsMismatch: tensors that cannot be sharded so on the mesh, paths that no pattern matches and patterns that
            match no path: all of them in one message.
        UsageError: no mesh; an invalid sharding.
    """
    spec_of = _chooser(sharding)
    found: dict[str, NamedSharding] = {}
    problems: list[str] = []
    for path, variable in variables.items():
        shape = tuple(variable.shape)
        try:
            named = _named(path, spec_of(path, shape) if spec_of is not None else _own(variable), mesh)
            _check(path, shape, named)
            found[path] = named
        except WeightsMismatch as error:
            problems.append(str(error))
    if isinstance(sharding, Mapping):
        idle = [pattern for pattern in sharding if not any(re.fullmatch(pattern, path) for path in variables)]
        problems += [f"the pattern {pattern!r} matches no tensor" for pattern in idle]
    if problems:
        raise WeightsMismatch("the model cannot be sharded so on the mesh:\n  " + "\n  ".join(problems))
    return found


def _chooser(sharding: Shardings) -> Rule | None:
    if sharding is None:
        return None
    if isinstance(sharding, NamedSharding | PartitionSpec):  # a PartitionSpec can be called, as a tuple can be iterated
        return lambda path, shape: sharding
    if isinstance(sharding, Mapping):
        try:
            patterns = [(re.compile(pattern), spec) for pattern, spec in sharding.items()]
        except (re.error, TypeError) as error:
            raise UsageError(f"sharding: {error}; a table's names are regular expressions") from error
        return lambda path, shape: _first(patterns, path, shape)
    if callable(sharding):
        return sharding
    raise UsageError(
        "sharding is a NamedSharding or a PartitionSpec for all tensors, a function of path and shape to one, "
        f"or a table of regular expressions with one each; got {described(sharding)}"
    )


def _first(patterns: list[tuple[re.Pattern[str], Any]], path: str, shape: Shape) -> Spec:
    for pattern, spec in patterns:
        if pattern.fullmatch(path):
            is_rule = callable(spec) and not isinstance(spec, NamedSharding | PartitionSpec)
            return spec(path, shape) if is_rule else spec  # type: ignore[no-any-return]
    raise WeightsMismatch(f"{path} matches no pattern; use '.*' as the last one for all others")


def _own(variable: Any) -> Spec:
    """The variable's own sharding, or the axis names in its metadata (`out_sharding`)."""
    value = variable.get_value() if isinstance(variable, nnx.Variable) else variable
    held = getattr(value, "sharding", None)
    if isinstance(held, NamedSharding):
        return held
    return nnx.spmd.get_var_pspec(variable) if isinstance(variable, nnx.Variable) else PartitionSpec()


def _named(path: str, spec: Any, mesh: Mesh | AbstractMesh | None) -> NamedSharding:
    if spec is None or (isinstance(spec, tuple) and not isinstance(spec, PartitionSpec)):
        spec = PartitionSpec(*(spec or ()))
    if isinstance(spec, NamedSharding):
        if mesh is None and isinstance(spec.mesh, Mesh):
            return spec
        spec = spec.spec
    if not isinstance(spec, PartitionSpec):
        raise UsageError(f"{path}: the sharding must be a PartitionSpec or a NamedSharding, got {described(spec)}")
    if mesh is None:
        raise UsageError("pass the mesh too: mesh=jax.make_mesh((8,), ('fsdp',)), or a NamedSharding, which has one")
    if unknown := [name for names in spec for name in _names(names) if name not in mesh.shape]:
        raise WeightsMismatch(f"{path}: {spec} names {', '.join(unknown)}, but the mesh has {', '.join(mesh.shape)}")
    used = [name for names in spec for name in _names(names)]
    if twice := sorted({name for name in used if used.count(name) > 1}):
        raise WeightsMismatch(f"{path}: {spec} has {', '.join(twice)} twice; an axis of the mesh divides one axis")
    return NamedSharding(mesh, spec)


def _check(path: str, shape: Shape, sharding: NamedSharding) -> None:
    """Check that the mesh divides a tensor; raises WeightsMismatch with the axis that it does not, and what would."""
    spec = sharding.spec
    if len(spec) > len(shape):
        raise WeightsMismatch(f"{path} {shape}: {spec} is for {len(spec)} axes, but the tensor has {len(shape)}")
    if problems := undivided(path, shape, sharding):
        raise WeightsMismatch(problems[0])


def _names(names: Any) -> tuple[str, ...]:
    """The mesh's axes along one axis of a tensor: none, one or several."""
    if names is None or names is PartitionSpec.UNCONSTRAINED:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)
