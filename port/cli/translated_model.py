"""Builds what `port translate` is asked for: the module, its example calls, and how to construct it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from port.cli.models import built_torch_model, called
from port.named import named, spelled_arguments
from port.translation.frontend.meta_device import on_meta
from port.translation.hub.hub_model import hub_model
from port.translation.hub.target import is_hub_target
from port.weights import load

if TYPE_CHECKING:
    from port.translation.folder import Original


@dataclass(frozen=True)
class WhatToTranslate:
    """The command line's description of a model.

    Attributes:
        target: ``module:name``, or a model of ``transformers``.
        spelled: the JSON of its arguments.
        arguments: the parsed arguments.
        weights: a checkpoint of the model.
        input: shapes of example inputs.
        inputs: ``module:name`` of the function that returns them.
        submodule: the part to translate.
        is_on_meta: whether it is built without values.
        is_proved_at: whether the arguments to prove it at are passed.
        trust_remote_code: whether a folder's own code may be run.
        generates: whether it gets caches, for text generation.
    """

    target: str
    spelled: str | None
    arguments: Mapping[str, Any]
    weights: Path | None
    input: Sequence[str]
    inputs: str | None
    submodule: str | None
    is_on_meta: bool
    is_proved_at: bool
    trust_remote_code: bool
    generates: bool = False


@dataclass(frozen=True)
class TranslatedModel:
    """A model to translate.

    Attributes:
        module: the model, with its weights.
        calls: example calls.
        construct: constructs it again, from torch's current seed; None if an instance was passed.
        original: how the generated test rebuilds the original.
        called: the name for the written file.
        at: other settings to prove it at, beside those passed.
        proved_at: a sentence about these; empty if there are none.
        remarks: what it is built without, and why: a sentence each.
        folder: the folder of the model's weights, which are not read; None if it has none.
        in_folder: the names of the tensors in it.
    """

    module: Any
    calls: list[Any]
    construct: Callable[[], Any] | None
    original: Original
    called: str
    at: Sequence[Callable[[], Any] | None] = ()
    proved_at: str = ""
    remarks: Sequence[str] = ()
    folder: Path | None = None
    in_folder: frozenset[str] = frozenset()


def translated_model(what: WhatToTranslate) -> TranslatedModel:
    """Build the model that the command line describes.

    Raises:
        PortError: the description is invalid.
    """
    import torch

    from port.translation.frontend.example_inputs import calls, drawn, inside

    examples = [drawn(*what.input)] if what.input else []
    if what.inputs is not None:
        examples = calls(called(named(what.inputs, "--inputs", files=False), {}, what.inputs, "--inputs"))
    if is_hub_target(what.target, what.arguments):
        model = _of_hub(what, examples)
        examples = model.calls
    else:
        with torch.device("meta") if what.is_on_meta else nullcontext():
            module = built_torch_model(what.target, dict(what.arguments), "TARGET", files=False)
        if what.is_on_meta:
            module = module.to("meta")
        if what.weights is not None:
            load(module, what.weights)
        name = what.target.rpartition(":")[2].rpartition(".")[2]
        model = TranslatedModel(module, examples, _construct(what), _original(what), name)
    if what.is_on_meta:
        examples = [on_meta(*call) for call in examples]
    module, name = model.module, model.called
    if what.submodule is not None:
        caught = [inside(module, what.submodule, *call) for call in examples]
        module, examples = caught[0][0], [(args, kwargs) for _, args, kwargs in caught]
        name = f"{name}_{what.submodule}"
    at = [_part_of(one, what.submodule) for one in model.at]
    construct = _part_of(model.construct, what.submodule)
    return replace(model, module=module, calls=examples, construct=construct, called=name, at=at)


def _of_hub(what: WhatToTranslate, passed_examples: list[Any]) -> TranslatedModel:
    """Build a model of ``transformers`` on the meta device, proved at its configuration's smallest size."""
    import torch

    from port.translation.frontend.causal import check_causal
    from port.translation.hub.folder_weights import names_in
    from port.translation.hub.small_config import small_config
    from port.translation.hub.with_cache import with_cache

    model = hub_model(what.target, what.arguments, trust_remote_code=what.trust_remote_code)
    in_folder = names_in(model.folder) if model.folder is not None else frozenset()
    if what.generates:
        model = with_cache(model)
    small = small_config(model, passed_examples) if not (passed_examples and what.is_proved_at) else None
    if what.generates and small is not None:
        check_causal(model.build(small.config), model.name)
    with torch.device("meta"):
        module = model.build().to("meta")
    examples = list(small.calls) if small is not None else passed_examples
    made = TranslatedModel(module, examples, model.build, _original(what), model.name, remarks=model.remarks)
    if in_folder:
        made = replace(made, folder=model.folder, in_folder=in_folder)
    if small is None or what.is_proved_at:
        return made
    fields = ", ".join(f"{name} = {value}" for name, value in small.settings.items())
    # The function that constructs it, and not only its settings: those that only hold together are kept, too.
    at, proved_at = [partial(model.build, small.config)], f"{model.name} is proved at {fields or 'its own size'}"
    return replace(made, at=at, proved_at=proved_at)


def _part_of(construct: Callable[[], Any] | None, path: str | None) -> Callable[[], Any] | None:
    """Return the function that constructs a part again."""
    if construct is None or path is None:
        return construct
    whole = construct
    return lambda: whole().get_submodule(path)


def _construct(what: WhatToTranslate) -> Callable[[], Any] | None:
    import torch

    made, options = named(what.target, "TARGET", files=False), dict(what.arguments)
    return None if isinstance(made, torch.nn.Module) else lambda: made(**options)


def _original(what: WhatToTranslate) -> Original:
    import torch

    from port.translation.folder import Original

    is_hub = is_hub_target(what.target, what.arguments)
    is_built = is_hub or not isinstance(named(what.target, "TARGET", files=False), torch.nn.Module)
    spelled = spelled_arguments(what.spelled, "--kwargs") if is_built else None
    return Original(what.target, spelled, tuple(what.input), what.inputs, what.submodule)
