"""Layers with a computed weight ⇄ port.nn.WeightNorm, SpectralNorm and Orthogonal around the layer's twin.

torch has two forms: ``torch.nn.utils.parametrizations``, with the original under ``parametrizations.weight``, and the
older hooks ``torch.nn.utils.weight_norm`` and ``spectral_norm``, with ``weight_v`` or ``weight_orig``. Both are
supported; the pair of the wrapped layer defines how its weight moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from port.moves import Fold, Move, Permute
from port.pairs.layers.computed_weight import computed_weight
from port.pairs.layers.derived import Find
from port.pairs.pair import LayerPair, Names, ParamPair, is_class

Axes = tuple[int, ...]
"""Axis i of the Flax parameter is axis ``axes[i]`` of torch's."""

Options = dict[str, Any]


@dataclass(frozen=True)
class Parametrization:
    """One of torch's ways to compute a weight; derives a layer's pair from the pair of the layer without it.

    Attributes:
        torch: the class that computes the weight.
        flax: the wrapper around the layer's twin.
        original: torch's key of the original; ``{name}`` is the weight's name.
        beside: other inputs of the computation: the wrapper's name and torch's key of each.
        options: the wrapper's options, from torch's object and the weight's axes.
        fits_flax: whether a Flax wrapper is this one, if its class has several pairs.
    """

    torch: str
    flax: str
    original: str
    beside: tuple[tuple[str, str], ...]
    options: Callable[[Any, Axes], Options]
    fits_flax: Callable[[Any], bool] = lambda module: True

    def of_torch(self, module: Any, find: Find) -> LayerPair | None:
        """Return the pair of a torch layer with such a weight; None for other layers."""
        found = computed_weight(module, self.torch, self.original)
        pairs = find(found.plain) if found is not None else []
        if found is None or not pairs:
            return None
        weight = getattr(found.plain, found.name)
        params = pairs[0].params_of_torch(found.plain)
        place = _place(params, "torch", found.name, weight.ndim)
        if place is None:
            return replace(pairs[0], params=(), parametrized=True, unfit=_moves_otherwise)
        axes = place[1]
        return self._pair(pairs[0], params, place, self.options(found.by, axes), tuple(weight.shape), find)

    def of_flax(self, module: Any, find: Find) -> LayerPair | None:
        """Return the pair of such a wrapper; None for other modules."""
        if not is_class(type(module), self.flax) or not self.fits_flax(module):
            return None
        for pair in find(module.layer):
            params = pair.params_of_flax(module.layer)
            place = _place(params, "flax", module.name, module.original.ndim)
            if place is not None:
                axes = place[1]
                shape = tuple(module.original.shape[axes.index(axis)] for axis in range(len(axes)))
                return self._pair(pair, params, place, vars(module), shape, find)
        return None

    def _pair(
        self,
        pair: LayerPair,
        params: tuple[ParamPair, ...],
        place: tuple[ParamPair, Axes],
        options: Options,
        shape: tuple[int, ...],
        find: Find,
    ) -> LayerPair:
        weight, axes = place
        name = str(weight.torch)
        beside = (
            ParamPair(
                key.format(name=name),
                flax,
                _moves_beside(flax, options, shape, axes),
                "params" if flax == "scale" else "batch_stats",
            )
            for flax, key in self.beside
        )
        inside = (
            replace(
                param,
                torch=self.original.format(name=name) if param is weight else param.torch,
                flax=_inside(param.flax),
            )
            for param in params
        )
        return replace(
            pair,
            flax=self.flax,
            params=(*beside, *inside),
            facts_of_torch=LayerPair.facts_of_torch,
            facts_of_flax=LayerPair.facts_of_flax,
            arguments=_Arguments(self, find),
            initializers=LayerPair.initializers,
            parametrized=True,
            notes=("W22", *pair.notes),
        )


@dataclass(frozen=True)
class _Arguments:
    """A wrapper's constructor arguments, with torch's layer as the wrapped one."""

    parametrization: Parametrization
    find: Find = field(compare=False)  # the pair is the same from both sides

    def __call__(self, module: Any) -> Options:
        found = computed_weight(module, self.parametrization.torch, self.parametrization.original)
        assert found is not None
        params = self.find(found.plain)[0].params_of_torch(found.plain)
        place = _place(params, "torch", found.name, getattr(found.plain, found.name).ndim)
        assert place is not None
        weight, axes = place
        return {"layer": found.plain, "name": weight.flax, **self.parametrization.options(found.by, axes)}


