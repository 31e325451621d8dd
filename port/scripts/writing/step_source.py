"""Write the update in JAX as source: the gradients of a batch's loss, the optimizer, and the steps between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from port.scripts.wording import place_of
from port.scripts.writing.averaging import WeightAverage
from port.scripts.writing.free_numbers import FreeNumber
from port.scripts.writing.option_expressions import OptionExpression
from port.scripts.writing.plateau import options_of
from port.scripts.writing.shaping import Shaping

MODULE = Template('''\
"""One update of $script in JAX: a batch's loss, its gradients, and the optimizer's step.

    graphdef, state = create(load())                        # the original's initial weights
    $call

The same in PyTorch, up to the loss, is in torch_loss.py.
"""

from __future__ import annotations

${context}from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
$imports

from model import load

__all__ = ["State", ${public}"create", "load", "make_optimizer", "train_step"]

$average
class State(NamedTuple):
    """What an update changes: trained parameters; running statistics and random streams; the optimizer's state.$kept"""

    params: Any
    rest: Any
    opt_state: Any
$field

def make_optimizer($parameter) -> optax.GradientTransformation:
    """$optimizer

    As at $made.
    """
$body


def create(model: nnx.Module) -> tuple[Any, State]:
    """The model's structure, and the state before the first update."""
    model.train()
$evaluates    graphdef, params, rest = nnx.split(model, nnx.Param, ...)
$apart    return graphdef, State(params, rest, make_optimizer().init(params)$first)


@partial(jax.jit, static_argnums=0, ${static}donate_argnums=1)
def train_step(graphdef: Any, state: State, $rate$parameters$option) -> tuple[State, jax.Array$left]:
    """One update: the state after it, and the loss before it$behind_it.$about
    """

    def loss_fn(params: Any, rest: Any, ${keys}$parameters) -> Any:
        model = nnx.merge(graphdef, params, rest, copy=True)
$loss
        return loss, $aux

$gradients
    updates, opt_state = make_optimizer($names).update(gradients, state.opt_state, state.params$function)
$scaled    params = optax.apply_updates(state.params, updates)
$averaging    return State(params, rest, opt_state$behind), loss$carried
$plateau''')
PLATEAU = Template('''

@partial(jax.jit, donate_argnums=0)
def after_evaluation(state: State, value: jax.Array | float) -> State:
    """The state after an evaluation: the rate falls if ``value`` has stopped improving.

    As at $place.
    """

    def is_plateau(one: Any) -> bool:
        return isinstance(one, transforms.TorchPlateauState)

    def stepped(one: Any) -> Any:
        return transforms.torch_plateau_step(one, value$options) if is_plateau(one) else one

    return state._replace(opt_state=jax.tree.map(stepped, state.opt_state, is_leaf=is_plateau))
