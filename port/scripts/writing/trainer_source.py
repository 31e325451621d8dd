"""Write the trainer in JAX as source: the loop around train_step, the evaluation, checkpoints, the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template
from textwrap import indent

from port.scripts.writing.evaluation_source import evaluated_source, evaluation_source
from port.scripts.writing.kept_options import kept_options
from port.scripts.writing.loader_workers import workers_pieces
from port.scripts.writing.loop_lines import part_of_batch
from port.scripts.writing.main_of_steps import MAIN as STEPS
from port.scripts.writing.main_of_steps import SAVED_EVERY, steps_pieces
from port.scripts.writing.own_pieces import own_pieces
from port.scripts.writing.shaped_model import shaped_model
from port.scripts.writing.trainer_facts import TrainerFacts

TEXT = Template('''\
"""Train the model of $script in JAX: with its options, its data, its loop.

Run it with `$command`; with $resume it resumes from the last checkpoint.
$keeping"""

from __future__ import annotations

import argparse
${iterating}${multiprocessing}import sys
from contextlib import nullcontext
${partial}from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import torch
from flax import nnx
$meshes$shared
${beside}${evaluating}${classes}from original import $original$late
${samples}from train_step import ${models}State, ${plateau}create, load, train_step$late

${written_for}${first_shape}${first}CHECKPOINTS = Path(__file__).with_name("checkpoints")
$saved

def arguments() -> argparse.Namespace:
    """The options of $script, and those of this file$refusing
    parser = options()
    own = parser.add_argument_group("in JAX")
    own.add_argument("$checkpoints", dest="jax_checkpoints", type=Path, default=CHECKPOINTS, metavar="FOLDER")
    own.add_argument("$resume", dest="jax_resume", action="store_true", help="resume from the last checkpoint")
    own.add_argument("$record", dest="jax_record", type=Path, metavar="FILE", help="write each update's loss to it")
    own.add_argument("$updates", dest="jax_updates", type=int, metavar="N", help="end a recorded run after N updates")
    own.add_argument("$float64", dest="jax_float64", action="store_true", help="weights and inputs in float64")
$parsed
${constructing}
def arrays(batch: Any, dtype: Any) -> tuple[np.ndarray, ...]:
    """A batch's inputs for train_step$layout."""
    inputs = ($inputs)
    return tuple(one.astype(dtype) if np.issubdtype(one.dtype, np.floating) else one for one in inputs)

$together$evaluate
${main}def recorded_run(args: argparse.Namespace) -> Any:
    """With $record: a run with the original's data in its order and its dropout, which records each update."""
    if args.jax_record is None:
        return None
    # Only this needs port.
    RecordedRun = import_module("port.scripts.recording.written_run").RecordedRun
    mapping = Path(__file__).with_name("model.mapping.toml")
    return RecordedRun(args.jax_record, mapping, steps=args.jax_updates$microbatches)


if __name__ == "__main__":
    main()
''')
MAIN = Template('''\
def main() -> None:
    """Train, from the original's initial weights or from a checkpoint."""
    args = arguments()
    jax.config.update("jax_enable_x64", args.jax_float64)
    dtype = "float64" if args.jax_float64 else "float32"
$forks    loaders, epochs$made = data(args)
    training = loaders["training"]
$length    run = recorded_run(args)
    model = $first_model
    if run:
        run.begin($begun)
    graphdef, state = create(model)
$sharding$fixed$hyperparameters    step, done = 0, -1
    keeper = ocp.CheckpointManager(args.jax_checkpoints.resolve(), options=ocp.CheckpointManagerOptions(max_to_keep=1))
$listening    if args.jax_resume:
        if keeper.latest_step() is None:
            sys.exit(f"there is no checkpoint in {args.jax_checkpoints} to resume from")
        kept = keeper.restore(keeper.latest_step(), args=ocp.args.StandardRestore(snapshot(state, 0$unfound)))
        state, step, done = kept["state"], int(kept["step"]), keeper.latest_step()
$remembered        torch.set_rng_state(torch.from_numpy(np.array(kept["order"])))
    elif keeper.latest_step() is not None:
        sys.exit(f"there are checkpoints in {args.jax_checkpoints}: resume with $resume, or choose another folder")
$schedule    with run.recording(step) if run else nullcontext(), keeper:
        for number, $epoch in enumerate(epochs):
            if number <= done:
$replayed                continue
$telling_epoch            batches = run.batches(training, step) if run else training
$first_carried$sums            for batch_number, batch_arrays in enumerate($updating):
$left_before                state, $result$carried = train_step(graphdef, state, $lr*batch_arrays$numbers$options)
$total                if run:
                    run.record(step, loss=loss)
$sampled                step += 1
$telling            if run and run.is_over:
                break
