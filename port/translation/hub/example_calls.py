"""Calls that a model of ``transformers`` takes, of inputs that are drawn from what its configuration says."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from port.errors import UsageError
from port.translation.frontend.example_inputs import Given
from port.translation.hub.drawn_inputs import SIZES, TOKENS, drawn_inputs, with_choices
from port.translation.hub.hub_model import HubModel, reason

MOST_PARAMETERS = 60_000_000
"""Of a model that is run to see what it takes."""
Call = dict[str, torch.Tensor]


def example_calls(model: HubModel, config: Any) -> list[Given]:
    """Example calls that a model takes: one, and for text another with a mask over padding.

    Args:
        model: of ``transformers``.
        config: its own, or a smaller one whose inputs are also the model's.

    Raises:
        UsageError: none that the configuration says is taken; gives the model's own words.
    """
    takes = inspect.signature(model.model_class.forward).parameters
    drawn = {name: tensor for name, tensor in drawn_inputs(config).items() if name in takes}
    if not drawn:
        raise UsageError(_says_no_size(model, config, takes))
    if why := _unbuilt(model, config):
        raise UsageError(f"{why}. Set other fields of it, by --kwargs")
    why = ""
    for inputs in (drawn, with_choices(drawn)):
        said = ""
        for call in _more_and_more(_main(model, inputs), inputs):
            said = refused(model, config, (), call)
            if not said:
                return [((), one) for one in (call, *_with_mask(model, config, call, takes))]
        why = why or said  # of one text each, as most models take
        if "input_ids" not in drawn:
            break
    raise UsageError(
        f"{model.name} takes none of the inputs that its configuration says ({', '.join(drawn)}): {why}. "
        "Give it some, by --inputs module:function, or set fields of its configuration, by --kwargs"
    )


def _says_no_size(model: HubModel, config: Any, takes: Mapping[str, inspect.Parameter]) -> str:
    """What to do about a model none of whose inputs is drawn."""
    kind = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = [name for name, one in takes.items() if one.kind in kind and name != "self"]
    needed = [name for name in names if takes[name].default is inspect.Parameter.empty] or names[:4]
    unset = [name for name in SIZES if name in config.to_dict() and getattr(config, name) is None]
    sizes = ", ".join(f"{field} for {name}" for field, name in SIZES.items())
    do = f"Set {unset[0]}, by --kwargs, or give it inputs" if unset else "Give it some"
    return (
        f"{model.name} takes {', '.join(needed)}, and {type(config).__name__} says the size of no input that is drawn "
        f"({sizes}). {do}, by --inputs module:function"
    )


def _main(model: HubModel, inputs: Call) -> Call:
    """What a class says it takes first of all: one input, or some."""
    said = getattr(model.model_class, "main_input_name", "input_ids")
    return {name: inputs[name] for name in ([said] if isinstance(said, str) else said) if name in inputs}


def _more_and_more(first: Call, drawn: Call) -> Iterator[Call]:
    """Calls with one input more each."""
    call = dict(first)
    if call:
        yield dict(call)
    for name, tensor in drawn.items():
        if name not in call:
            call[name] = tensor
            yield dict(call)


def _with_mask(model: HubModel, config: Any, call: Call, takes: Mapping[str, Any]) -> list[Call]:
    """The same call with two sentences of different lengths, where the model takes a mask over tokens."""
    if "input_ids" not in call or "attention_mask" not in takes:
        return []
    mask = torch.ones(call["input_ids"].shape, dtype=torch.long)
    mask[0, ..., TOKENS - 4 :] = 0
    masked = {**call, "attention_mask": mask}
    return [] if refused(model, config, (), masked) else [masked]


def refused(model: HubModel, config: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What a model says of a call; empty where it takes it.

    Args:
        model: of ``transformers``.
        config: with which it is built, if it is not too large for that.
        args: of the call.
        kwargs: those by name.
    """
    if why := _unbuilt(model, config):
        return why
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            model.build(config)(*args, **kwargs)
    except Exception as error:
        return _own_words(error)
    return ""


def _unbuilt(model: HubModel, config: Any) -> str:
    """Why a model cannot be tried: its class refuses the configuration, or it is too large; empty where it can be."""
    try:
        with torch.device("meta"):
            count = sum(one.numel() for one in model.build(config).parameters())
    except Exception as error:
        return f"{model.name} cannot be built as {type(config).__name__} says: {_own_words(error)}"
    if count > MOST_PARAMETERS:
        return f"{model.name} has {count:,} parameters, too many to try what it takes"
    return ""


def _own_words(error: Exception) -> str:
    return f"{type(error).__name__}: {reason(error)}".rstrip(".")
