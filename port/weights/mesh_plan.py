"""Which part of each tensor a device of a mesh gets, for a file that is written for it; and how Orbax stores that."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from port.weights.mesh_cut import Longest, MeshCut, Shape, chunk_of

if TYPE_CHECKING:
    from jax.sharding import NamedSharding

SHOWN = 6
"""How many tensors a remark names."""
SHARDING_FILE = "_sharding"
"""Orbax's file with the sharding of each array. A reader with its own mesh ignores it; one without
(``StandardCheckpointer().restore(folder)``) places the arrays by it, and ``metadata()`` shows it."""


@dataclass(frozen=True)
class MeshPlan:
    """A mesh of devices that need not exist, and how tensors are sharded on it.

    Attributes:
        shardings: of each tensor, by the name that it is written under.
        whole: tensors of several axes that their rule replicates, with their shapes; those of one axis are small
        anyway. axis: the mesh axis that these should be sharded by.
    """

    shardings: Mapping[str, NamedSharding]
    whole: Mapping[str, Shape]
    axis: str = ""

    @classmethod
    def of(cls, cut: MeshCut, shapes: Mapping[str, Shape], paths: Mapping[str, str]) -> MeshPlan:
        """Make the plan.

        Args:
            cut: the mesh, and its rules.
            shapes: name → shape of the tensors that are written.
            paths: name → its path in the rules, if that is different: the module's path.

        Raises:
            WeightsMismatch: tensors that cannot be sharded so; paths that no pattern matches, patterns without a match.
            UsageError: an invalid sharding.
        """
        from jax.sharding import AbstractMesh, AxisType

        from port.weights.shardings import shardings_of

        sizes, names = tuple(cut.axes.values()), tuple(cut.axes)
        mesh = AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * len(names))
        called = {paths.get(name, name): name for name in shapes}
        known = {path: SimpleNamespace(shape=shapes[name]) for path, name in called.items()}
        found = shardings_of(known, mesh, cut.rules)
        whole: dict[str, Shape] = {}
        axis = ""
        for path, name in called.items():
            rule = _longest(cut, path)
            if rule is not None and len(shapes[name]) > 1 and not any(found[path].spec):
                whole[name], axis = shapes[name], f"{rule.axis} of {rule.devices} devices"
        return cls({called[path]: sharding for path, sharding in found.items()}, whole, axis)

    def remarks(self) -> list[str]:
        """Remarks for the user."""
        if not self.whole:
            return []
        kept = [f"{name} {shape}" for name, shape in self.whole.items()]
        more = f" and {len(kept) - SHOWN} more" if len(kept) > SHOWN else ""
        return [f"no axis of these is divided by {self.axis}, so each reads the whole: {', '.join(kept[:SHOWN])}{more}"]

    def shard(self, name: str, shape: Shape) -> Shape:
        """The shape of one device's part of a tensor."""
        return tuple(self.shardings[name].shard_shape(shape))

    def chunk(self, name: str, shape: Shape, itemsize: int, limit: int) -> Shape:
        """The shape of a chunk of about ``limit`` bytes, which has elements of only one device."""
        shard = self.shard(name, shape)
        return chunk_of(shard, itemsize, limit, is_cut=shard[:1] != shape[:1])

    def write(self, folder: Path) -> None:
        """Write Orbax's file of shardings: by the names' base64, each as JSON text.

        It names no devices: a reader that uses it takes all of its own, in order.
        """
        import numpy as np
        import orbax.checkpoint as ocp

        said = {}
        for name, sharding in self.shardings.items():
            mesh = sharding.mesh
            metadata = ocp.metadata.NamedShardingMetadata(
                shape=np.array(list(mesh.shape.values())),
                axis_names=list(mesh.axis_names),
                partition_spec=tuple(sharding.spec),
                axis_types=tuple(mesh.axis_types),
            )
            said[urlsafe_b64encode(name.encode()).decode()] = metadata.to_serialized_string()
        (folder / SHARDING_FILE).write_text(json.dumps(said))


def _longest(cut: MeshCut, path: str) -> Longest | None:
    """The rule for a tensor, if its shape decides."""
    rules = cut.rules
    if isinstance(rules, Longest):
        return rules
    if not isinstance(rules, Mapping):
        return None
    rule = next((rule for pattern, rule in rules.items() if re.fullmatch(pattern, path)), None)
    return rule if isinstance(rule, Longest) else None
