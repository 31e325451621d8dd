"""Train the model of whole_script.py in JAX: with its options, its data, its loop.

Run it with `python train_jax/train.py`; with --resume it resumes from the last checkpoint.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import torch
from evaluation import evaluate, numbers_of
from flax import nnx
from original import data, options
from train_step import State, create, load, train_step

CHECKPOINTS = Path(__file__).with_name("checkpoints")


def arguments() -> argparse.Namespace:
    """The options of whole_script.py, and those of this file."""
    parser = options()
    own = parser.add_argument_group("in JAX")
    own.add_argument("--checkpoints", dest="jax_checkpoints", type=Path, default=CHECKPOINTS, metavar="FOLDER")
    own.add_argument("--resume", dest="jax_resume", action="store_true", help="resume from the last checkpoint")
    own.add_argument("--record", dest="jax_record", type=Path, metavar="FILE", help="write each update's loss to it")
    own.add_argument("--updates", dest="jax_updates", type=int, metavar="N", help="end a recorded run after N updates")
    own.add_argument("--float64", dest="jax_float64", action="store_true", help="weights and inputs in float64")
    return parser.parse_args()


def arrays(batch: Any, dtype: Any) -> tuple[np.ndarray, ...]:
    """A batch's inputs for train_step, channels last."""
    inputs = (
        np.asarray(batch[0]).transpose(0, 2, 3, 1),
        np.asarray(batch[1]),
    )
    return tuple(one.astype(dtype) if np.issubdtype(one.dtype, np.floating) else one for one in inputs)


def measured(graphdef: Any, state: State, dtype: Any, batch: Any) -> tuple[jax.Array, ...]:
    """The numbers that the evaluation computes for a batch."""
    return numbers_of(graphdef, state, *arrays(batch, dtype))


def main() -> None:
    """Train, from the original's initial weights or from a checkpoint."""
    args = arguments()
    jax.config.update("jax_enable_x64", args.jax_float64)
    dtype = "float64" if args.jax_float64 else "float32"
    loaders, epochs = data(args)
    training = loaders["training"]
    run = recorded_run(args)
    model = load(param_dtype=dtype)
    if run:
        run.begin(model)
    graphdef, state = create(model)
    hyperparameters = {"lr": args.lr, "weight_decay": args.weight_decay, "T_max": args.epochs * len(training)}
    step, done = 0, -1
    keeper = ocp.CheckpointManager(args.jax_checkpoints.resolve(), options=ocp.CheckpointManagerOptions(max_to_keep=1))
    if args.jax_resume:
        if keeper.latest_step() is None:
            sys.exit(f"there is no checkpoint in {args.jax_checkpoints} to resume from")
        kept = keeper.restore(keeper.latest_step(), args=ocp.args.StandardRestore(snapshot(state, 0)))
        state, step, done = kept["state"], int(kept["step"]), keeper.latest_step()
        torch.set_rng_state(torch.from_numpy(np.array(kept["order"])))
    elif keeper.latest_step() is not None:
        sys.exit(f"there are checkpoints in {args.jax_checkpoints}: resume with --resume, or choose another folder")
    with run.recording(step) if run else nullcontext(), keeper:
        for number, epoch in enumerate(epochs):
            if number <= done:
                continue
            batches = run.batches(training, step) if run else training
            for batch_number, batch_arrays in enumerate((arrays(batch, dtype) for batch in batches)):
                state, loss = train_step(
                    graphdef, state, *batch_arrays, masks=run.masks(step) if run else None, **hyperparameters
                )
                if run:
                    run.record(step, loss=loss)
                step += 1
            if run and run.is_over:
                break
            print(f"epoch {epoch}: loss {loss.item():.4f}")
            held_out, measure = loaders["evaluation"], partial(measured, graphdef, state, dtype)
            if run:
                held_out, measure = run.evaluating(held_out, measure, step)
            evaluate(measure, held_out)
            if run:
                run.evaluated(step)
            if run:
                run.flush()
            keeper.save(number, args=ocp.args.StandardSave(snapshot(state, step)))
    if run:
        run.end(nnx.merge(graphdef, state.params, state.rest))


def snapshot(state: State, step: int) -> dict[str, Any]:
    """The contents of a checkpoint, including the generator that shuffles the data."""
    return {"state": state, "step": step, "order": torch.get_rng_state().numpy()}


def recorded_run(args: argparse.Namespace) -> Any:
    """With --record: a run with the original's data in its order and its dropout, which records each update."""
    if args.jax_record is None:
        return None
    # Only this needs port.
    RecordedRun = import_module("port.scripts.recording.written_run").RecordedRun
    mapping = Path(__file__).with_name("model.mapping.toml")
    return RecordedRun(args.jax_record, mapping, steps=args.jax_updates)


if __name__ == "__main__":
    main()
