"""Write a trainer's evaluation as source: the mean of the training loss, in evaluation mode."""

from __future__ import annotations

from string import Template
from textwrap import indent
from typing import Any

from port.scripts.own_draws import EVALUATION_SEED
from port.scripts.writing.own_evaluation import OwnEvaluation
from port.scripts.writing.trainer_facts import TrainerFacts

LOSS = Template('''

@partial(jax.jit, static_argnums=0)
def evaluation_loss(graphdef: Any, state: State, ${key}$parameters) -> $gives:
    """The loss of a batch in evaluation mode$drawn."""
    model = nnx.merge(graphdef, state.${params}, state.rest, copy=True)
    model.eval()
$call

''')
EVALUATE = Template('''
def evaluate(graphdef: Any, state: State, loader: Any, dtype: Any$and_key) -> float:
    """The mean loss over a loader's examples.

    As at $where.
    """
    total, count = 0.0, 0
$begun    for ${number}batch in $numbered:
        batch_arrays = arrays(batch, dtype)
        loss$carried = evaluation_loss(graphdef, state, $folded*batch_arrays$more)
        total += float(loss) * len(batch_arrays[0])
        count += len(batch_arrays[0])
    return total / count

''')
_DRAWN = {
    "key": "key: jax.Array, ",
    "drawn": "; the model draws from a key",
    "and_key": ", key: jax.Array",
    "number": "number, ",
    "numbered": "enumerate(loader)",
    "folded": "jax.random.fold_in(key, number), ",
}
"""Replacements for an evaluation in which the model draws."""
EVALUATED = Template("""\
held_out = run.drawn(loaders["evaluation"], step) if run else loaders["evaluation"]
evaluated = evaluate(graphdef, state, held_out, dtype$key)
if run:
    run.evaluation(step, loss=evaluated)
${plateau}print(f"epoch {$epoch}: evaluation loss {evaluated:.6f}")
""")


MEASURED = '''

def measured(graphdef: Any, state: State, dtype: Any, batch: Any) -> tuple[jax.Array, ...]:
    """The numbers that the evaluation computes for a batch."""
    return numbers_of(graphdef, state, *arrays(batch, dtype))

'''
COUNTED = '''
def loss_of_batch(graphdef: Any, state: State, dtype: Any, batch: Any) -> tuple[float, int]:
    """The loss of an evaluation batch, by which a recorded run is judged, and its number of examples."""
    batch_arrays = arrays(batch, dtype)
    return float(evaluation_loss(graphdef, state, *batch_arrays)), len(batch_arrays[0])

'''
OWN_EVALUATED = Template("""\
held_out, measure = loaders["evaluation"], partial(measured, graphdef, state, dtype)
if run:
    held_out, measure = run.evaluating(held_out, measure, step$loss)
$evaluate
if run:
    run.evaluated(step)
""")


def evaluation_source(facts: TrainerFacts) -> str:
    """The functions that evaluate; empty if there is no evaluation."""
    if facts.evaluation is None:
        return ""
    if facts.own_evaluation is not None and facts.own_evaluation.judged is not None:
        return MEASURED
    parameters = ", ".join(f"{name}: jax.Array" for name in [*facts.parts, *facts.states])
    params = "average.average" if facts.evaluates_average else "params"
    call = f"model({', '.join([*facts.parts, *facts.states])})"
    draws = facts.draws_in_evaluation
    if facts.parts_of_loss > 1:  # an update's loss is a sum over its microbatches
        call = f"{facts.parts_of_loss} * {call}"
    if draws:
        call = f"with shared_masks(model, key):\n        return {call}"
    pieces: dict[str, Any] = dict(
        _DRAWN if draws else dict.fromkeys(_DRAWN, "") | {"numbered": "loader"},
        parameters=parameters,
        call=f"    {call}" if draws else f"    return {call}",
        where=facts.evaluation,
        begun="    carried = [np.zeros(shape, dtype) for shape in FIRST_EVALUATED]\n" if facts.states else "",
        carried=", *carried" if facts.states else "",
        more=", *carried" if facts.states else "",
        gives="tuple[jax.Array, ...]" if facts.states else "jax.Array",
        params=params,
    )
    if facts.own_evaluation is not None:
        return LOSS.substitute(pieces) + COUNTED + MEASURED
    return LOSS.substitute(pieces) + EVALUATE.substitute(pieces)


def evaluated_source(facts: TrainerFacts) -> tuple[str, str]:
    """The calls of these functions after an epoch, and after all epochs."""
    key = f", jax.random.fold_in(jax.random.key({EVALUATION_SEED}), step)" if facts.draws_in_evaluation else ""
    plateau = "state = after_evaluation(state, evaluated)\n" if facts.steps_plateau else ""
    evaluated = ""
    if facts.evaluation is not None:
        evaluated = EVALUATED.substitute(epoch=facts.epoch, key=key, plateau=plateau)
    if facts.own_evaluation is not None:
        counts = facts.own_evaluation.judged is None
        loss = ", partial(loss_of_batch, graphdef, state, dtype)" if counts else ""
        evaluated = OWN_EVALUATED.substitute(evaluate=_own_call(facts.own_evaluation, facts), loss=loss)
    if facts.evaluates_if and evaluated:
        evaluated = f"if {facts.evaluates_if}:\n{indent(evaluated, ' ' * 4)}"
    if facts.evaluates_at_end and evaluated:
        evaluated, at_end = "", indent(f"if not (run and run.is_over):\n{indent(evaluated, ' ' * 4)}", " " * 8)
    else:
        evaluated, at_end = indent(evaluated, " " * 12), ""
    return evaluated, at_end


def _own_call(evaluation: OwnEvaluation, facts: TrainerFacts) -> str:
    """The call of the original's evaluation; its results are printed under the caller's names."""
    epoch = facts.epoch
    more = "".join(f", {name}={epoch if what == 'epoch' else what}" for name, what in evaluation.more)
    call = f"evaluate(measure, held_out{more})"
    if facts.telling is not None and facts.telling.evaluated is not None:
        return f"{facts.telling.evaluated} = {call}"
    return call if evaluation.shown is None else f'print(f"epoch {{{epoch}}}: {evaluation.shown} {{{call}}}")'