$telling_before$evaluated$telling_after$next_rate            if run:
                run.flush()
            keeper.save(number, args=ocp.args.StandardSave(snapshot(state, step$found)))
$at_end    if run:
$trained


def snapshot(state: State, step: int$hearing) -> dict[str, Any]:
    """The contents of a checkpoint, including the generator that shuffles the data."""
    return {"state": state, "step": step, "order": torch.get_rng_state().numpy()$heard}


''')
TOGETHER = Template('''

def together(batches: Iterable[Any], dtype: Any) -> Iterator[tuple[np.ndarray, ...]]:
    """The $count batches of each update, stacked."""
    microbatches = (arrays(batch, dtype) for batch in batches)
    while group := list(islice(microbatches, $count)):
        yield tuple(np.stack(parts) for parts in zip(*group, strict=True))

''')
SAVED = f'''\
SAVED_EVERY = {SAVED_EVERY}
"""Updates between two checkpoints."""
'''
SAMPLED = Template("""\
                state = sampled(graphdef, state, fixed_inputs, batch_number=batch_number, $epoch=$epoch, args=args)
""")
TELLING_EPOCH = Template("""\
            $sampler.set_epoch($epoch)
""")
MESHES = "from jax.sharding import NamedSharding, PartitionSpec\n"
SHARDING = Template("""\
    # The original's processes become devices of this one: a batch that they divide is sharded over them, and the state
    # is replicated.
    mesh = jax.make_mesh((jax.device_count(),), ("batch",))
    whole, parted = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec($axis"batch"))
    state = jax.device_put(state, whole)

    def placed(one: Any) -> Any:
        divides = one.ndim > $place and one.shape[$place] % mesh.size == 0
        return jax.device_put(one, parted if divides else whole)

""")
TELLING = Template("""\
if batch_number % $every == 0:
    print(f"epoch {$epoch}, batch {batch_number}: loss {float(loss):.6f}", flush=True)
""")
TELLING_SEVERAL = Template("""\
if batch_number % $every == 0:
    said = ", ".join(f"{name} {float(one):.6f}" for name, one in losses.items())
    print(f"epoch {$epoch}, batch {batch_number}: {said}", flush=True)
""")
IN_TURN = """\
        models = Models(model)
        nnx.update(models, state.params, state.rest)
        run.end(models)"""
WHOLE = Template("""\
    if len(training) % $count:
        sys.exit(f"an update uses $count batches, which does not divide an epoch's {len(training)}")
""")
LENGTH = Template("""\
    if $updates != $batches:
        sys.exit(f"the schedule of train_step.py assumes $batches updates per epoch, but there are {$updates}")
""")


def own_flags(flags: Sequence[str]) -> dict[str, str]:
    """A written trainer's own options, chosen around its original's flags: ``record`` is ``--record``."""
    names = ("checkpoints", "resume", "record", "updates", "float64")
    return {name: f"--{name}" if f"--{name}" not in flags else f"--jax-{name}" for name in names}


def trainer_source(facts: TrainerFacts) -> str:
    """The unformatted source of train.py."""
    inputs = list(facts.parts)
    sources = [_input_source(facts, name) for name in inputs]
    moved = any(list(order) != sorted(order) for order in facts.orders.values())
    evaluate = evaluation_source(facts)
    count, several = facts.microbatches, facts.microbatches > 1
    length = LENGTH.substitute(batches=facts.batches, updates=_updates(facts)) if facts.batches is not None else ""
    options = ["*carried"] if facts.states else []
    options += ["masks=run.masks(step) if run else None"] if facts.drops else []
    numbers = facts.hyperparameters
    options += ["**hyperparameters"] if len(numbers) > 1 else [f"{name}={said}" for name, said in numbers.items()]
    evaluated, at_end = evaluated_source(facts)
    pieces = dict(
        own_flags(facts.flags),
        script=facts.script,
        command=facts.command,
        beside=f"sys.path.append({facts.folder!r})  # what {facts.script} imports\n\n" if facts.folder else "",
        late="  # noqa: E402" if facts.folder else "",
        **kept_options(facts),
        layout=", channels last" if moved else "",
        inputs="".join(f"{one}, " for one in sources),
        **shaped_model(facts),
        evaluate=evaluate,
        evaluated=evaluated,
        at_end=at_end,
        together=TOGETHER.substitute(count=count) if several else "",
        iterating=_iterating(facts),
        updating=_updating(facts),
        models="Models, " if facts.in_turn else "",
        plateau="after_evaluation, " if facts.steps_plateau else "",
        made=(", inputs" if facts.makes_inputs else "") + (f", {facts.numbers}" if facts.numbers else ""),
        begun="Models(model)" if facts.in_turn else "model",
        result="losses" if facts.in_turn else "loss",
        total="                loss = sum(losses.values())\n" if facts.in_turn else "",
        samples=f"from samples import fixed, sampled{'  # noqa: E402' if facts.folder else ''}\n"
        if facts.samples
        else "",
        telling_epoch=TELLING_EPOCH.substitute(
            sampler="training" if facts.ranks > 1 else "training.sampler", epoch=facts.epoch
        )
        if facts.tells_epoch
        else "",
        sharding=SHARDING.substitute(axis="None, " if several else "", place=int(several)) if facts.ranks > 1 else "",
        meshes=MESHES if facts.ranks > 1 else "",
        hyperparameters=_hyperparameters(numbers) if len(numbers) > 1 else "",
        fixed="    fixed_inputs = fixed(dtype)\n" if facts.samples else "",
        sampled=SAMPLED.substitute(epoch=facts.epoch) if facts.samples else "",
        **_telling(facts),
        trained=IN_TURN if facts.in_turn else "        run.end(nnx.merge(graphdef, state.params, state.rest))",
        microbatches=f", microbatches={count}" if several else "",
        saved=SAVED if facts.in_steps else "",
        partial="from functools import partial\n" if evaluate else "",
        evaluating=f"from evaluation import evaluate, numbers_of{'  # noqa: E402' if facts.folder else ''}\n"
        if facts.own_evaluation is not None
        else "",
        length=length + (WHOLE.substitute(count=count) if several else ""),
        options="".join(f", {one}" for one in options),
        **workers_pieces(facts.preloaded),
        shared="from port.nn import shared_masks\n" if facts.draws_in_evaluation and evaluate else "",
        **own_pieces(facts),
        epoch=facts.epoch,
    )
    if facts.in_steps:
        pieces |= steps_pieces(facts)
    main = (STEPS if facts.in_steps else MAIN).substitute(pieces)
    return TEXT.substitute(pieces, main=main)


def _iterating(facts: TrainerFacts) -> str:
    """The imports for the loop over the batches."""
    several = facts.microbatches > 1
    types = ["Iterable"] if several or (facts.in_steps and facts.evaluation is not None) else []
    types += ["Iterator"] if several or facts.in_steps else []
    lines = [f"from collections.abc import {', '.join(types)}\n"] if types else []
    return "".join([*lines, *(["from itertools import islice\n"] if several else [])])


def _telling(facts: TrainerFacts) -> dict[str, str]:
    """The prints after an update and after a pass, and the exits from a pass."""
    telling = facts.telling
    template = TELLING_SEVERAL if facts.in_turn else TELLING
    own = indent(template.substitute(every=facts.every, epoch=facts.epoch), " " * 16)
    return {
        "sums": _lines(telling.begun, 12) if telling else "",
        "left_before": _lines(telling.first, 16) if telling else "",
        "telling": (_lines(telling.each, 16) if telling.tells else own + _lines(telling.each, 16)) if telling else own,
        "telling_before": _lines(telling.before, 12) if telling else "",
        "telling_after": _lines(telling.after, 12) if telling else "",
    }


def _lines(statements: Sequence[str], columns: int) -> str:
    return "".join(indent(one, " " * columns) + "\n" for one in statements)


def _hyperparameters(numbers: Mapping[str, str]) -> str:
    """The numbers that train_step takes with every update, set once from the options."""
    return f"    hyperparameters = {{{', '.join(f'{name!r}: {said}' for name, said in numbers.items())}}}\n"


def _input_source(facts: TrainerFacts, name: str) -> str:
    """A part of a batch, as train_step takes it."""
    said = _part(facts.parts[name], facts.orders[name])
    like = facts.like.get(name)
    return said if like is None else f"{said}.reshape(np.shape({part_of_batch(facts.parts[like])}))"


def _updating(facts: TrainerFacts) -> str:
    """The iterator over each update's inputs, as source."""
    made = "run.made(inputs, batch, step) if run else inputs(batch)" if facts.makes_inputs else "batch"
    updates = "together(batches, dtype)" if facts.microbatches > 1 else f"(arrays({made}, dtype) for batch in batches)"
    return updates if facts.ranks == 1 else f"(jax.tree.map(placed, one) for one in {updates})"


def _updates(facts: TrainerFacts) -> str:
    """The number of updates per epoch, as source."""
    return "len(training)" if facts.microbatches == 1 else f"len(training) // {facts.microbatches}"


def _part(path: str, order: Sequence[int]) -> str:
    """Write a part of the batch in JAX's layout: ``np.asarray(batch[0]).transpose(0, 2, 3, 1)``."""
    axes = f".transpose({', '.join(map(str, order))})" if list(order) != sorted(order) else ""
    return f"np.asarray({part_of_batch(path)}){axes}"
