"""Times a written trainer's loop and step beside `side_by_side`'s. `test_script_speed.py` starts it as a process:

    python script_times.py FOLDER        FOLDER is what `port script watched_script.py` has written

It prints one line of JSON: of each round, the seconds of a step in the written loop, of its bare step, and of the bare
step of `side_by_side`'s trainer on the same model; each by the clock, and as computed by all threads.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

STEPS = 20
"""Of the loop in a round, and of either bare step."""
ROUNDS = 20


class Over(Exception):
    """All rounds are measured."""


class Rounds:
    """Stands in for the written train_step: behind every so many calls it times both bare steps.

    Args:
        step: the written train_step.
        theirs: makes the other trainer's bare step.
    """

    def __init__(self, step: Callable[..., Any], theirs: Callable[[], Callable[[int], None]]) -> None:
        self.seconds: dict[str, list[Any]] = {"loop": [], "step": [], "side_by_side": []}
        self._step, self._make_theirs = step, theirs
        self._calls = 0
        self._began: Any = None

    def __call__(self, graphdef: Any, state: Any, *given: Any, **options: Any) -> Any:
        import jax
        from trainer_times import now, since, timed

        state, loss = self._step(graphdef, state, *given, **options)
        self._calls += 1
        if self._calls % STEPS == 0:
            jax.block_until_ready((state, loss))
            if self._began is None:
                self._theirs = self._make_theirs()
                self._ours = bare(self._step, graphdef, state, given, options)
                time.sleep(1)
            else:
                self.seconds["loop"].append(since(self._began, STEPS))
            self.seconds["step"].append(timed(self._ours, STEPS))
            self.seconds["side_by_side"].append(timed(self._theirs, STEPS))
            if len(self.seconds["loop"]) == ROUNDS:
                raise Over
            self._began = now()
        return state, loss


def bare(step: Callable[..., Any], graphdef: Any, state: Any, given: Any, options: Any) -> Callable[[int], None]:
    """The written step, so often, on one batch that is there."""
    import jax

    state = jax.tree.map(lambda one: one.copy(), state)  # it is donated
    given = jax.device_put(given)

    def run(steps: int) -> None:
        nonlocal state
        for _ in range(steps):
            state, loss = step(graphdef, state, *given, **options)
        jax.block_until_ready((state, loss))

    run(2)
    return run


def main(folder: str) -> None:
    """Run the written trainer until all is measured."""
    sys.path.insert(0, folder)
    import train
    from trainer_times import CONFIG, jax_step

    from side_by_side.jax.replicas import Replicas

    rounds = Rounds(train.train_step, partial(jax_step, Replicas(CONFIG), bare=True))
    train.train_step = rounds
    sys.argv = ["train.py", "--checkpoints", str(Path(folder) / "timed")]
    try:
        train.main()
    except Over:
        print(json.dumps(rounds.seconds), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main(sys.argv[1])
