"""Write evaluation.py: a script's evaluation in JAX, with its numbers computed by one jitted function of a batch."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import torch

from port.errors import UsageError
from port.scripts.trained_modules import torch_loss
from port.scripts.wording import place_of
from port.scripts.writing.capture import Copies, LossPath
from port.scripts.writing.evaluated_numbers import EvaluatedBatch, EvaluatedNumbers
from port.scripts.writing.loss_source import LossSource, varying_numbers
from port.scripts.writing.own_evaluation import OwnEvaluation
from port.scripts.writing.path_writer import PathWriter
from port.scripts.writing.replaying import is_replayed

CLASS, FILE, WRITTEN = "FromBatchToNumbers", "torch_evaluation.py", "evaluation.py"
TORCH = Template('''\
"""The numbers that the evaluation of $script takes out of torch for a batch: written by port script."""

import torch
from torch import nn
from torch.nn import functional as F


class $name(nn.Module):
    """The computation of $script for a batch of its evaluation."""

    def __init__(self, $modules):
        super().__init__()
$held

    def forward(self, $inputs):
$lines
        return $numbers
''')
TEXT = Template('''\
"""The evaluation of $script in JAX: its lines around numbers that are computed here.

The same in PyTorch, for one batch, is in $torch.
"""

$imports

$translated


@partial(jax.jit, static_argnums=0)
def numbers_of(graphdef: Any, state: Any, $parameters) -> tuple[jax.Array, ...]:
    """The numbers of a batch for `evaluate`, in evaluation mode."""
    model = nnx.merge(graphdef, state.params, state.rest, copy=True)
    model.eval()
    return $name($modules, rngs=nnx.Rngs(0))($inputs)


def evaluate(measure: Callable[[Any], tuple[jax.Array, ...]], $loader: Any$more) -> $returns:
    """As at $where; ``measure`` returns the numbers of a batch."""
$body
''')


def numbers_module(
    seen: EvaluatedNumbers, source: LossSource, copies: Copies, script: str, file: Path
) -> tuple[torch.nn.Module, Callable[[], torch.nn.Module], dict[str, torch.Tensor]]:
    """The torch module that computes the evaluation's numbers from a batch, its constructor, and its inputs.

    Args:
        seen: batches of the evaluation; the first is written, the others show what is not constant.
        source: the source of the path from a batch to its loss, whose inputs have the same names here.
        copies: copies of the script's models.
        script: the script's name.
        file: the file to write.

    Raises:
        UsageError: a number depends on something other than a batch and the trained models.
    """
    batches = seen.batches
    paths = [
        LossPath(0, [one.calls[number] for number in sorted(one.calls)], 0.0, lengths=one.lengths) for one in batches
    ]
    if len({tuple(call.name for call in path.calls) for path in paths}) > 1:
        raise UsageError("the evaluation's batches are not all evaluated in the same way")
    if {(paths[0].calls[place].number, number) for place, number in varying_numbers(paths)} - {
        (call, number) for call, found in paths[0].lengths.items() for number in found
    }:
        raise UsageError("the evaluation computes with numbers that differ for each batch")
    ends = [one.call for one in batches[0].taken if one.call is not None]
    writer = PathWriter(paths[0], frozenset(), ends, trains=False)
    lines = writer.statements()
    names = {
        str(description["part"]): name
        for name, description in zip(source.inputs, source.descriptions, strict=True)
        if "part" in description
    }
    strange = [name for name, description in writer.descriptions.items() if description.get("part") not in names]
    if strange or set(writer.modules) - set(source.modules):
        raise UsageError(
            f"the evaluation computes with {', '.join(strange or sorted(set(writer.modules) - set(source.modules)))}, "
            "which train_step does not have"
        )
    names_in_training = {name: names[str(description["part"])] for name, description in writer.descriptions.items()}
    if any(name != inputs for name, inputs in names_in_training.items()):
        raise UsageError("the evaluation has other names for the parts of a batch than training")
    text = TORCH.substitute(
        script=script,
        name=CLASS,
        modules=", ".join(writer.modules),
        held="\n".join(f"        self.{name} = {name}" for name in writer.modules),
        inputs=", ".join(writer.inputs),
        lines="\n".join(f"        {line}" for line in lines),
        numbers=", ".join(writer.part(one.call, one.output) for one in batches[0].taken if one.call is not None) + ",",
    )
    file.write_text(text, "utf-8")
    cls: type[torch.nn.Module] = getattr(torch_loss(file), CLASS)
    module = cls(*(_at_evaluation(copies.models[name], seen.weights[name]) for name in writer.modules))
    return module, lambda: cls(*(copies.constructors[name]() for name in writer.modules)), writer.inputs


def _at_evaluation(model: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """A copy of a model with the weights and precision that it had when it was evaluated."""
    model = copy.deepcopy(model)
    for dtype in {one.dtype for one in weights.values() if one.is_floating_point()}:
        model = model.to(dtype)
    model.load_state_dict(weights)
    return model


def evaluation_file(
    translated: Any,
    source: LossSource,
    loss_model: str,
    evaluation: OwnEvaluation,
    script: str,
    orders: Mapping[str, Sequence[int]],
) -> str:
    """The unformatted text of evaluation.py.

    Args:
        translated: the translation of the module.
        source: the source of the path from a batch to its loss.
        loss_model: the text of model.py, whose root holds the models.
        evaluation: the lines copied from the script.
        script: the script's name.
        orders: the axis order of each input in JAX.

    Raises:
        UsageError: the written class takes something other than the models in model.py.
    """
    tree = ast.parse(translated.source)
    wanted = _with_what_it_needs(tree, CLASS)
    (cls,) = [one for one in wanted if isinstance(one, ast.ClassDef) and one.name == CLASS]
    take_models(cls, source.modules)
    models = _models(cls)
    held = {one.attr for one in ast.walk(ast.parse(loss_model)) if isinstance(one, ast.Attribute)}
    layouts = {name: tuple(layouts[0].order) for name, layouts in translated.boundary.layouts.items() if layouts}
    if not set(models) <= held & set(source.modules):
        raise UsageError("the written evaluation takes other models than train_step")
    imports = [one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    own = ["from collections.abc import Callable", "from functools import partial", "from typing import Any"]
    own += ["import jax", "from flax import nnx"]
    own += [ast.unparse(one) for one in evaluation.imports]
    rows = translated.source.splitlines()
    inputs = [name for name in source.inputs if name in layouts or name in _parameters(cls, "__call__")]
    more = "".join(f", {name}: Any" for name, _ in evaluation.more)
    return TEXT.substitute(
        script=script,
        torch=FILE,
        imports="\n".join(dict.fromkeys(["from __future__ import annotations", *map(ast.unparse, imports), *own])),
        translated="\n\n\n".join(
            ast.unparse(one) if one is cls else "\n".join(rows[_begin(one) - 1 : one.end_lineno]) for one in wanted
        ),
        parameters=", ".join(f"{name}: jax.Array" for name in source.inputs),
        name=CLASS,
        modules=", ".join(f"model.{name}" for name in models),
        inputs=", ".join(_moved(name, orders.get(name), layouts.get(name)) for name in inputs),
        loader=evaluation.loader,
        more=more,
        returns="Any" if evaluation.shown is not None else "None",
        where=evaluation.where,
        body="\n".join(f"    {row}" for one in evaluation.statements for row in ast.unparse(one).splitlines()),
    )


def take_models(cls: ast.ClassDef, models: Sequence[str]) -> None:
    """Change a class to take the models that it constructs itself, so that the trained ones are evaluated."""
    init = next((one for one in cls.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    for statement in init.body if init is not None else ():
        match statement:
            case ast.Assign([ast.Attribute(ast.Name("self"), name)]) if name in models:
                statement.value = ast.copy_location(ast.Name(name, ast.Load()), statement.value)
                if init is not None and name not in _parameters(cls, "__init__"):
                    init.args.args.append(ast.arg(name, ast.Name("Any", ast.Load())))
    read = {one.id for one in ast.walk(cls) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
    if init is not None and "options" not in read:
        init.body = [one for one in init.body if not (isinstance(one, ast.AnnAssign) and _names(one) == "options")]


def _names(statement: ast.AnnAssign) -> str:
    return ast.unparse(statement.target)


def _moved(name: str, before: Sequence[int] | None, wanted: Sequence[int] | None) -> str:
    """An input with its axes in the written class's order, if train_step's differs."""
    if before is None or wanted is None or list(before) == list(wanted):
        return name
    return f"{name}.transpose({', '.join(str(list(before).index(axis)) for axis in wanted)})"


def _with_what_it_needs(tree: ast.Module, name: str) -> list[ast.stmt]:
    """A class of a written file, with the functions and constants that it needs, but without the models' classes."""
    definitions = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    constants = {
        target.id: one
        for one in tree.body
        if isinstance(one, ast.Assign)
        for target in one.targets
        if isinstance(target, ast.Name)
    }
    known: dict[str, ast.stmt] = {**definitions, **constants}
    pending, found = [name], list[ast.stmt]()
    while pending:
        one = known.get(pending.pop())
        if one is None or one in found or (isinstance(one, ast.ClassDef) and found):
            continue
        found.append(one)
        pending += [each.id for each in ast.walk(one) if isinstance(each, ast.Name)]
    return sorted(found, key=lambda one: one.lineno)


