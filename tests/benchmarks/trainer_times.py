"""Times the trainers' own steps and loops. `test_data_parallel.py` starts it as processes, one framework in each:

    python trainer_times.py jax 4                  JAX's forms of data parallelism, on 4 virtual devices
    torchrun … trainer_times.py pytorch 2          DDP and FSDP, on 2 ranks
    python trainer_times.py jax-loop FOLDER        JAX's trainer on FOLDER's data, its bare step and its loader
    python trainer_times.py pytorch-loop FOLDER    PyTorch's

The first two answer each line that they read with a line of JSON, a round of measurements; so whoever asks can let
several processes take turns. The others print one line. Where nothing else is said, times are seconds a step: those of
the clock, and those that all threads of the process computed, which other programs disturb less.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from port.data import Examples
from side_by_side.config import Config

CONFIG = Config(model="convnet", dataset="mnist", batch_size=64, precision="float32", device="cpu")
FORM_STEPS = 10  # of a form in a round
LOOP_STEPS = 20  # of the loop in a round, and of the bare step
LOOP_ROUNDS = 20  # with the first, that warms up, fewer steps than grain has batches to load behind those it holds
LOADED = 100  # batches in a round of the loader

Seconds = tuple[float, float]  # by the clock, by the process's threads


def now() -> Seconds:
    """What both clocks say."""
    return time.perf_counter(), time.process_time()


def since(began: Seconds, steps: int) -> Seconds:
    """Seconds a step."""
    wall, cpu = now()
    return (wall - began[0]) / steps, (cpu - began[1]) / steps


def timed(run: Callable[[int], object], steps: int) -> Seconds:
    """Of so many steps, all of which have come to their end when ``run`` returns."""
    began = now()
    run(steps)
    return since(began, steps)


def mnist_shaped(count: int) -> Examples:
    """Random images and labels of MNIST's shape."""
    random = np.random.default_rng(0)
    return Examples(
        random.integers(0, 256, (count, 28, 28, 1), np.uint8), random.integers(0, 10, count).astype(np.int32)
    )


# %% A step of each form


def jax_step(replicas: Any, *, bare: bool) -> Callable[[int], None]:
    """The trainer's compiled step, so often: with the placing of each batch, or ``bare``, with one that is there."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    import side_by_side.jax.train as trainer

    config: Config = replicas.config
    examples = mnist_shaped(config.batch_size)
    model = trainer.build(config, jnp.dtype("float32"))
    model.train()
    graphdef, params, stats = nnx.split(model, nnx.Param, ...)
    schedule = trainer.make_schedule(config, 1000)
    optimizer = trainer.make_optimizer(config, schedule, model)
    state = replicas.replicate(trainer.TrainState(params, stats, optimizer.init(params), jnp.zeros((), jnp.int32)))
    static = {"graphdef": graphdef, "optimizer": optimizer, "schedule": schedule, "clip_norm": config.clip_norm}
    update = replicas.compile(partial(trainer.train_step, **static, replicas=replicas), state)
    share = replicas.share(trainer.make_plan(config, examples), filled=True)
    key = jax.random.key(config.seed)

    def place() -> tuple[Any, Any]:
        return replicas.place(examples.images, examples.labels, share.places(0))

    if bare:
        images_and_labels, sizes = place()
        placed = jax.device_put(images_and_labels), sizes

    def run(steps: int) -> None:
        nonlocal state
        for _ in range(steps):
            batch, sizes = placed if bare else place()
            state, measured = update(state, batch, key, sizes)
            if not bare:
                replicas.finish(measured)
        jax.block_until_ready((state, measured))

    run(2)  # compiles
    return run


def torch_step(replicas: Any, *, bare: bool, in_ddp: bool = False) -> Callable[[int], None]:
    """The trainer's step, likewise; ``in_ddp``: wrapped where the trainer does without, as it is the only rank."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    import side_by_side.pytorch.train as trainer

    config: Config = replicas.config
    model = trainer.build(config).train()
    replicas.to_device(model, torch.device("cpu"))
    optimizer = trainer.make_optimizer(config, model.parameters())
    schedule = trainer.make_schedule(config, optimizer, 1000)
    replicated = DistributedDataParallel(model) if in_ddp else replicas.replicate(model)
    examples = mnist_shaped(config.batch_size)
    share = replicas.share(trainer.make_plan(config, examples), filled=False)
    images = torch.from_numpy(examples.images[: share.batch_size]).permute(0, 3, 1, 2)
    labels = torch.from_numpy(examples.labels[: share.batch_size]).long()

    def prepare() -> tuple[Any, Any, Any]:
        key = trainer.dropout_key(config.seed, 0)
        return *replicas.place(images, labels, share.places(0), torch.device("cpu")), key

    prepared = prepare()

    def run(steps: int) -> None:
        for _ in range(steps):
            batches, sizes, key = prepared if bare else prepare()
            trainer.train_step(replicated, optimizer, schedule, config.clip_norm, batches, key, sizes, replicas)

    run(2)
    return run


# %% The forms, in turns


