"""The trainer in JAX, as source: the loop around train_step, the evaluation, checkpoints, the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template
from textwrap import indent
from typing import Any

TEXT = Template('''\
"""Trains what $script trains, in JAX: its options, its data, its loop.

    $command
    $command --resume

Options that train_step.py was written for (WRITTEN_FOR) keep their values: `port script` writes it for others.
"""

from __future__ import annotations

import argparse
${iterating}${multiprocessing}import sys
from contextlib import nullcontext
${partial}from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import torch
from flax import nnx

${beside}from original import data, options$late
from train_step import State, create, load, train_step$late

WRITTEN_FOR: dict[str, Any] = $written_for
CHECKPOINTS = Path(__file__).with_name("checkpoints")


def arguments() -> argparse.Namespace:
    """The options of $script, and those of this file.

    Raises:
        SystemExit: one has another value than train_step.py was written for.
    """
    parser = options()
    own = parser.add_argument_group("in JAX")
    own.add_argument("$checkpoints", dest="jax_checkpoints", type=Path, default=CHECKPOINTS, metavar="FOLDER")
    own.add_argument("$resume", dest="jax_resume", action="store_true", help="go on from the last checkpoint")
    own.add_argument("$record", dest="jax_record", type=Path, metavar="FILE", help="each update's loss goes there")
    own.add_argument("$updates", dest="jax_updates", type=int, metavar="N", help="of a recorded run: it ends there")
    own.add_argument("$float64", dest="jax_float64", action="store_true", help="weights and inputs in float64")
    args = parser.parse_args()
    for name, value in WRITTEN_FOR.items():
        if getattr(args, name) != value:
            parser.error(
                f"{name} is {getattr(args, name)!r}, and train_step.py was written for {value!r}: for another, "
                "port script $script -- with it"
            )
    return args


def arrays(batch: Any, dtype: Any) -> tuple[np.ndarray, ...]:
    """A batch as train_step takes it$layout."""
    given = ($given)
    return tuple(one.astype(dtype) if np.issubdtype(one.dtype, np.floating) else one for one in given)

$together$evaluate
def main() -> None:
    """Train, from the original's first weights or from a checkpoint."""
    args = arguments()
    jax.config.update("jax_enable_x64", args.jax_float64)
    dtype = "float64" if args.jax_float64 else "float32"
$forks    loaders, epochs = data(args)
    training = loaders["training"]
$length    run = recorded_run(args)
    model = load(param_dtype=dtype)
    if run:
        run.begin(model)
    graphdef, state = create(model)
    step, done = 0, -1
    keeper = ocp.CheckpointManager(args.jax_checkpoints.resolve(), options=ocp.CheckpointManagerOptions(max_to_keep=1))
    if args.jax_resume:
        if keeper.latest_step() is None:
            sys.exit(f"there is no checkpoint in {args.jax_checkpoints} to go on from")
        kept = keeper.restore(keeper.latest_step(), args=ocp.args.StandardRestore(snapshot(state, 0)))
        state, step, done = kept["state"], int(kept["step"]), keeper.latest_step()
        torch.set_rng_state(torch.from_numpy(np.array(kept["order"])))
    elif keeper.latest_step() is not None:
        sys.exit(f"there are checkpoints in {args.jax_checkpoints}: $resume goes on from them; or name another folder")
    with run.recording(step) if run else nullcontext(), keeper:
        for number, $epoch in enumerate(epochs):
            if number <= done:
                continue
            batches = run.batches(training, step) if run else training
            for batch_number, given in enumerate($updating):
                state, loss = train_step(graphdef, state, *given$options)
                if run:
                    run.record(step, loss=loss)
                step += 1
                if batch_number % $every == 0:
                    print(f"epoch {$epoch}, batch {batch_number}: loss {float(loss):.6f}", flush=True)
            if run and run.is_over:
                break
$evaluated            if run:
                run.flush()
            keeper.save(number, args=ocp.args.StandardSave(snapshot(state, step)))
$at_end    if run:
        run.end(nnx.merge(graphdef, state.params, state.rest))


def snapshot(state: State, step: int) -> dict[str, Any]:
    """What a checkpoint holds; with the generator that shuffles the data."""
    return {"state": state, "step": step, "order": torch.get_rng_state().numpy()}


def recorded_run(args: argparse.Namespace) -> Any:
    """Under $record: what has the original's data in its order, its dropout, and writes each update down."""
    if args.jax_record is None:
        return None
    from port.scripts.recording.written_run import RecordedRun

    mapping = Path(__file__).with_name("model.mapping.toml")
    return RecordedRun(args.jax_record, mapping, steps=args.jax_updates$microbatches)


if __name__ == "__main__":
    main()
''')
EVALUATE = Template('''

@partial(jax.jit, static_argnums=0)
def evaluation_loss(graphdef: Any, state: State, $parameters) -> jax.Array:
    """The loss of a batch in evaluation mode."""
    model = nnx.merge(graphdef, state.${params}, state.rest, copy=True)
    model.eval()
    return model($inputs)


def evaluate(graphdef: Any, state: State, loader: Any, dtype: Any) -> float:
    """The mean over the examples of a loader.

    As at $where.
    """
    total, count = 0.0, 0
    for batch in loader:
        given = arrays(batch, dtype)
        total += float(evaluation_loss(graphdef, state, *given)) * len(given[0])
        count += len(given[0])
    return total / count

''')
EVALUATED = Template("""\
held_out = run.drawn(loaders["evaluation"], step) if run else loaders["evaluation"]
evaluated = evaluate(graphdef, state, held_out, dtype)
if run:
    run.evaluation(step, loss=evaluated)
print(f"epoch {$epoch}: evaluation loss {evaluated:.6f}")
""")
TOGETHER = Template('''

