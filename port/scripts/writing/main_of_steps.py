"""Write a trainer's main function around a loop over steps: updates, evaluations and checkpoints in turn."""

from __future__ import annotations

from string import Template
from textwrap import indent

from port.scripts.own_draws import EVALUATION_SEED
from port.scripts.writing.trainer_facts import TrainerFacts

SAVED_EVERY = 100
"""Updates between two checkpoints."""
MAIN = Template('''\
def main() -> None:
    """Train, from the original's initial weights or from a checkpoint."""
    args = arguments()
    jax.config.update("jax_enable_x64", args.jax_float64)
    dtype = "float64" if args.jax_float64 else "float32"
    loaders, plan = data(args)
    run = recorded_run(args)
    model = $first_model
    if run:
        run.begin(model)
    graphdef, state = create(model)
$hyperparameters    updates = $updating
    step, done = 0, 0
    keeper = ocp.CheckpointManager(
        args.jax_checkpoints.resolve(),
        options=ocp.CheckpointManagerOptions(max_to_keep=1, save_interval_steps=SAVED_EVERY),
    )
    if args.jax_resume:
        if keeper.latest_step() is None:
            sys.exit(f"there is no checkpoint in {args.jax_checkpoints} to resume from")
        done = keeper.latest_step()
        state = keeper.restore(done, args=ocp.args.StandardRestore(state))
        step = done
        draw_again(done, plan, updates$held_out)
    elif keeper.latest_step() is not None:
        sys.exit(f"there are checkpoints in {args.jax_checkpoints}: resume with $resume, or choose another folder")
    with run.recording(done) if run else nullcontext(), keeper:
        for doing$rate in plan:
$evaluated            batch_arrays = next(updates, None)
            if batch_arrays is None:  # all requested updates are made
                break
            state, loss = train_step(graphdef, state, $lr*batch_arrays$options)
            if run:
                run.record(step, loss=loss)
            if step % $every == 0:
                print(f"step {step}: loss {float(loss):.6f}", flush=True)
            step += 1
            if keeper.should_save(step):
                if run:
                    run.flush()
                keeper.save(step, args=ocp.args.StandardSave(state))
        if step > done and keeper.latest_step() != step:
            keeper.save(step, args=ocp.args.StandardSave(state), force=True)
    if run:
        run.end(nnx.merge(graphdef, state.params, state.rest))


def draw_again(done: int, plan: Iterator[Any], updates: Iterator[Any]$parameter) -> None:
    """Repeat the draws made before a checkpoint, to bring all generators to the same state."""
    while done > 0 and (doing := next(plan, None)) is not None:
$again
''')
EVALUATED = Template("""\
if doing == "evaluation":
    held_out = run.drawn(loaders["evaluation"], step) if run else loaders["evaluation"]
    evaluated = evaluate(graphdef, state, held_out, dtype$key)
    if run and step:
        run.evaluation(step, loss=evaluated)
    print(f"step {step}: evaluation loss {evaluated:.6f}", flush=True)
    continue
""")
AGAIN = """\
if {doing} == "update":
    next(updates)
    done -= 1
else:
    for _ in held_out:
        pass
"""
ALONE = """\
next(updates)
done -= 1
"""


def steps_pieces(facts: TrainerFacts) -> dict[str, str]:
    """The source pieces for a loop over steps."""
    key = f", jax.random.fold_in(jax.random.key({EVALUATION_SEED}), step)" if facts.draws_in_evaluation else ""
    has = facts.evaluation is not None
    again = AGAIN.format(doing="doing[0]" if facts.takes_rate else "doing") if has else ALONE
    return {
        "every": facts.every,
        "updating": _updating(facts),
        "rate": ", lr" if facts.takes_rate else "",
        "evaluated": indent(EVALUATED.substitute(key=key), " " * 12) if has else "",
        "held_out": ', loaders["evaluation"]' if has else "",
        "parameter": ", held_out: Iterable[Any]" if has else "",
        "again": indent(again, " " * 8),
    }


def _updating(facts: TrainerFacts) -> str:
    """The iterator over each update's inputs, as source."""
    batches = 'run.stream(loaders["training"]) if run else loaders["training"]'
    if facts.microbatches > 1:
        return f"together({batches}, dtype)"
    return f"(arrays(batch, dtype) for batch in ({batches}))"