def jax_forms(devices: int) -> None:
    """Answers with the seconds of every form on so many devices; plain jit among them where there is one."""
    from side_by_side.jax.replicas import Pmap, Replicas, Sharding, ShardMap
    from side_by_side.jax.sharded_replicas import FullySharded
    from side_by_side.jax.train import computing

    config = replace(CONFIG, devices=devices)
    synchronised = replace(config, batch_norm="synchronised")
    forms: dict[str, Any] = {"plain jit": (Replicas, config)} if devices == 1 else {}
    forms |= {"pmap": (Pmap, config), "shard-map": (ShardMap, replace(config, parallel="shard-map"))}
    if devices > 1:  # of one replica they are the same
        forms["pmap, synchronised"] = (Pmap, synchronised)
        forms["shard-map, synchronised"] = (ShardMap, replace(synchronised, parallel="shard-map"))
    forms["sharding"] = (Sharding, replace(config, parallel="sharding"))
    if devices > 1:
        forms["fsdp"] = (FullySharded, replace(config, parallel="fsdp"))
    with computing(config, "float32"):
        runs = {name: jax_step(form(told, 0, 1, "cpu"), bare=False) for name, (form, told) in forms.items()}
        for _ in sys.stdin:
            answer({name: timed(run, FORM_STEPS) for name, run in runs.items()})


def torch_forms(ranks: int) -> None:
    """Answers with DDP's and FSDP's seconds on so many ranks; where there is one, with DDP's and plain ones."""
    import torch
    import torch.distributed as dist

    from side_by_side.pytorch.processes import joined
    from side_by_side.pytorch.sharded_replicas import FullySharded

    with joined(replace(CONFIG, devices=ranks), "cpu") as replicas:
        if ranks == 1:
            dist.init_process_group("gloo")
            runs = {"plain": torch_step(replicas, bare=False)}
            runs["DDP"] = torch_step(replicas, bare=False, in_ddp=True)
        else:
            told = replace(CONFIG, devices=ranks, parallel="fsdp")
            sharded = FullySharded(told, replicas.rank, replicas.processes)
            runs = {form: torch_step(each, bare=False) for form, each in (("DDP", replicas), ("FSDP", sharded))}
        while True:
            asked = torch.tensor(bool(sys.stdin.readline()) if replicas.leads else False)
            dist.broadcast(asked, 0)
            if not asked:
                break
            seconds = {name: timed(run, FORM_STEPS) for name, run in runs.items()}
            everybody: list[Any] = [None] * ranks
            dist.all_gather_object(everybody, seconds)
            if replicas.leads:
                answer({name: (wall, sum(each[name][1] for each in everybody)) for name, (wall, _) in seconds.items()})
        if ranks == 1:
            dist.destroy_process_group()


# %% The loop, the bare step and the loader, in turns


class Turns:
    """Stops a trainer's loop behind every so many steps, for as many of the bare step and a round of the loader."""

    def __init__(self, bare: Callable[[], Callable[[int], None]], load: Callable[[int], None]) -> None:
        self.seconds: dict[str, list[Seconds]] = {"loop": [], "bare": [], "loader": []}
        self._make_bare, self._load = bare, load
        self._step = 0
        self._began: Seconds | None = None

    def __call__(self, wait: Callable[[], object]) -> None:
        """The loop has begun another step and all of it; ``wait`` returns when the device has done it."""
        self._step += 1
        if self._step % LOOP_STEPS:
            return
        wait()
        if self._began is None:
            self._bare = self._make_bare()
            time.sleep(2)  # threads that load in advance come to rest
        else:
            self.seconds["loop"].append(since(self._began, LOOP_STEPS))
        self.seconds["bare"].append(timed(self._bare, LOOP_STEPS))
        self.seconds["loader"].append(timed(self._load, LOADED))
        self._began = now()


def loop_config(folder: Path) -> Config:
    """A run whose only evaluation comes behind all that is timed."""
    return replace(CONFIG, data_root=folder, out=folder / "run", steps=LOOP_STEPS * (LOOP_ROUNDS + 1))


def loading(trainer: Any) -> Callable[[int], None]:
    """A function that loads a whole epoch of so many batches, from its start."""
    examples = mnist_shaped(LOADED * CONFIG.batch_size)
    share = trainer.Replicas(CONFIG).share(trainer.make_plan(CONFIG, examples), filled=True)

    def load(batches: int) -> None:
        loaded: Iterator[Any] = trainer.train_batches(CONFIG, examples, share)
        for _ in range(batches):
            next(loaded)

    return load


def jax_loop(folder: Path) -> None:
    """Prints the seconds of the trainer's loop, of its bare step and of its loader (a batch), round by round."""
    import jax

    import side_by_side.jax.train as trainer
    from side_by_side.jax.replicas import Replicas

    config = loop_config(folder)
    turns = Turns(lambda: jax_step(Replicas(config), bare=True), loading(trainer))
    # One device's own does nothing. What was measured comes of the same program as the state.
    Replicas.finish = lambda self, measured: turns(lambda: jax.block_until_ready(measured))  # type: ignore[method-assign]
    trainer.train(config, "float32")
    answer(turns.seconds)


def torch_loop(folder: Path) -> None:
    """The same of PyTorch's trainer."""
    import side_by_side.pytorch.train as trainer
    from side_by_side.pytorch.replicas import Replicas

    config = loop_config(folder)
    turns = Turns(lambda: torch_step(Replicas(config), bare=True), loading(trainer))

    def checkpoint_after(self: Config, step: int) -> bool:  # the loop asks at the end of a step
        turns(lambda: None)
        return False

    Config.checkpoint_after = checkpoint_after  # type: ignore[method-assign]
    trainer.train(config, "float32")
    answer(turns.seconds)


def answer(seconds: Any) -> None:
    print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    what, of = sys.argv[1:]
    if what.endswith("-loop"):
        {"jax-loop": jax_loop, "pytorch-loop": torch_loop}[what](Path(of))
    else:
        {"jax": jax_forms, "pytorch": torch_forms}[what](int(of))
