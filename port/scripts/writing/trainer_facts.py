"""The facts from which a trainer is written, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from port.scripts.writing.own_evaluation import OwnEvaluation
from port.scripts.writing.own_telling import OwnTelling
from port.scripts.writing.shaping import Shaping


@dataclass(frozen=True)
class TrainerFacts:
    """The facts from which the source is written.

    Attributes:
        script: the original's name.
        command: how to run it, without its own options.
        folder: the original's folder, if modules are imported from there.
        parts: where in a batch each input of train_step is, as a path ("0", "image.0"), by the name of the input.
        orders: the inputs' axis orders in JAX.
        flags: the original's flags.
        written_for: the options with fixed values.
        shaping: how the free options shape the model; None if none does.
        epoch: the variable that counts epochs.
        every: the interval between two lines about the loss.
        evaluation: the original's line that evaluates; None if there is no evaluation.
        own_evaluation: the original's evaluation, copied; None if it is the mean of the training loss.
        telling: the original's prints while it trains, copied; None if train.py prints in its own way.
        evaluates_if: the condition on the epochs that evaluate; empty if all do.
        evaluates_at_end: whether it evaluates once, after all epochs.
        batches: the number of updates per epoch, if a schedule needs it.
        hyperparameters: the optimizer's numbers that train_step takes, each with its expression.
        preloaded: the modules that a fork server imports for the loaders' workers; empty if there are no workers.
        microbatches: the number of microbatches per update.
        drops: whether train_step takes the key of its dropout.
        data: the name of the function in original.py that makes the data.
        states: the values that an update carries to the next one.
        first: their shapes; they are zeros at the start of a pass.
        first_evaluated: their shapes at the start of an evaluation.
        own: whether the script makes its batches itself, perhaps with its own generators.
        takes_rate: whether train_step takes each epoch's learning rate.
        hears: whether the rate depends on the evaluations' results.
        like: inputs that a batch has flattened, by the one whose shape they have.
        draws_in_evaluation: whether the model draws in evaluation, too.
        evaluates_average: whether the weights' average is evaluated.
        in_turn: whether several optimizers step in turn, so that an update has several losses.
        makes_inputs: whether the original's lines make inputs of train_step from a batch.
        tells_epoch: whether the sampler's set_epoch is called before each pass.
        ranks: the number of processes in which the original trains, each on its part of the batch.
        steps_plateau: whether the rate follows from the result of each epoch's evaluation.
        numbers: the generator of each update's number: "rates", or "numbers", which follow its other inputs.
        in_steps: whether there are no epochs, but a plan of updates and evaluations.
        parts_of_loss: the number of microbatches by which train_step's loss is divided; an evaluation's is undivided.
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
