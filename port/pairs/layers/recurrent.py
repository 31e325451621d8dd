"""torch.nn.RNN, LSTM, GRU and their cells ⇄ port.nn; cells with a bias ⇄ flax.nnx, flax.linen (equal outputs only)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from port.errors import NoPair
from port.moves import Branch, EachBranch, Move, Order, Permute, Split, Sum
from port.pairs.pair import Facts, LayerPair, ParamPair, is_class, same

CELLS = ("RNNCell", "LSTMCell", "GRUCell")
LAYERS = ("RNN", "LSTM", "GRU")
PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
NOTES = {"RNN": ("W13", "W24"), "LSTM": ("W13", "W24"), "GRU": ("W14", "W24")}


def _cell_arguments(module: Any) -> dict[str, Any]:
    arguments = {"input_size": module.input_size, "hidden_size": module.hidden_size, "bias": module.bias}
    return {**arguments, "nonlinearity": module.nonlinearity} if hasattr(module, "nonlinearity") else arguments


def _layer_arguments(module: Any) -> dict[str, Any]:
    names = ["num_layers", "batch_first", "dropout", "bidirectional"]
    if module.mode == "LSTM":
        names.append("proj_size")
    return {**_cell_arguments(module), **{name: getattr(module, name) for name in names}}


def _layer_params(num_layers: int, bidirectional: bool) -> tuple[ParamPair, ...]:
    directions = ("", "_reverse") if bidirectional else ("",)
    suffixes = [f"_l{layer}{direction}" for layer in range(num_layers) for direction in directions]
    return same(*(name + suffix for suffix in suffixes for name in PARAMETERS))


def _layer_facts(module: Any) -> Facts:
    return {"num_layers": module.num_layers, "bidirectional": module.bidirectional}


def _with_torchs_parameters() -> Iterator[LayerPair]:
    for name in CELLS:
        yield LayerPair(
            torch=f"torch.nn.{name}",
            flax=f"port.nn.{name}",
            params=same(*PARAMETERS[:4]),
            arguments=_cell_arguments,
            notes=NOTES[name.removesuffix("Cell")],
        )
    for name in LAYERS:
        yield LayerPair(
            torch=f"torch.nn.{name}",
            flax=f"port.nn.{name}",
            params=_layer_params,
            facts_of_torch=_layer_facts,
            facts_of_flax=_layer_facts,
            arguments=_layer_arguments,
            notes=NOTES[name],
        )


# %% Flax's cells: one bias, which is the sum of torch's two

TRANSPOSED = Permute((1, 0))  # (gates · hidden, in) → (in, gates · hidden)
BIASES = ("bias_ih", "bias_hh")


def _simple(hidden: int) -> tuple[ParamPair, ...]:
    return (
        ParamPair("weight_ih", "dense_i.kernel", (TRANSPOSED,)),
        ParamPair("weight_hh", "dense_h.kernel", (TRANSPOSED,)),
        ParamPair(BIASES, "dense_i.bias", (Sum(2),)),
    )


def _joined(hidden: int) -> tuple[ParamPair, ...]:
    return (*_simple(hidden)[:2], ParamPair(BIASES, "dense_h.bias", (Sum(2),)))


def _apart(forget: str) -> Callable[[int], tuple[ParamPair, ...]]:
    """Return parameters with one layer per gate; nnx writes ``if_``, as ``if`` is a keyword."""

    def params(hidden: int) -> tuple[ParamPair, ...]:
        split: Move = Split(0, (hidden,) * 4)
        inputs, states = ("ii", forget, "ig", "io"), ("hi", "hf", "hg", "ho")
        return (
            ParamPair("weight_ih", tuple(f"{gate}.kernel" for gate in inputs), (split, TRANSPOSED)),
            ParamPair("weight_hh", tuple(f"{gate}.kernel" for gate in states), (split, TRANSPOSED)),
            ParamPair(BIASES, tuple(f"{gate}.bias" for gate in states), (Sum(2), split)),
        )

    return params


def _linen_simple(hidden: int) -> tuple[ParamPair, ...]:
    return (
        ParamPair("weight_ih", "i.kernel", (TRANSPOSED,)),
        ParamPair("weight_hh", "h.kernel", (TRANSPOSED,)),
        ParamPair(BIASES, "i.bias", (Sum(2),)),
    )


def _linen_gru(hidden: int) -> tuple[ParamPair, ...]:
    """Sum the two biases for the gates r and z; keep both for n, where r multiplies the hidden one (W14)."""
    split: Move = Split(0, (hidden,) * 3)
    gates = "rzn"
    apart = EachBranch((Branch(1, (split,), 3),) * 2)
    side_by_side = Order((0, 3, 1, 4, 2, 5))
    summed = EachBranch((*(Branch(2, (Sum(2),), 1),) * 2, *(Branch(1, (), 1),) * 2))
    return (
        ParamPair("weight_ih", tuple(f"i{gate}.kernel" for gate in gates), (split, TRANSPOSED)),
        ParamPair("weight_hh", tuple(f"h{gate}.kernel" for gate in gates), (split, TRANSPOSED)),
        ParamPair(BIASES, ("ir.bias", "iz.bias", "in.bias", "hn.bias"), (apart, side_by_side, summed)),
    )


def _torchs_functions(cell: Any) -> bool:
    """Whether a Flax cell uses torch's activations; its constructor accepts others."""
    import jax

    return (
        cell.activation_fn is jax.numpy.tanh
        and getattr(cell, "gate_fn", jax.nn.sigmoid) is jax.nn.sigmoid
        and not getattr(cell, "residual", False)
    )


