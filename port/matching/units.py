"""Units, which are what is matched: tensors of one side that belong together.

A unit is a layer, a cell of a recurrent layer, or one parameter that a user's module holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from port.errors import NoPair
from port.mapping import Guide, Layer
from port.mapping.names import joined
from port.moves import Shape
from port.pairs import LayerPair, ParamPair

ROLES = {
    "weight": "weight",
    "kernel": "weight",
    "scale": "weight",
    "embedding": "weight",
    "gamma": "weight",
    "in_proj_weight": "weight",
    "bias": "bias",
    "beta": "bias",
    "in_proj_bias": "bias",
    "running_mean": "mean",
    "mean": "mean",
    "running_var": "var",
    "var": "var",
}
"""A tensor's role in its layer, by the names that the two sides' layers use."""

_FAMILIES = {"Linear": "linear", "Embedding": "embedding", "EmbeddingBag": "embedding"}


@dataclass(frozen=True)
class Unit:
    """Tensors of one side that belong together.

    Attributes:
        path: the module that holds them.
        kind: its class.
        names: the tensors, by the layer's names for them: ``weight`` → ``layers.0.fc.weight``.
        shapes: their shapes, by the same names; of one layer, if several are stacked.
        family: ``linear``, ``conv``, ``norm``, ``embedding``, another layer's class, or ``own``.
        pairs: the pairs that cover it.
        params: maps a pair to its parameters for it.
        aside: those of its names that Flax may have no place for (a counter of batches).
        parts: the smaller units that it is made of, if the other side has it in parts.
        copies: the names of the other layers that are stacked with this one on the other side.
        stack: how many layers are stacked in it, and along which axis.
        heads: the number of heads of the attention around it, if known.
        seen: the modules whose calls show its input and its output: their paths.
        is_constant: whether it is a buffer but not a statistic, as a table of sines.
    """

    path: str
    kind: str
    names: dict[str, str]
    shapes: dict[str, Shape]
    family: str
    pairs: tuple[LayerPair, ...] = ()
    params: Callable[[LayerPair], tuple[ParamPair, ...]] = field(default=lambda pair: (), compare=False)
    aside: tuple[str, ...] = ()
    parts: tuple[Unit, ...] = ()
    copies: tuple[dict[str, str], ...] = ()
    stack: tuple[int, int] | None = None
    heads: int | None = None
    seen: tuple[str | None, str | None] = (None, None)
    is_constant: bool = False

    def __hash__(self) -> int:
        return hash(self.label)

    @property
    def label(self) -> str:
        """The unit's unique name on its side: its first tensor."""
        return next(iter(self.names.values()))

    @property
    def tensors(self) -> tuple[str, ...]:
        """All its tensors, including those of the layers stacked with it."""
        return tuple(name for names in (self.names, *self.copies) for name in names.values())

    @property
    def role_names(self) -> dict[str, str] | None:
        """Each tensor's role → the layer's name for it; None unless all roles are known."""
        names = [name for name in self.names if name not in self.aside]
        if len(names) == 1 and self.family == "own":
            return {"weight": names[0]}
        roles = {ROLES.get(name, ""): name for name in names}
        return roles if "" not in roles and len(roles) == len(names) else None

    @property
    def place(self) -> str:
        """Its name for users: its module, or its only tensor if the module is a user's own."""
        return self.path if self.path and self.family != "own" else _common(tuple(self.names.values()))


def _common(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else names[0].rpartition(".")[0]


def units_of(guide: Guide, *, tied: bool = False) -> list[Unit]:
    """List all units of one side, in its own order; outer ones with their parts.

    Args:
        guide: a module's guide, with layers.
        tied: list units under the later names of tied tensors, instead of all under first names.
    """
    free = {name: None for name in guide.leaves if (name in guide.tied) == tied}
    units = []
    for layer in guide.layers:
        unit = _layer(guide, layer, free)
        if unit is not None:
            units.append(unit)
    units += _own(guide, free)
    order = {name: place for place, name in enumerate(guide.leaves)}
    paths = {layer.path: place for place, layer in enumerate(guide.layers)}
    return sorted(units, key=lambda unit: (paths.get(unit.path, len(paths)), order[unit.label]))


def _layer(guide: Guide, layer: Layer, free: dict[str, None]) -> Unit | None:
    """The unit of a layer that pairs cover; takes its tensors from those that are free."""
    names: dict[str, str] = {}
    for pair in layer.pairs:
        for param in _params(layer, pair):
            here = param.torch_names if guide.side == "torch" else param.flax_names
            names |= {name: joined(layer.path, name) for name in here if joined(layer.path, name) in free}
    if not names:
        return None
    # In the order of the model's own tensors.
    names = {name: full for full in free for name, other in names.items() if other == full}
    only = {name for pair in layer.pairs for name in pair.torch_only} if guide.side == "torch" else set()
    for name in only:
        if (full := joined(layer.path, name)) in free:
            names[name] = full
    for full in names.values():
        free.pop(full, None)
    family = _family(layer)
    composed = any("." in name for name in names)
    made = Unit(
        layer.path,
        layer.kind,
        names,
        {name: guide.leaves[full].shape for name, full in names.items()},
        family,
        layer.pairs,
        layer.params,
        tuple(name for name in names if name in only),
        seen=(layer.path, layer.path),
    )
    if not composed:
        return made
    beneath = dict.fromkeys(names.values())
    parts = [
        part
        for other in guide.layers
        if other.path.startswith(f"{layer.path}." if layer.path else "") and other.path != layer.path
        if (part := _layer(guide, other, beneath)) is not None
    ]
    parts += _own(guide, beneath)
    return replace(made, parts=tuple(parts))


def _own(guide: Guide, free: dict[str, None]) -> list[Unit]:
    """The units of modules that no pair covers: together if each parameter's role is known, else one by one.

    Buffers that are not statistics, such as constants, have no role, and are units of their own.
    """
    held: dict[str, dict[str, str]] = {}
    for full in free:
        owner = guide.owner(full)
        path = owner.path if owner is not None else ""
        held.setdefault(path, {})[full[len(path) + 1 :] if path else full] = full
    units = []
    for path, names in held.items():
        layer = guide.by_path.get(path)
        constants = {
            name for name, full in names.items() if name not in ROLES and guide.leaves[full].collection != "params"
        }
        roles = [ROLES.get(name) for name in names if name not in constants]
        together = bool(path and roles) and None not in roles and len(set(roles)) == len(roles)
        groups = [{name: full} for name, full in names.items() if not together or name in constants]
        if together:
            groups.insert(0, {name: full for name, full in names.items() if name not in constants})
        for group in groups:
            is_whole = together and constants.isdisjoint(group)
            units.append(
                Unit(
                    path,
                    layer.kind if layer is not None else "",
                    group,
                    {name: guide.leaves[full].shape for name, full in group.items()},
                    "own",
                    seen=(path or None, path or None) if is_whole else (None, None),
                    is_constant=constants.issuperset(group),
                )
            )
    return units


def _family(layer: Layer) -> str:
    for pair in layer.pairs:
        name = str(pair.torch if isinstance(pair.torch, str) else pair.torch.__name__).rpartition(".")[2]
        if name in _FAMILIES:
            return _FAMILIES[name]
        if "ConvTranspose" in name:
            return "transposed convolution"
        if name.startswith("Conv"):
            return "conv"
        if "Norm" in name:
            return "norm"
        return name
    return "own"


def _params(layer: Layer, pair: LayerPair) -> tuple[ParamPair, ...]:
    try:
        return layer.params(pair)
    except NoPair:
        return ()