def _place(params: tuple[ParamPair, ...], side: str, name: str, axes: int) -> tuple[ParamPair, Axes] | None:
    """Return the weight's pair and its permutation; None unless it is one parameter with reordered axes."""
    for param in params:
        if getattr(param, side) == name and isinstance(param.torch, str) and isinstance(param.flax, str):
            if not param.moves:
                return param, tuple(range(axes))
            if len(param.moves) == 1 and isinstance(param.moves[0], Permute):
                return param, param.moves[0].axes
    return None


def _inside(names: Names) -> Names:
    return f"layer.{names}" if isinstance(names, str) else tuple(f"layer.{name}" for name in names)


def _moves_beside(flax: str, options: Options, shape: tuple[int, ...], axes: Axes) -> tuple[Move, ...]:
    """Return the moves of the other inputs of the computation; ``shape`` is the weight's in torch."""
    if axes == tuple(range(len(axes))):
        return ()
    if flax == "scale" and options["axis"] is not None:
        return (Permute(axes),)  # torch keeps reduced axes with length 1
    if flax == "base":
        matrix = (len(axes) - 2, len(axes) - 1)
        return (Permute((*(axis for axis in axes if axis not in matrix), *matrix)),)  # a batch of square matrices
    if flax == "v":
        rows = axes[options["axis"]]
        columns = [axis for axis in range(len(axes)) if axis != rows]
        order = tuple(columns.index(axis) for axis in axes if axis != rows)
        return (Fold(0, tuple(shape[axis] for axis in columns), order),)
    return ()


def _moves_otherwise(module: Any) -> str:
    return (
        "its weight is computed (a parametrization), and the twin has no single parameter for it; bake it first, with "
        "torch.nn.utils.parametrize.remove_parametrizations(layer, name) or remove_weight_norm, remove_spectral_norm"
    )


def _from_the_end(dim: int, axes: Axes) -> int:
    """Convert torch's axis of a weight to the twin's, counted from the end."""
    return axes.index(dim % len(axes)) - len(axes)


def _weight_norm(by: Any, axes: Axes) -> Options:
    # In torch −1 is one norm over everything.
    return {"axis": None if by.dim == -1 else _from_the_end(by.dim, axes)}


def _spectral_norm(by: Any, axes: Axes) -> Options:
    return {"axis": _from_the_end(by.dim, axes), "n_power_iterations": by.n_power_iterations, "eps": by.eps}


def _older_spectral_norm(by: Any, axes: Axes) -> Options:
    return {**_spectral_norm(by, axes), "v_first": True}


def _orthogonal(by: Any, axes: Axes) -> Options:
    return {
        "orthogonal_map": by.orthogonal_map.name,
        "use_trivialization": hasattr(by, "base"),
        "axes": (_from_the_end(-2, axes), _from_the_end(-1, axes)),
    }


DERIVED = (
    Parametrization(
        torch="torch.nn.utils.parametrizations._WeightNorm",
        flax="port.nn.WeightNorm",
        original="parametrizations.{name}.original1",
        beside=(("scale", "parametrizations.{name}.original0"),),
        options=_weight_norm,
    ),
    Parametrization(
        torch="torch.nn.utils.weight_norm.WeightNorm",
        flax="port.nn.WeightNorm",
        original="{name}_v",
        beside=(("scale", "{name}_g"),),
        options=_weight_norm,
    ),
    Parametrization(
        torch="torch.nn.utils.parametrizations._SpectralNorm",
        flax="port.nn.SpectralNorm",
        original="parametrizations.{name}.original",
        beside=(("u", "parametrizations.{name}.0._u"), ("v", "parametrizations.{name}.0._v")),
        options=_spectral_norm,
        fits_flax=lambda module: not module.v_first,
    ),
    Parametrization(
        torch="torch.nn.utils.spectral_norm.SpectralNorm",
        flax="port.nn.SpectralNorm",
        original="{name}_orig",
        beside=(("u", "{name}_u"), ("v", "{name}_v")),
        options=_older_spectral_norm,
        fits_flax=lambda module: module.v_first,
    ),
    Parametrization(
        torch="torch.nn.utils.parametrizations._Orthogonal",
        flax="port.nn.Orthogonal",
        original="parametrizations.{name}.original",
        beside=(("base", "parametrizations.{name}.0.base"),),
        options=_orthogonal,
    ),
)
