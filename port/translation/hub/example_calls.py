"""Example calls that a model of ``transformers`` accepts, with inputs drawn to the sizes in its configuration."""

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
"""The largest model that is run to find out which inputs it accepts."""
Call = dict[str, torch.Tensor]


def example_calls(model: HubModel, config: Any) -> list[Given]:
    """Return example calls that a model accepts: one, and for text another with a mask over padding.

    Args:
        model: the model.
        config: its configuration, or a smaller one with the same inputs.

    Raises:
        UsageError: the model accepts none of the drawn inputs; gives its error.
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
        why = why or said  # the error with one text for each example, as most models take
        if "input_ids" not in drawn:
            break
    raise UsageError(
        f"{model.name} takes none of the inputs that its configuration says ({', '.join(drawn)}): {why}. "
        "Give it some, by --inputs module:function, or set fields of its configuration, by --kwargs"
    )


def _says_no_size(model: HubModel, config: Any, takes: Mapping[str, inspect.Parameter]) -> str:
    """Return the message for a model none of whose inputs can be drawn."""
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
    """Return the main input that a class names: one, or several."""
    said = getattr(model.model_class, "main_input_name", "input_ids")
    return {name: inputs[name] for name in ([said] if isinstance(said, str) else said) if name in inputs}


def _more_and_more(first: Call, drawn: Call) -> Iterator[Call]:
    """Yield calls, each with one more input than the one before."""
    call = dict(first)
    if call:
        yield dict(call)
    for name, tensor in drawn.items():
        if name not in call:
            call[name] = tensor
            yield dict(call)


def _with_mask(model: HubModel, config: Any, call: Call, takes: Mapping[str, Any]) -> list[Call]:
    """Return the call with two sentences of different lengths, if the model takes a mask over tokens."""
    if "input_ids" not in call or "attention_mask" not in takes:
        return []
    mask = torch.ones(call["input_ids"].shape, dtype=torch.long)
    mask[0, ..., TOKENS - 4 :] = 0
    masked = {**call, "attention_mask": mask}
    return [] if refused(model, config, (), masked) else [masked]


def refused(model: HubModel, config: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return a model's error for a call; empty if it accepts the call.

    Args:
        model: the model.
        config: the configuration that it is built with, unless that is too large.
        args: positional arguments.
        kwargs: keyword arguments.
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
    """Return why a model cannot be tried: its class refuses the configuration, or it is too large; empty if it can."""
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
