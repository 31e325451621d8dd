"""The trainer in JAX, as source: the loop around train_step, the evaluation, checkpoints, the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

TEXT = Template('''\
"""Trains what $script trains, in JAX: its options, its data, its loop.

    $command
    $command --resume

Options that train_step.py was written for (WRITTEN_FOR) keep their values: `port script` writes it for others.
"""

from __future__ import annotations

import argparse
${multiprocessing}import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
${partial}from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import torch
${nnx}
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

$evaluate
def main() -> None:
    """Train, from the original's first weights or from a checkpoint."""
    args = arguments()
    jax.config.update("jax_enable_x64", args.jax_float64)
    dtype = "float64" if args.jax_float64 else "float32"
$forks    loaders, epochs = data(args)
    training = loaders["training"]
$length    graphdef, state = create(load(param_dtype=dtype))
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
    with recorder(args.jax_record, step) as record, keeper:
        for number, $epoch in enumerate(epochs):
            if number <= done:
                continue
            for batch_number, batch in enumerate(training):
                state, loss = train_step(graphdef, state, *arrays(batch, dtype)$rate)
                record(step, loss=loss)
                step += 1
                if batch_number % $every == 0:
                    print(f"epoch {$epoch}, batch {batch_number}: loss {float(loss):.6f}", flush=True)
$evaluated            keeper.save(number, args=ocp.args.StandardSave(snapshot(state, step)))


def snapshot(state: State, step: int) -> dict[str, Any]:
    """What a checkpoint holds; with the generator that shuffles the data."""
    return {"state": state, "step": step, "order": torch.get_rng_state().numpy()}


def recorder(path: Path | None, step: int) -> AbstractContextManager[Callable[..., object]]:
    """What is given each update's loss."""
    if path is None:
        return nullcontext(lambda step, **values: None)
    from port import Recorder

    return Recorder(path, resume_at=step) if step else Recorder(path)


if __name__ == "__main__":
    main()
''')
EVALUATE = Template('''

@partial(jax.jit, static_argnums=0)
def evaluation_loss(graphdef: Any, state: State, $parameters) -> jax.Array:
    """The loss of a batch in evaluation mode."""
    model = nnx.merge(graphdef, state.params, state.rest, copy=True)
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
EVALUATED = """\
            print(f"epoch {$epoch}: evaluation loss {evaluate(graphdef, state, loaders['evaluation'], dtype):.6f}")
"""
FORKS = """\
    multiprocessing.set_start_method("spawn")  # of the loaders' workers: a fork would lose JAX's threads
"""
LENGTH = Template("""\
    if len(training) != $batches:
        sys.exit(f"the schedule of train_step.py counts $batches updates an epoch, and these are {len(training)}")
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
        batches: an epoch's updates, where a schedule counts them.
        rate: the option that is the learning rate, if train_step takes it.
        forks: whether the loaders have workers.
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
    batches: int | None = None
    rate: str | None = None
    forks: bool = False


def trainer_source(facts: TrainerFacts) -> str:
    """The source of train.py, to be formatted."""
    inputs = list(facts.parts)
    given = [_part(facts.parts[name], facts.orders[name]) for name in inputs]
    moved = any(list(order) != sorted(order) for order in facts.orders.values())
    own = {name: f"--{name}" for name in ("checkpoints", "resume", "record", "float64")}
    own = {name: flag if flag not in facts.flags else f"--jax-{name}" for name, flag in own.items()}
    evaluate = ""
    if facts.evaluation is not None:
        parameters = ", ".join(f"{name}: jax.Array" for name in inputs)
        evaluate = EVALUATE.substitute(parameters=parameters, inputs=", ".join(inputs), where=facts.evaluation)
    evaluated = Template(EVALUATED).substitute(epoch=facts.epoch) if facts.evaluation is not None else ""
    return TEXT.substitute(
        own,
        script=facts.script,
        command=facts.command,
        beside=f"sys.path.append({facts.folder!r})  # what {facts.script} imports\n\n" if facts.folder else "",
        late="  # noqa: E402" if facts.folder else "",
        written_for=repr(dict(facts.written_for)),
        layout=", channels last" if moved else "",
        given="".join(f"{one}, " for one in given),
        evaluate=evaluate,
        evaluated=evaluated,
        partial="from functools import partial\n" if evaluate else "",
        nnx="from flax import nnx\n" if evaluate else "",
        length=LENGTH.substitute(batches=facts.batches) if facts.batches is not None else "",
        rate=f", lr=args.{facts.rate}" if facts.rate else "",
        forks=FORKS if facts.forks else "",
        multiprocessing="import multiprocessing\n" if facts.forks else "",
        epoch=facts.epoch,
        every=facts.every,
    )


def _part(path: str, order: Sequence[int]) -> str:
    """``np.asarray(batch[0]).transpose(0, 2, 3, 1)``"""
    said = "batch" + "".join(f"[{step}]" if step.isdigit() else f"[{step!r}]" for step in path.split(".") if step)
    axes = f".transpose({', '.join(map(str, order))})" if list(order) != sorted(order) else ""
    return f"np.asarray({said}){axes}"