def together(batches: Iterable[Any], dtype: Any) -> Iterator[tuple[np.ndarray, ...]]:
    """For each update its $count batches, stacked."""
    given = (arrays(batch, dtype) for batch in batches)
    while group := list(islice(given, $count)):
        yield tuple(np.stack(parts) for parts in zip(*group, strict=True))

''')
ITERATING = "from collections.abc import Iterable, Iterator\nfrom itertools import islice\n"
FORKS = """\
    multiprocessing.set_start_method("spawn")  # of the loaders' workers: a fork would lose JAX's threads
"""
WHOLE = Template("""\
    if len(training) % $count:
        sys.exit(f"an update is of $count batches, and {len(training)} in an epoch leave some over")
""")
LENGTH = Template("""\
    if $updates != $batches:
        sys.exit(f"the schedule of train_step.py counts $batches updates an epoch, and these are {$updates}")
""")


@dataclass(frozen=True)
class TrainerFacts:
    """What the source says.

    Attributes:
        script: the original's name.
        command: how it is run, without an option of its own.
        folder: where the original lies, if modules are imported from there.
        parts: of a batch that train_step is given, each by its path ("0", "image.0"), by the name of the input.
        orders: of the inputs' axes in JAX.
        flags: of the original, which are not ours.
        written_for: the options that keep their values.
        epoch: the variable that counts epochs.
        every: between two lines about the loss.
        evaluation: the original's line that evaluates; None where there is no evaluation.
        evaluates_at_end: whether it evaluates once, behind all epochs.
        batches: an epoch's updates, where a schedule counts them.
        rate: the option that is the learning rate, if train_step takes it.
        forks: whether the loaders have workers.
        microbatches: of an update.
        drops: whether train_step may be given the key of its dropout.
        evaluates_average: whether the weights' average is evaluated.
    """

    script: str
    command: str
    folder: str | None
    parts: Mapping[str, str]
    orders: Mapping[str, Sequence[int]]
    flags: Sequence[str]
    written_for: Mapping[str, Any]
    epoch: str = "epoch"
    every: str = "10"
    evaluation: str | None = None
    evaluates_at_end: bool = False
    batches: int | None = None
    rate: str | None = None
    forks: bool = False
    microbatches: int = 1
    drops: bool = False
    evaluates_average: bool = False


def own_flags(flags: Sequence[str]) -> dict[str, str]:
    """The options of a written trainer's own, beside its original's flags: ``record`` is ``--record``."""
    names = ("checkpoints", "resume", "record", "updates", "float64")
    return {name: f"--{name}" if f"--{name}" not in flags else f"--jax-{name}" for name in names}


def trainer_source(facts: TrainerFacts) -> str:
    """The source of train.py, to be formatted."""
    inputs = list(facts.parts)
    given = [_part(facts.parts[name], facts.orders[name]) for name in inputs]
    moved = any(list(order) != sorted(order) for order in facts.orders.values())
    evaluate = ""
    if facts.evaluation is not None:
        parameters = ", ".join(f"{name}: jax.Array" for name in inputs)
        params = "average.average" if facts.evaluates_average else "params"
        evaluate = EVALUATE.substitute(
            parameters=parameters, inputs=", ".join(inputs), where=facts.evaluation, params=params
        )
    count, several = facts.microbatches, facts.microbatches > 1
    length = LENGTH.substitute(batches=facts.batches, updates=_updates(facts)) if facts.batches is not None else ""
    options = ["masks=run.masks(step) if run else None"] if facts.drops else []
    options += [f"lr=args.{facts.rate}"] if facts.rate else []
    evaluated = EVALUATED.substitute(epoch=facts.epoch) if facts.evaluation is not None else ""
    if facts.evaluates_at_end and evaluated:
        evaluated, at_end = "", indent(f"if not (run and run.is_over):\n{indent(evaluated, ' ' * 4)}", " " * 8)
    else:
        evaluated, at_end = indent(evaluated, " " * 12), ""
    return TEXT.substitute(
        own_flags(facts.flags),
        script=facts.script,
        command=facts.command,
        beside=f"sys.path.append({facts.folder!r})  # what {facts.script} imports\n\n" if facts.folder else "",
        late="  # noqa: E402" if facts.folder else "",
        written_for=repr(dict(facts.written_for)),
        layout=", channels last" if moved else "",
        given="".join(f"{one}, " for one in given),
        evaluate=evaluate,
        evaluated=evaluated,
        at_end=at_end,
        together=TOGETHER.substitute(count=count) if several else "",
        iterating=ITERATING if several else "",
        updating="together(batches, dtype)" if several else "(arrays(batch, dtype) for batch in batches)",
        microbatches=f", microbatches={count}" if several else "",
        partial="from functools import partial\n" if evaluate else "",
        length=length + (WHOLE.substitute(count=count) if several else ""),
        options="".join(f", {one}" for one in options),
        forks=FORKS if facts.forks else "",
        multiprocessing="import multiprocessing\n" if facts.forks else "",
        epoch=facts.epoch,
        every=facts.every,
    )


def _updates(facts: TrainerFacts) -> str:
    """The updates of an epoch, as source."""
    return "len(training)" if facts.microbatches == 1 else f"len(training) // {facts.microbatches}"


def _part(path: str, order: Sequence[int]) -> str:
    """``np.asarray(batch[0]).transpose(0, 2, 3, 1)``"""
    said = "batch" + "".join(f"[{step}]" if step.isdigit() else f"[{step!r}]" for step in path.split(".") if step)
    axes = f".transpose({', '.join(map(str, order))})" if list(order) != sorted(order) else ""
    return f"np.asarray({said}){axes}"
