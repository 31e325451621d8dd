"""The configuration of both trainers: one frozen dataclass, validated when it is made.

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
"""Optimizers that the trainers do not support, and why. `port.to_optax` does."""
UNSHARDED = ("adafactor", "rprop")
"""Optimizers that torch does not support for parameters that are sharded over ranks (D28)."""
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
        UsageError: a value is invalid; says which, and what is allowed.
    """

    model: Annotated[str, _one_of(*MODELS)] = "mlp"
    """the network to train"""
    torch_model: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """instead, a PyTorch model of your own, a class or a function; with --jax-model. Its inputs are images in [0, 1],
    (N, C, H, W), its outputs logits"""
    jax_model: Annotated[str | None, arg(metavar="FILE.py:NAME")] = None
    """its Flax class, such as port translate writes it: NAME.mapping.toml beside the file maps the weights"""
    torch_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """constructor arguments of --torch-model: '{"width": 64}', or '{"config": {"@my_pkg.model:Config": {}}}'"""
    jax_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """constructor arguments of --jax-model; one that port translate wrote needs none"""
    dataset: Annotated[str, _one_of(*DATASETS)] = "digits"
    """the dataset; digits comes with scikit-learn, the others are torchvision's"""
    data_root: Path = Path("data")
    """torchvision's root folder"""
    download: bool = False
    """download the dataset into the root folder if it is missing"""
    batch_size: int = 64
    """samples in a (global) batch"""
    drop_last: bool = True
    """drop an epoch's last batch if it is not full"""
    accumulate: int = 1
    """microbatches per batch; their gradients are summed for one update"""
    augment: bool = False
    """shift the images at random, and mirror them if that makes sense; the same pixels on both sides"""
    workers: int = 0
    """processes that load the data; their number does not change the batches"""
    epochs: Annotated[int | None, arg(metavar="INT")] = None
    """epochs to train; 10 if neither epochs nor steps are set"""
    steps: Annotated[int | None, arg(metavar="INT")] = None
    """batches to train"""
    optimizer: Annotated[str, _one_of(*OPTIMIZERS)] = "sgd"
    """any optimizer of torch.optim, with torch's defaults"""
    lr: Annotated[float | None, arg(metavar="FLOAT")] = None
    """learning rate; by default 0.05 for sgd and torch's default for the others"""
    momentum: Annotated[float | None, arg(metavar="FLOAT")] = None
    """momentum of sgd and rmsprop; by default 0.9 for sgd and torch's 0 for rmsprop"""
    weight_decay: Annotated[float | None, arg(metavar="FLOAT")] = None
    """decoupled in adamw and adafactor, else added to the gradient; by default torch's: 0.01 for adamw, else 0"""
    schedule: Annotated[str, _one_of(*SCHEDULES)] = "constant"
    """the learning rate schedule, stepped every update: one of torch's schedulers"""
    decay_every: Annotated[int | None, arg(metavar="INT")] = None
    """updates between two decays (step), two restarts, or from a cycle's minimum to its maximum; by default a third of
    the run"""
    decay_rate: float = 0.1
    """factor of the learning rate: at each step, or over the whole run (exponential)"""
    clip_norm: Annotated[float | None, arg(metavar="FLOAT")] = None
    """clip the gradients to this norm"""
    dropout: Annotated[float | None, arg(metavar="FLOAT")] = None
    """dropout rate; by default 0.5 in the convnet and 0 elsewhere"""
    precision: Annotated[str, _one_of(*PRECISIONS, "both")] = "both"
    """float64 is the proof, float32 the usual training precision"""
    matmul_precision: Annotated[str, _one_of("highest", "default")] = "highest"
    """precision of float32 products on an accelerator: default allows TF32 and similar"""
    device: Annotated[str, _one_of(*DEVICES)] = "auto"
    """device of the float32 run: auto takes an accelerator if there is one"""
    proof_device: Annotated[str, _one_of("cpu", "gpu")] = "cpu"
    """device of the float64 run"""
    devices: int = 1
    """replicas that share a batch: as many ranks of DDP, as many devices of a JAX process (virtual ones on a CPU)"""
    processes: int = 1
    """JAX processes, with that many devices each; there are devices x processes replicas, on either side"""
    parallel: Annotated[str, _one_of(*PARALLEL)] = "pmap"
    """JAX's form of data parallelism: pmap, shard_map, or jit over a sharded batch; fsdp shards parameters and
    optimizer state too, on both sides"""
    split: Annotated[str, _one_of(*SPLITS)] = "interleaved"
    """which samples of a batch a replica sees: every n-th, as with DistributedSampler, or a block"""
    uneven: Annotated[str, _one_of(*UNEVEN)] = "pad"
    """how to handle a last batch that the replicas do not divide, with --no-drop-last: padded as by DistributedSampler,
    or divided unequally, each loss weighted"""
    batch_norm: Annotated[str | None, _one_of(*STATISTICS)] = None
    """the batch statistics that a replica normalises with: its own, or the whole batch's; by default its own, but with
    --parallel sharding or fsdp the batch's. The running statistics that are kept are replica 0's"""
    dropout_masks: Annotated[str, _one_of(*MASKS)] = "global"
    """dropout masks are drawn for the whole batch, whatever the replicas, or for each replica from its own key"""
    checkpoint_every: Annotated[int | None, arg(metavar="INT")] = None
    """updates between two checkpoints; by default none are written"""
    resume: bool = False
    """resume from the last checkpoint in the run folder, which --out names"""
    time_limit: float = 600.0
    """seconds that a trainer may take for one step (two minutes for the first, which compiles, if that is more);
    detects a rank that hangs"""
    seed: int = 0
    """seed of the initial weights, the order of the data, augmentation and dropout"""
    out: Annotated[Path | None, arg(metavar="PATH")] = None
    """the run folder; by default a new one under runs/"""

    def __post_init__(self) -> None:
        _check_choice("model", self.model, MODELS)
        _check_choice("dataset", self.dataset, tuple(DATASETS))
        if self.optimizer in UNPROVABLE:
            raise UsageError(f"the trainers do not support {self.optimizer}: {UNPROVABLE[self.optimizer]}; try adamw")
        _check_choice("optimizer", self.optimizer, OPTIMIZERS)
        _check_choice("schedule", self.schedule, SCHEDULES)
        _check_choice("precision", self.precision, (*PRECISIONS, "both"))
        _check_choice("matmul precision", self.matmul_precision, ("highest", "default"))
        _check_choice("device", self.device, DEVICES)
        _check_choice("proof device", self.proof_device, ("cpu", "gpu"))
        _check_choice("form of data parallelism", self.parallel, PARALLEL)
        _check_choice("split", self.split, SPLITS)
        _check_choice("option for an uneven batch", self.uneven, UNEVEN)
        _check_choice("batch statistics", self.statistics, STATISTICS)
        _check_choice("dropout masks", self.dropout_masks, MASKS)
        if self.epochs is not None and self.steps is not None:
            raise UsageError(f"pass epochs or steps, not both (got {self.epochs} epochs, {self.steps} steps)")
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
            raise UsageError("mlp-by-hand has no dropout; choose --model mlp")
        check_own(self)
        if self.resume and self.out is None:
            raise UsageError("--resume continues an existing run: name its folder with --out")
        self._check_parallel()

    def _check_parallel(self) -> None:
        if self.batch_size % (self.replicas * self.accumulate):
            raise UsageError(
                f"a batch of {self.batch_size} is not divisible by {self.replicas} replicas x {self.accumulate} "
                f"microbatches; the next that is: --batch-size {self._next_batch_size}"
            )
        if self.replicas == 1 or self.parallel not in WHOLE_BATCH:
            return
        for option, choice in (("batch-norm", self.statistics), ("dropout-masks", self.dropout_masks)):
            if choice == "replica":
                raise UsageError(
                    f"--{option} replica: jit over a sharded batch computes like one device, without "
                    "replicas; choose --parallel pmap or shard-map"
                )
        if self.parallel == "fsdp" and self.optimizer in UNSHARDED:
            raise UsageError(
                f"--parallel fsdp: torch's {self.optimizer} does not support parameters that are sharded over ranks; "
                "choose adamw, for example, or --parallel sharding"
            )

    @property
    def learning_rate(self) -> float:
        """The initial learning rate."""
        return float(self.optimizer_options["lr"])

    @property
    def decay(self) -> float:
        """The weight decay."""
        return float(self.optimizer_options.get("weight_decay", 0.0))

    @property
    def optimizer_options(self) -> dict[str, Any]:
        """The optimizer's options, under torch's names: torch's defaults and the config's."""
        ours = {"lr": 0.05, "momentum": 0.9} if self.optimizer == "sgd" else {}
        options = {name: getattr(self, name) for name in ("lr", "momentum", "weight_decay")}
        chosen = {name: value for name, value in options.items() if value is not None}
        defaults = default_options(self.optimizer)
        return {name: value for name, value in {**defaults, **ours, **chosen}.items() if name in defaults}

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
        """The batch statistics that a replica normalises with."""
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
        """Updates between two decays of the step schedule, or two turns of a cyclic one."""
        return self.decay_every or max(1, total_steps // 3)

    def checkpoint_after(self, step: int) -> bool:
        """Whether a checkpoint is written after this step, counted from 0."""
        return self.checkpoint_every is not None and (step + 1) % self.checkpoint_every == 0

    def device_for(self, precision: str) -> str:
        """The device for a run of this precision: "auto", "cpu" or "gpu"."""
        return self.proof_device if precision == "float64" else self.device

    def platform_for(self, precision: str) -> str | None:
        """The same, as jax names it: None is the best that there is."""
        device = self.device_for(precision)
        return None if device == "auto" else device

    def matmul_precision_for(self, precision: str) -> str:
        """The precision of products; the proof always uses the device's highest."""
        return "highest" if precision == "float64" else self.matmul_precision

    def file(self, *names: str) -> Path:
        """A file in the run folder, by default ``runs/alone`` for a trainer that runs alone."""
        return (self.out or Path("runs") / "alone").joinpath(*names)

    def compared(self) -> dict[str, Any]:
        """The options that must be the same in all ranks, and on resuming: all but paths and waiting times."""
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


def _check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UnknownChoice(what, value, choices)


def _check(name: str, value: float | None, rule: str, holds) -> None:  # type: ignore[no-untyped-def]
    if value is not None and not holds(value):
        raise UsageError(f"{name} must be {rule}, got {value}")
