"""What a written trainer says, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from port.scripts.writing.own_evaluation import OwnEvaluation
from port.scripts.writing.own_telling import OwnTelling
from port.scripts.writing.shaping import Shaping


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
        shaping: of the model, by the options that are free; None where none shapes it.
        epoch: the variable that counts epochs.
        every: between two lines about the loss.
        evaluation: the original's line that evaluates; None where there is no evaluation.
        own_evaluation: the original's evaluation in its own lines; None where it is the mean of training's loss.
        telling: what the original prints while it trains, in its own lines; None where train.py has lines of its own.
        evaluates_if: in which epochs it evaluates, as a condition; empty where in all.
        evaluates_at_end: whether it evaluates once, behind all epochs.
        batches: an epoch's updates, where a schedule counts them.
        hyperparameters: numbers of the optimizer that train_step takes, each with the expression that gives it.
        preloaded: the modules that a fork server imports for the loaders' workers; none where they have no workers.
        microbatches: of an update.
        drops: whether train_step may be given the key of its dropout.
        data: the function's name in original.py that makes the data.
        states: what an update leaves for the next one.
        first: the shapes of these, which are zeros where a pass begins.
        first_evaluated: where an evaluation begins.
        own: whether the script makes its batches itself, perhaps by generators of its own.
        takes_rate: whether train_step is given each epoch's learning rate.
        hears: whether that depends on what the evaluations find.
        like: inputs that a batch has flattened, by the one whose shape they have.
        draws_in_evaluation: whether the model draws in evaluation, too.
        evaluates_average: whether the weights' average is evaluated.
        in_turn: whether several optimizers step in turn, so that an update has several losses.
        makes_inputs: whether the original's lines make something of a batch that train_step is given.
        tells_epoch: whether the sampler is told the epoch before each pass.
        ranks: the processes in which the original trains, each on its part of the batch.
        steps_plateau: whether the rate follows from what the evaluation behind each epoch finds.
        numbers: what gives each update a number: "rates", or "numbers", which stand behind its other inputs.
        in_steps: whether there are no epochs, but a plan of updates and evaluations.
        parts_of_loss: into how many microbatches' shares train_step's loss is divided; an evaluation's is whole.
        samples: whether samples.py has what the original makes after an update.
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
    own_evaluation: OwnEvaluation | None = None
    telling: OwnTelling | None = None
    evaluates_at_end: bool = False
    evaluates_if: str = ""
    batches: int | None = None
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    preloaded: tuple[str, ...] = ()
    microbatches: int = 1
    drops: bool = False
    data: str = "data"
    states: Sequence[str] = ()
    first: Sequence[Sequence[int]] = ()
    first_evaluated: Sequence[Sequence[int]] = ()
    own: bool = False
    takes_rate: bool = False
    hears: bool = False
    like: Mapping[str, str] = field(default_factory=dict)
    draws_in_evaluation: bool = False
    evaluates_average: bool = False
    in_turn: bool = False
    makes_inputs: bool = False
    samples: bool = False
    steps_plateau: bool = False
    tells_epoch: bool = False
    ranks: int = 1
    numbers: str = ""
    shaping: Shaping | None = None
    in_steps: bool = False
    parts_of_loss: int = 1