def _has_bias(module: Any) -> bool:
    return module.bias and getattr(module, "nonlinearity", "tanh") == "tanh"


def _is_one_cell(module: Any) -> bool:
    """Whether a torch layer is a single cell run over time."""
    return _has_bias(module) and module.num_layers == 1 and not module.bidirectional and not module.proj_size


FLAX_CELLS: dict[str, tuple[tuple[str, Callable[[int], tuple[ParamPair, ...]]], ...]] = {
    "RNN": (("flax.nnx.SimpleCell", _simple), ("flax.linen.SimpleCell", _linen_simple)),
    "LSTM": (
        ("flax.nnx.OptimizedLSTMCell", _joined),
        ("flax.nnx.LSTMCell", _apart("if_")),
        ("flax.linen.OptimizedLSTMCell", _apart("if")),
        ("flax.linen.LSTMCell", _apart("if")),
    ),
    "GRU": (("flax.linen.GRUCell", _linen_gru),),
}


def _hidden(module: Any) -> Facts:
    return {"hidden": module.hidden_size}


def _flax_hidden(cell: Any) -> Facts:
    return {"hidden": cell.features if hasattr(cell, "features") else cell.hidden_features}


def _with_one_bias() -> Iterator[LayerPair]:
    for name, cells in FLAX_CELLS.items():
        for flax, params in cells:
            cell = LayerPair(
                torch=f"torch.nn.{name}Cell",
                flax=flax,
                params=params,
                facts_of_torch=_hidden,
                facts_of_flax=_flax_hidden,
                fits_torch=_has_bias,
                fits_flax=_torchs_functions,
                notes=NOTES[name],
            )
            yield cell
            if "nnx" in flax:
                yield _over_time(name, cell, params)


def _over_time(name: str, cell: LayerPair, params: Callable[[int], tuple[ParamPair, ...]]) -> LayerPair:
    """torch's layer of one cell ⇄ flax.nnx.RNN around Flax's cell."""

    def in_layer(hidden: int) -> tuple[ParamPair, ...]:
        return tuple(
            replace(
                param,
                torch=tuple(f"{name}_l0" for name in param.torch_names),
                flax=tuple(f"cell.{path}" for path in param.flax_names),
            )
            for param in params(hidden)
        )

    return replace(
        cell,
        torch=f"torch.nn.{name}",
        flax="flax.nnx.RNN",
        params=in_layer,
        facts_of_flax=lambda module: _flax_hidden(module.cell),
        fits_torch=_is_one_cell,
        fits_flax=lambda module: (
            is_class(type(module.cell), cell.flax) and _torchs_functions(module.cell) and not module.reverse
        ),
    )


def _no_hidden_bias(**facts: Any) -> tuple[ParamPair, ...]:
    raise NoPair(
        "flax.nnx.GRUCell cannot hold torch's GRU: torch's reset gate multiplies the hidden bias of the new gate, and "
        "this cell has no hidden bias (W14); use port.nn.GRUCell or port.nn.GRU, which have torch's parameters"
    )


def _refused() -> LayerPair:
    """Return the pair that raises for a Flax model with the wrong cell."""
    return LayerPair(
        torch="torch.nn.GRUCell",
        flax="flax.nnx.GRUCell",
        params=_no_hidden_bias,
        fits_torch=lambda module: False,
        notes=NOTES["GRU"],
    )


PAIRS = (*_with_torchs_parameters(), *_with_one_bias(), _refused())
