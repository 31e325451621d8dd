"""What both trainers are told: one frozen dataclass, checked when it is made.

Its fields are the options of `port train`, of `python -m side_by_side.pytorch.train` and of
`python -m side_by_side.jax.train`. Nothing here belongs to either framework.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from port.data import DATASETS
from port.data.shards import SPLITS, UNEVEN
from port.errors import UnknownChoice, UsageError
from port.optim import NAMES, default_options
from side_by_side.own import check_own

MODELS = ("mlp-by-hand", "mlp", "convnet")
UNPROVABLE = {
    "lbfgs": "it evaluates the loss several times an update, and on a new batch each time it is chaos, in torch itself",
    "muon": "torch's rounds to bfloat16 inside, so that no two implementations agree over a run, in float64 either",
}
"""Optimizers that no trainer takes, and why. `port.to_optax` has them."""
UNSHARDED = ("adafactor", "rprop")
"""Optimizers that torch has not for parameters that are cut up among ranks (D28)."""
OPTIMIZERS = tuple(name for name in NAMES if name not in UNPROVABLE)
SCHEDULES = (
    "constant",
    "cosine",
    "step",
    "multi-step",
    "exponential",
    "polynomial",
    "warm-up",
    "warm-restarts",
    "cyclic",
    "one-cycle",
)
PRECISIONS = ("float64", "float32")
DEVICES = ("auto", "cpu", "gpu")
PARALLEL = ("pmap", "shard-map", "sharding", "fsdp")
WHOLE_BATCH = ("sharding", "fsdp")  # jit over a sharded batch: the step of one device
STATISTICS = ("replica", "synchronised")
MASKS = ("global", "replica")


def _one_of(*names: str) -> object:
    return arg(metavar="{" + ",".join(names) + "}")


@dataclass(frozen=True)
class Config:
    """One training run, as both sides run it.

    Raises:
        UsageError: a value that cannot be right; says which, and what it may be.
    """

    model: Annotated[str, _one_of(*MODELS)] = "mlp"
    """the network to train"""
    torch_model: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """in its place, a PyTorch model of your own, a class or a function; with --jax-model. It is given images in [0, 1],
    (N, C, H, W), and gives logits"""
    jax_model: Annotated[str | None, arg(metavar="FILE.py:NAME")] = None
    """its Flax class, such as port translate writes it: NAME.mapping.toml beside the file says how weights go over"""
    torch_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """arguments that --torch-model is built with: '{"width": 64}', or '{"config": {"@my_pkg.model:Config": {}}}'"""
    jax_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """those of --jax-model; one that port translate has written needs none"""
    dataset: Annotated[str, _one_of(*DATASETS)] = "digits"
    """what to train it on; digits comes with scikit-learn, the others are torchvision's"""
    data_root: Path = Path("data")
    """torchvision's root folder"""
    download: bool = False
    """fetch the dataset into the root folder if it is not there"""
    batch_size: int = 64
    """samples in a (global) batch"""
    drop_last: bool = True
    """leave out an epoch's last batch if it is not full"""
    accumulate: int = 1
    """microbatches that a batch is taken in, their gradients summed up for one update"""
    augment: bool = False
    """shift the images at random, and mirror them where that makes sense; the same pixels on both sides"""
    workers: int = 0
    """processes that load the data; the batches are the same whatever their number"""
    epochs: Annotated[int | None, arg(metavar="INT")] = None
    """how long to train; 10 if neither epochs nor steps are given"""
    steps: Annotated[int | None, arg(metavar="INT")] = None
    """how long to train, in batches"""
    optimizer: Annotated[str, _one_of(*OPTIMIZERS)] = "sgd"
    """any of torch.optim's, with torch's defaults"""
    lr: Annotated[float | None, arg(metavar="FLOAT")] = None
    """learning rate; if not given, 0.05 for sgd and torch's default for the others"""
    momentum: Annotated[float | None, arg(metavar="FLOAT")] = None
    """of sgd and rmsprop; if not given, 0.9 for sgd and torch's 0 for rmsprop"""
    weight_decay: Annotated[float | None, arg(metavar="FLOAT")] = None
    """decoupled in adamw and adafactor, else added to the gradient; if not given, torch's: 0.01 for adamw, else 0"""
    schedule: Annotated[str, _one_of(*SCHEDULES)] = "constant"
    """the learning rate over the run, changed every update: one of torch's schedulers"""
    decay_every: Annotated[int | None, arg(metavar="INT")] = None
    """updates between two decays (step), two restarts, or from a cycle's foot to its top; a third of the run if not
    given"""
    decay_rate: float = 0.1
    """what the learning rate is multiplied by: by a step, or over the whole run (exponential)"""
    clip_norm: Annotated[float | None, arg(metavar="FLOAT")] = None
    """scale the gradients down to this norm where theirs is larger"""
    dropout: Annotated[float | None, arg(metavar="FLOAT")] = None
    """the rate; if not given, 0.5 in the convnet and 0 elsewhere"""
    precision: Annotated[str, _one_of(*PRECISIONS, "both")] = "both"
    """float64 proves, float32 is what one trains in"""
    matmul_precision: Annotated[str, _one_of("highest", "default")] = "highest"
    """of float32 on an accelerator: default allows TF32 and the like"""
    device: Annotated[str, _one_of(*DEVICES)] = "auto"
    """of float32: auto takes an accelerator where there is one"""
    proof_device: Annotated[str, _one_of("cpu", "gpu")] = "cpu"
    """of float64"""
    devices: int = 1
    """replicas that share a batch: as many ranks of DDP, as many devices of a JAX process (virtual ones on a CPU)"""
    processes: int = 1
    """JAX processes, of so many devices each; there are devices x processes replicas, on either side"""
    parallel: Annotated[str, _one_of(*PARALLEL)] = "pmap"
    """JAX's form of data parallelism: pmap, shard_map, or jit over a sharded batch; fsdp shards parameters and
    optimizer state too, on both sides"""
    split: Annotated[str, _one_of(*SPLITS)] = "interleaved"
    """which samples of a batch a replica sees: every n-th, as with DistributedSampler, or a block"""
    uneven: Annotated[str, _one_of(*UNEVEN)] = "pad"
    """a last batch that the replicas cannot share equally, with --no-drop-last: filled up as by DistributedSampler, or
    shared unequally, each loss weighted"""
    batch_norm: Annotated[str | None, _one_of(*STATISTICS)] = None
    """whose statistics a replica normalises with: its own, or the whole batch's; if not given, its own, but with
    --parallel sharding or fsdp the batch's. The running statistics that are kept are replica 0's"""
    dropout_masks: Annotated[str, _one_of(*MASKS)] = "global"
    """drawn for the whole batch, whatever the replicas, or for each replica from its own key"""
    checkpoint_every: Annotated[int | None, arg(metavar="INT")] = None
    """updates between two checkpoints; none are written if not given"""
    resume: bool = False
    """go on from the last checkpoint in the run's folder, which --out names"""
    time_limit: float = 600.0
    """seconds that a trainer may take for one step (two minutes for the first, which compiles, if that is more); a rank
    that hangs is found out so"""
    seed: int = 0
    """of the initial weights, the order of the data, augmentation and dropout"""
    out: Annotated[Path | None, arg(metavar="PATH")] = None
    """the run's folder; a new one under runs/ if not given"""

    def __post_init__(self) -> None:
        _check_choice("model", self.model, MODELS)
        _check_choice("dataset", self.dataset, tuple(DATASETS))
        if self.optimizer in UNPROVABLE:
            raise UsageError(f"the trainers have no {self.optimizer}: {UNPROVABLE[self.optimizer]}; take adamw, say")
        _check_choice("optimizer", self.optimizer, OPTIMIZERS)
        _check_choice("schedule", self.schedule, SCHEDULES)
        _check_choice("precision", self.precision, (*PRECISIONS, "both"))
        _check_choice("matmul precision", self.matmul_precision, ("highest", "default"))
        _check_choice("device", self.device, DEVICES)
        _check_choice("proof device", self.proof_device, ("cpu", "gpu"))
        _check_choice("form of data parallelism", self.parallel, PARALLEL)
        _check_choice("split", self.split, SPLITS)
        _check_choice("way with an uneven batch", self.uneven, UNEVEN)
        _check_choice("batch statistics", self.statistics, STATISTICS)
        _check_choice("dropout masks", self.dropout_masks, MASKS)
        if self.epochs is not None and self.steps is not None:
            raise UsageError(f"give epochs or steps, not both (got {self.epochs} epochs, {self.steps} steps)")
        for name in (
            *("batch_size", "epochs", "steps", "decay_every"),
            *("accumulate", "devices", "processes", "checkpoint_every"),
        ):
            _check(name, getattr(self, name), "at least 1", lambda value: value >= 1)
        for name in ("lr", "clip_norm"):
            _check(name, getattr(self, name), "above 0", lambda value: 0 < value < math.inf)
        _check("time_limit", self.time_limit, "above 0, and a month at most", lambda value: 0 < value <= 31 * 86_400)
        for name in ("workers", "seed"):
            _check(name, getattr(self, name), "0 or more", lambda value: value >= 0)
        for name in ("weight_decay", "decay_rate"):
            _check(name, getattr(self, name), "0 or more", lambda value: 0 <= value < math.inf)
        for name, options in (("momentum", "momentum"), ("weight decay", "weight_decay")):
            if getattr(self, options) and options not in default_options(self.optimizer):
                raise UsageError(f"torch's {self.optimizer} has no {name}")
        for name in ("momentum", "dropout"):
            _check(name, getattr(self, name), "from 0 to below 1", lambda value: 0 <= value < 1)
        if self.model == "mlp-by-hand" and self.dropout:
            raise UsageError("mlp-by-hand is written without dropout; take --model mlp")
        check_own(self)
        if self.resume and self.out is None:
            raise UsageError("--resume goes on with a run that was begun: name its folder with --out")
        self._check_parallel()

    def _check_parallel(self) -> None:
        if self.batch_size % (self.replicas * self.accumulate):
            raise UsageError(
                f"a batch of {self.batch_size} is not divisible by {self.replicas} replicas x {self.accumulate} "
                f"microbatches; the next that is: --batch-size {self._next_batch_size}"
            )
        if self.replicas == 1 or self.parallel not in WHOLE_BATCH:
            return
        for option, given in (("batch-norm", self.statistics), ("dropout-masks", self.dropout_masks)):
            if given == "replica":
                raise UsageError(
                    f"--{option} replica: jit over a sharded batch computes as one device does, and knows no "
                    "replicas; take --parallel pmap or shard-map"
                )
        if self.parallel == "fsdp" and self.optimizer in UNSHARDED:
            raise UsageError(
                f"--parallel fsdp: torch's {self.optimizer} does not take parameters that are cut up among ranks; "
                "take adamw, say, or --parallel sharding"
            )

    @property
    def learning_rate(self) -> float:
        """The learning rate that the run begins with."""
        return float(self.optimizer_options["lr"])

    @property
    def decay(self) -> float:
        """The weight decay."""
        return float(self.optimizer_options.get("weight_decay", 0.0))

    @property
    def optimizer_options(self) -> dict[str, Any]:
        """What the optimizer is made with, under torch's names: torch's defaults and what was given."""
        ours = {"lr": 0.05, "momentum": 0.9} if self.optimizer == "sgd" else {}
        given = {name: getattr(self, name) for name in ("lr", "momentum", "weight_decay")}
        told = {name: value for name, value in given.items() if value is not None}
        defaults = default_options(self.optimizer)
        return {name: value for name, value in {**defaults, **ours, **told}.items() if name in defaults}

    @property
    def dropout_rate(self) -> float:
        """The rate of every dropout layer of the model."""
        default = 0.5 if self.model == "convnet" else 0.0
        return default if self.dropout is None else self.dropout

    @property
    def replicas(self) -> int:
        """How many replicas share a batch."""
        return self.devices * self.processes

    @property
    def statistics(self) -> str:
        """Whose batch statistics a replica normalises with."""
        return self.batch_norm or ("synchronised" if self.parallel in WHOLE_BATCH else "replica")

    @property
    def _next_batch_size(self) -> int:
        parts = self.replicas * self.accumulate
        return -(-self.batch_size // parts) * parts

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions to train in, the proof first."""
        return PRECISIONS if self.precision == "both" else (self.precision,)

    def total_steps(self, batches_per_epoch: int) -> int:
        """How many updates the run makes."""
        return self.steps if self.steps is not None else (self.epochs or 10) * batches_per_epoch

    def steps_between_decays(self, total_steps: int) -> int:
        """Updates between two decays of the step schedule, or two turns of one that comes back."""
        return self.decay_every or max(1, total_steps // 3)

    def checkpoint_after(self, step: int) -> bool:
        """Whether a checkpoint is written behind this step, counted from 0."""
        return self.checkpoint_every is not None and (step + 1) % self.checkpoint_every == 0

    def device_for(self, precision: str) -> str:
        """Where a run of this precision is to happen: "auto", "cpu" or "gpu"."""
        return self.proof_device if precision == "float64" else self.device

    def platform_for(self, precision: str) -> str | None:
        """The same, as jax names it: None is the best that there is."""
        device = self.device_for(precision)
        return None if device == "auto" else device

    def matmul_precision_for(self, precision: str) -> str:
        """The proof is always computed as exactly as the device can."""
        return "highest" if precision == "float64" else self.matmul_precision

    def file(self, *names: str) -> Path:
        """A file in the run's folder, or in ``runs/alone`` for a trainer that runs alone and was not told."""
        return (self.out or Path("runs") / "alone").joinpath(*names)

    def compared(self) -> dict[str, Any]:
        """What has to be the same in all ranks, and where a run is resumed: all but where files are, and waiting."""
        apart = {"data_root", "download", "precision", "resume", "time_limit", "out"}
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in apart}

    def flags(self) -> list[str]:
        """This config as command-line flags, for another process."""
        flags: list[str] = []
        for field in fields(self):
            name, value = field.name.replace("_", "-"), getattr(self, field.name)
            if isinstance(value, bool):
                flags.append(f"--{name}" if value else f"--no-{name}")
            elif value is not None:
                flags += [f"--{name}", str(value)]
        return flags


def _check_choice(what: str, given: str, choices: tuple[str, ...]) -> None:
    if given not in choices:
        raise UnknownChoice(what, given, choices)


def _check(name: str, value: float | None, rule: str, holds) -> None:  # type: ignore[no-untyped-def]
    if value is not None and not holds(value):
        raise UsageError(f"{name} must be {rule}, got {value}")
