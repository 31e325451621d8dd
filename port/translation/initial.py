"""How the original's parameters are drawn when it is constructed: seen from several constructions of it.

What a layer's pair says of torch's own initialisation is kept where the values look so; elsewhere a standard one is
looked for that gives them: a constant, a normal or uniform distribution of some spread, or of one that goes by the
numbers of inputs and outputs.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from port.pairs.registry import resolve
from port.pairs.twin import twin_pair
from port.translation.code import code
from port.translation.unifying import SPREAD

# Scale and mode of jax's variance_scaling, and what they are called where they have a name.
_BY_FANS = ((1 / 3, "fan_in"), (1.0, "fan_in"), (2.0, "fan_in"), (2.0, "fan_out"), (1.0, "fan_avg"), (1.0, "fan_out"))


@dataclass
class Initial:
    """What was seen.

    Attributes:
        layers: path of a layer → the initialisers that its twin is given in the place of the pair's.
        own: names of the modules' own parameters → the initialiser.
        unknown: names of parameters that no standard initialiser draws so.
    """

    layers: dict[str, dict[str, ast.expr]] = field(default_factory=dict)
    own: dict[str, ast.expr] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def initial_values(construct: Callable[[], Any], layers: dict[str, Any], constructions: int = 3) -> Initial:
    """Look at what a model's parameters are when it is new.

    Args:
        construct: makes one; called several times, with seeds of its own.
        layers: paths of the layers kept whole → the torch layer.
        constructions: how many are looked at.
    """
    import torch

    drawn: dict[str, list[np.ndarray]] = {}
    for seed in range(constructions):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            for name, parameter in construct().named_parameters():
                drawn.setdefault(name, []).append(parameter.detach().double().cpu().numpy())
    found = Initial()
    of_layers: set[str] = set()
    fitting: dict[tuple[str, str], list[ast.expr]] = {}
    for path, layer in layers.items():
        for name, argument in _arguments(layer).items():
            key = f"{path}.{name}"
            of_layers.add(key)
            if key not in drawn or _is_torchs(layer, name, drawn[key]):
                continue
            fitting[path, argument] = initializers(drawn[key], _fans(drawn[key][0]) if drawn[key][0].ndim > 1 else None)
            if not fitting[path, argument]:
                found.unknown.append(key)
    # A square weight has as many inputs as outputs: what the others are drawn by decides.
    votes = Counter(ast.dump(seen) for several in fitting.values() for seen in several)
    for (path, argument), several in fitting.items():
        if several:
            found.layers.setdefault(path, {})[argument] = max(several, key=lambda seen: votes[ast.dump(seen)])
    for name, values in drawn.items():
        if name in of_layers or any(name.startswith(f"{path}.") for path in layers):
            continue
        seen = initializers(values, None)
        if not seen:
            found.unknown.append(name)
        elif not (np.stack(values) == values[0].flat[0]).all():
            found.own[name] = seen[0]
    return found


def initializers(drawn: list[np.ndarray], fans: tuple[int, int] | None) -> list[ast.expr]:
    """The standard initialisers that give such values; none if there is none.

    Args:
        drawn: the values of several constructions.
        fans: the numbers of inputs and outputs, of a weight.
    """
    values = np.concatenate([array.ravel() for array in drawn])
    if np.iscomplexobj(values) or values.size == 0:
        return []
    if (values == values[0]).all():
        number = float(values[0])
        name = {0.0: "zeros", 1.0: "ones"}.get(number)
        return [code(f"nnx.initializers.{name}") if name else code("nnx.initializers.constant(n)", n=number)]
    spread = float(np.sqrt(np.mean(values**2)))
    tolerance = max(0.03, 4 / math.sqrt(2 * values.size))
    if abs(float(values.mean())) > 5 * spread / math.sqrt(values.size):
        return []
    kind = "uniform" if float(np.abs(values).max()) <= spread * math.sqrt(3) * (1 + tolerance) else "normal"
    if values.size < _FEW or (kind == "normal" and not _looks_normal(values, spread)):
        return []
    found = []
    if fans is not None:
        for scale, mode in _BY_FANS:
            fan = {"fan_in": fans[0], "fan_out": fans[1], "fan_avg": sum(fans) / 2}[mode]
            if abs(spread / math.sqrt(scale / fan) - 1) < tolerance:
                if (scale, mode, kind) == (1 / 3, "fan_in", "uniform"):
                    found.append(code("port.nn.torch_kernel()"))
                else:
                    found.append(code("nnx.initializers.variance_scaling(s, m, k)", s=scale, m=mode, k=kind))
    if found or kind == "uniform":
        return found
    digits = ".1g" if _is_round(spread) else ".2g"
    return [code("nnx.initializers.normal(spread)", spread=ast.Constant(float(f"{spread:{digits}}"), kind=SPREAD))]


_FEW = 24  # numbers tell a distribution badly below


def _is_round(spread: float) -> bool:
    return abs(float(f"{spread:.1g}") / spread - 1) < 0.05


def _looks_normal(values: np.ndarray, spread: float) -> bool:
    """Whether as many values are near zero and far from it as a normal distribution has."""
    near = float((np.abs(values) < spread).mean())
    return abs(near - 0.6827) < max(0.02, 2.5 / math.sqrt(values.size))


def _fans(weight: np.ndarray) -> tuple[int, int]:
    """Inputs and outputs of a weight in torch's layout, (out, in, *window)."""
    window = math.prod(weight.shape[2:])
    return weight.shape[1] * window, weight.shape[0] * window


def _is_torchs(layer: Any, name: str, drawn: list[np.ndarray]) -> bool:
    """Whether the values are like those of a layer of its own, new."""
    import torch

    kind = f"{type(layer).__module__}.{type(layer).__name__}"
    values = np.concatenate([array.ravel() for array in drawn])
    if kind.startswith("torch.nn.modules.linear.Linear") or ".conv.Conv" in kind:
        weight = layer.weight
        bound = 1 / math.sqrt(math.prod(weight.shape[1:]))
        spread = float(np.sqrt(np.mean(values**2)))
        few = max(0.03, 4 / math.sqrt(2 * values.size))
        return float(np.abs(values).max()) <= bound * (1 + 1e-6) and abs(spread * math.sqrt(3) / bound - 1) < few
    if isinstance(layer, torch.nn.Embedding):
        return abs(float(values.std()) - 1) < max(0.03, 4 / math.sqrt(2 * values.size))
    if name.endswith("weight") and values.size:
        return bool((values == 1).all())
    return bool((values == 0).all())


def _arguments(layer: Any) -> dict[str, str]:
    """Names of a layer's parameters → the argument of its twin that says how they are drawn."""
    pair = twin_pair(layer)
    made = resolve(pair.flax)
    if not isinstance(made, type):
        return {}
    taken = inspect.signature(made.__init__).parameters  # type: ignore[misc]
    found = {}
    for param in pair.params_of_torch(layer):
        if len(param.torch_names) == len(param.flax_names) == 1 and param.collection == "params":
            argument = f"{param.flax_names[0]}_init"
            if argument in taken:
                found[param.torch_names[0]] = argument
    return found
