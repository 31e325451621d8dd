"""Parameters by their dotted paths, as in mappings and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from port.errors import UsageError


def path_of(keys: Sequence[Any]) -> str:
    """Return a leaf's path in a tree of parameters: ``layers.0.kernel``.

    An `nnx.State` holds its arrays under ``.value``, which is not part of the name.
    """
    parts = [str(_name(key)) for key in keys]
    if len(parts) > 1 and parts[-1] == "value" and isinstance(keys[-1], jax.tree_util.GetAttrKey):
        parts.pop()
    return ".".join(parts)


def _name(key: Any) -> Any:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return getattr(key, attribute)
    return key


def labels_by_path(labels: Mapping[str, Sequence[str]]) -> Callable[[Any], Any]:
    """Make the labels for `optax.partition`: a function from the parameters to their labels.

    Args:
        labels: label → the paths of its parameters; a label with ``...`` takes all that no other one names.

    Raises:
        UsageError: a path is under two labels; when the function is called, a parameter has no label, or a path is
            not a parameter.
    """
    label_of: dict[str, str] = {}
    others = None
    for label, paths in labels.items():
        if paths is ...:
            others = label
            continue
        for path in paths:
            if path in label_of:
                raise UsageError(f"{path} is under two labels, {label_of[path]!r} and {label!r}")
            label_of[path] = label

    def of_leaf(keys: Sequence[Any], leaf: Any) -> str:
        path = path_of(keys)
        if path not in label_of and others is None:
            raise UsageError(f"the parameter {path} has no label; there are {', '.join(sorted(label_of))}")
        return label_of.get(path, others or "")

    def labelled(params: Any) -> Any:
        return jax.tree_util.tree_map_with_path(of_leaf, params)

    return labelled