def _begin(statement: ast.stmt) -> int:
    return min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", ()))])


def _models(cls: ast.ClassDef) -> list[str]:
    """The models that a class's constructor takes."""
    return [name for name in _parameters(cls, "__init__") if name not in ("dtype", "param_dtype", "rngs")]


def _parameters(cls: ast.ClassDef, method: str) -> list[str]:
    for one in cls.body:
        if isinstance(one, ast.FunctionDef) and one.name == method:
            return [each.arg for each in (*one.args.args, *one.args.kwonlyargs) if each.arg != "self"]
    return []


def check_numbers(
    module: torch.nn.Module,
    batch: EvaluatedBatch,
    inputs: Mapping[str, torch.Tensor],
) -> None:
    """Check that the written torch module gives the script's numbers.

    Raises:
        UsageError: it gives other numbers.
    """
    module = copy.deepcopy(module).eval()
    with torch.no_grad():
        found = [one.item() for one in module(*inputs.values())]
    for one, value in zip(batch.taken, found, strict=True):
        if not is_replayed(value, one.value):
            raise UsageError(f"a number that was {one.value:.6g} at {place_of(one.where)} is {value:.6g} when repeated")


def follow_weights(module: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> list[bool]:
    """For each number, whether it changes continuously with the weights, as a loss does; a count does not.

    Rounding changes a count by a whole example or not at all: no tolerance can judge that.
    """
    module = copy.deepcopy(module).eval()
    for one in module.parameters():
        one.requires_grad_(one.is_floating_point())
    with torch.enable_grad():
        return [one.requires_grad for one in module(*inputs.values())]