''')
APART = "    rest = jax.tree.map(jax.numpy.copy, rest)  # layers may share a stream's counter, which is donated\n"
ONE = Template("""\
    loss_and_grad = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, $rest), gradients = loss_and_grad(state.params, state.rest, $masks$inputs)""")
CLOSURE = Template("""\
    def evaluated(params: Any) -> tuple[jax.Array, Any]:
        (loss, _), gradients = jax.value_and_grad(loss_fn, has_aux=True)(params, state.rest, $masks$inputs)
        return loss, gradients

    (loss, gradients), rest = evaluated(state.params), state.rest""")
SEVERAL = Template("""\
    def add(carry: Any, microbatch: Any) -> Any:
        gradients, rest = carry
        (loss, rest), more = jax.value_and_grad(loss_fn, has_aux=True)(state.params, rest, *microbatch)
        return (jax.tree.map(jax.numpy.add, gradients, more), rest), loss

    zeros = jax.tree.map(jax.numpy.zeros_like, state.params)
    (gradients, rest), losses = jax.lax.scan(add, (zeros, state.rest), ($stacked))
    loss = losses.sum()""")

PARAMETERS = ("graphdef", "masks", "microbatch", "params", "rest", "state")
"""Names in train_step that no argument for an optimizer's number may have."""


@dataclass(frozen=True)
class StepFacts:
    """The facts from which the source is written.

    Attributes:
        script: the original's name.
        inputs: the names of a batch's parts.
        microbatches: the number of microbatches per update.
        optax: the result of `port.optax_source`.
        optimizer: its description, for a docstring.
        made: the original's line.
        takes_rate: whether each update takes its learning rate as an argument.
        numbers: the optimizer's numbers that the script's options set: ``optax`` has their names instead.
        covered: all expressions that they replace, each with its file.
        average: the average of the weights, which an update updates.
        drops: whether the model draws dropout: a key may then be passed, from which all of it is drawn.
        draws_in_evaluation: whether it draws in evaluation, too.
        states: the last inputs, if an update carries them to the next one.
        closure: whether the optimizer evaluates the loss itself, several times per update.
        evaluates: parts of the model, ``model.teacher``, that are in evaluation mode while it is trained.
        plateau: the line that steps ReduceLROnPlateau; None if the script has none.
        shaping: how the script's options shape the model; None if none does, or if the model must stay unchanged.
    """

    script: str
    inputs: Sequence[str]
    microbatches: int
    optax: str
    optimizer: str
    made: str
    takes_rate: bool = False
    numbers: Sequence[FreeNumber] = ()
    covered: Sequence[tuple[Path, OptionExpression]] = ()
    drops: bool = False
    draws_in_evaluation: bool = False
    states: Sequence[str] = ()
    average: WeightAverage | None = None
    closure: bool = False
    evaluates: Sequence[str] = ()
    plateau: str | None = None
    shaping: Shaping | None = None


def step_source(facts: StepFacts) -> str:
    """The unformatted source of train_step.py."""
    imports, body = optimizer_lines(facts.optax)
    inputs = ", ".join(facts.inputs)
    several = facts.microbatches > 1
    about = [f"Inputs have an axis of {facts.microbatches} microbatches in front."] if several else []
    about += ["The optimizer's rate is 1, and ``lr`` this update's."] if facts.takes_rate else []
    key = f"{facts.microbatches} keys" if several else "a key"
    about += ["The optimizer evaluates the loss as often as the original's closure is called."] if facts.closure else []
    about += [f"Dropout is drawn from ``masks``, {key}, if given."] if facts.drops else []
    average, made = facts.average, ""
    if average is not None:
        imports = [*imports, "from port import transforms"]
        made = "swa_average()" if average.decay is None else f"ema_average({average.decay!r})"
        made = f'AVERAGE = transforms.{made}\n"""Of the weights, as at {place_of(average.where)}."""\n\n'
    stacked = [*(["masks"] if facts.drops else []), *facts.inputs]
    numbers = [f"{one.name}: {type(one.value).__name__} = {one.value!r}" for one in facts.numbers]
    names = [one.name for one in facts.numbers]
    options = ["masks: jax.Array | None = None"] if facts.drops else []
    options += numbers
    rest = "nnx.state(model, nnx.Not(nnx.Param))"
    if facts.states:
        are = "is" if len(facts.states) == 1 else "are"
        about += [
            f"``{', '.join(facts.states)}`` {are} carried from the previous update; the new values are returned last."
        ]
    loss = f"loss{', *carried' if facts.states else ''} = model({inputs})"
    if facts.drops:
        imports = [*imports, "from port.nn import shared_masks"]
        loss = f"with shared_masks(model, masks) if masks is not None else nullcontext():\n            {loss}"
    return MODULE.substitute(
        evaluates="".join(f"    {part}.eval()\n" for part in facts.evaluates),
        parameter=", ".join(numbers),
        static=f"static_argnames={tuple(names) if len(names) > 1 else names[0]!r}, " if names else "",
        option=f", *, {', '.join(options)}" if options else "",
        context="from contextlib import nullcontext\n" if facts.drops else "",
        keys="masks: Any, " if facts.drops else "",
        loss=f"        {loss}",
        public='"after_evaluation", ' if facts.plateau is not None else "",
        plateau=PLATEAU.substitute(place=facts.plateau, options=options_of(facts.optax))
        if facts.plateau is not None
        else "",
        kept=" And the parameters' average." if average else "",
        average=made,
        field="    average: Any\n" if average else "",
        first=", AVERAGE.init(jax.tree.map(jax.numpy.copy, params))" if average else "",
        averaging="    average = AVERAGE.update(params, state.average)\n" if average else "",
        behind=", average" if average else "",
        apart=APART if facts.drops else "",
        left=", list[jax.Array]" if facts.states else "",
        aux=f"({rest}, carried)" if facts.states else rest,
        behind_it=", and the carried states" if facts.states else "",
        carried=", carried" if facts.states else "",
        names=", ".join(names),
        script=facts.script,
        call=call_of(facts),
        inputs=inputs,
        imports="\n".join(dict.fromkeys(imports)),
        optimizer=facts.optimizer,
        made=facts.made,
        body="\n".join(f"    {line}" if line else "" for line in body),
        parameters=", ".join(f"{name}: jax.Array" for name in facts.inputs),
        about="".join(["\n\n", *(f"    {line}\n" for line in about)]).rstrip("\n") if about else "",
        rate="lr: jax.Array | float, " if facts.takes_rate else "",
        scaled="    updates = jax.tree.map(lambda update: lr * update, updates)\n" if facts.takes_rate else "",
        function=", value_and_grad_fn=evaluated" if facts.closure else "",
        gradients=(SEVERAL if several else CLOSURE if facts.closure else ONE).substitute(
            inputs=inputs,
            rest="(rest, carried)" if facts.states else "rest",
            masks="masks, " if facts.drops else "",
            stacked=", ".join(stacked) + ("," * (len(stacked) == 1)),
        ),
    )


def call_of(facts: StepFacts) -> str:
    """A call of train_step, as source."""
    rate = ["lr"] if facts.takes_rate else []
    left = f", ({', '.join(facts.states)}{',' * (len(facts.states) == 1)})" if facts.states else ""
    return f"state, loss{left} = train_step(graphdef, {', '.join(['state', *rate, *facts.inputs])})"


def optimizer_lines(source: str) -> tuple[list[str], list[str]]:
    """The imports, and the lines of a function that returns the optimizer."""
    lines = source.strip().splitlines()
    imports = [line for line in lines if line.startswith(("import ", "from "))]
    rest = [line for line in lines if line not in imports and line]
    body = [line.replace("optimizer = ", "return ", 1) if line.startswith("optimizer = ") else line for line in rest]
    body = [line.replace('"mapping.toml"', 'Path(__file__).with_name("model.mapping.toml")') for line in body]
    needed = {"import optax", "from flax import nnx"}
    return sorted({*imports, *needed}, key=lambda line: (line.startswith("from port"), line)), body
