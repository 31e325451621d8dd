"""Run both sides at other lengths than the example's, to find lengths that the source hard-codes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from port.judging import Compared
from port.parity.compare.control import Control
from port.parity.compare.judge import Judge
from port.parity.sides.calls import Arrays
from port.parity.sides.copies import copied
from port.parity.sides.cost import Cost, cost_of
from port.parity.sides.duration import seconds_compiled
from port.parity.sides.moved import moved
from port.parity.sides.parts import Part
from port.parity.sides.precision import cpu_precision, default_dtype
from port.parity.sides.run import OUTPUTS, Kinds, Run, are_empty, numbered
from port.translation.frontend.input_lengths import Lengths
from port.translation.frontend.precision import in_double
from port.translation.frontend.resized_inputs import resized
from port.translation.frontend.trials import Trials
from port.translation.verify.compare import compared
from port.translation.verify.flax_run import Written, flax_outputs, flax_run
from port.translation.verify.proof import limits_of
from port.translation.verify.torch_run import OUTPUT, torch_outputs, torch_run

if TYPE_CHECKING:
    from port.translation.artifact.written_module import WrittenModule

_MOST_PARAMETERS = 60
"""Models with more parameters are compared only by outputs at other lengths: compiling a backward pass takes long."""


class OriginalAndWritten:
    """The original and the written module, which can run at any lengths.

    Args:
        module: the original; not modified.
        translation: the written module.
        args: positional example inputs.
        kwargs: keyword example inputs.
        seed: seeds the numbers that both sides draw.
    """

    def __init__(
        self, module: Any, translation: WrittenModule, args: Any, kwargs: dict[str, Any], *, seed: int = 0
    ) -> None:
        self.translation, self.lengths, self.seed = translation, translation.lengths, seed
        wide = in_double(module, args, kwargs)
        self.precision = "float32" if wide is None else "float64"
        self.written = Written(translation, self.precision)
        self.limits = limits_of(wide is None, translation.mixed)
        inputs: tuple[Any, Any, dict[str, Any]] = (
            (copied(module, lambda t: t.cpu()), args, kwargs) if wide is None else wide
        )
        self.module, self.args, self.kwargs = inputs
        self.is_empty = True  # whether all outputs of the original so far held no number
        self.example = self.lengths.of(args, kwargs)
        self.trials = Trials(module, args, kwargs)

    def rows_at(self, sizes: Lengths, *, training: bool) -> list[Compared]:
        """Compare both sides at other lengths; empty if the original does not run at them.

        In training this includes gradients and buffers, unless the model is large.

        Raises:
            Exception: the written module's error.
        """
        call = self.call_at(sizes)
        if training and self.is_small:
            return self.trained(call, f" at {words(sizes)}")
        outputs = self.compared(call, words(sizes), training=training)
        return [] if outputs is None else [outputs]

    def call_at(self, sizes: Lengths) -> tuple[Any, dict[str, Any]]:
        """Return the example's (args, kwargs) at other lengths."""
        return resized(self.args, self.kwargs, self.lengths.sizes(sizes))

    @cached_property
    def is_small(self) -> bool:
        """Whether a backward pass is cheap to compile."""
        return len(list(self.module.parameters())) <= _MOST_PARAMETERS

    @cached_property
    def trains_alike(self) -> bool:
        """Whether both sides agree in training at the example's lengths."""
        return all(row.agrees for row in self.trained((self.args, self.kwargs), ""))

    def trained(self, call: Any, where: str) -> list[Compared]:
        """Compare a training step; empty if the original raises an error.

        Args:
            call: (args, kwargs).
            where: the lengths, for the rows' names.

        Raises:
            Exception: the written module's error.
        """
        try:
            theirs = self.torch(self.module, call, training=True)
        except Exception:
            return []
        with cpu_precision(self.precision == "float64" or self.translation.needs_x64):
            ours = flax_run(self.written, call, True, theirs.cotangents, self.seed)
        rows = compared(theirs, ours, self.translation, True, self.judge(theirs, call, training=True))
        return [replace(row, what=f"{row.what}{where}") for row in rows]

    def compared(self, call: Any, where: str, *, training: bool) -> Compared | None:
        """Compare the outputs for (args, kwargs); None if the original does not run."""

        def outputs(module: Any, call: Any) -> Arrays:
            with self.torch_dtype():
                return numbered(OUTPUT, torch_outputs(module, call, training, self.seed))

        try:
            theirs = outputs(self.module, call)
        except Exception:
            return None
        self.is_empty &= are_empty(theirs)
        ours = numbered(OUTPUT, self.flax(call, training=training))
        control = Control(lambda seed: {OUTPUTS: outputs(*moved(self.module, call, seed))}, {OUTPUTS: theirs})
        pairs = {name: (theirs[name], ours[name]) for name in theirs}
        what = f"{OUTPUTS} in {'training' if training else 'evaluation'}{f' at {where}' if where else ''}"
        return Judge(control, self.limits).row(what, OUTPUTS, pairs)

    def torch(self, module: Any, call: Any, *, training: bool, part: Part | None = None) -> Run:
        """Run torch's side, forward and backward; with a part, only that part's gradients."""
        with self.torch_dtype():
            run = torch_run(module, call, training, self.seed, None if part is None else part.torch)
        self.is_empty &= are_empty(run.outputs)
        return run

    def judge(self, theirs: Run, call: Any, *, training: bool, part: Part | None = None) -> Judge:
        """Return the judge for comparisons with a run of torch."""

        def run(seed: int) -> Kinds:
            return self.torch(*moved(self.module, call, seed), training=training, part=part).kinds

        return Judge(Control(run, theirs.kinds), self.limits)

    @cached_property
    def cost(self) -> Cost:
        """The cost of the original's forward pass at the example's lengths."""
        return cost_of(self.module, (self.args, self.kwargs))

    def cost_of(self, call: Any) -> Cost:
        """Return the cost of the original's forward pass on (args, kwargs)."""
        is_example = call[0] is self.args and call[1] is self.kwargs
        return self.cost if is_example else cost_of(self.module, call)

    def seconds(self, sizes: Lengths | None = None) -> float:
        """Estimate the seconds for comparing both modes at the example's lengths, or for the comparison at others."""
        if sizes is None:
            return 2 * seconds_compiled(self.cost, gradients=True)
        elements = self.lengths.elements
        cost = self.cost.scaled(elements(sizes) / max(1, elements(self.example)))
        in_training = seconds_compiled(cost, gradients=self.is_small) if self.trains_at(sizes) else 0.0
        return seconds_compiled(cost, gradients=False) + in_training

    def torch_dtype(self) -> AbstractContextManager[None]:
        """Context manager: set torch's default dtype to the proof's precision."""
        return default_dtype(self.precision) if self.precision == "float64" else nullcontext()

    def flax(self, call: Any, *, training: bool = False) -> list[np.ndarray]:
        """Return the written module's outputs for (args, kwargs), in torch's layout."""
        with cpu_precision(self.precision == "float64" or self.translation.needs_x64):
            return flax_outputs(self.written, call, training, self.seed)

    def agree_at(self, sizes: Lengths, *, in_training_too: bool = False) -> bool:
        """Whether both sides agree in evaluation; optionally also in training, if the original runs in it."""
        try:
            rows = self.rows_at(sizes, training=False)
            if not rows or not all(row.agrees for row in rows) or not in_training_too:
                return bool(rows) and all(row.agrees for row in rows)
            rows = self.rows_at(sizes, training=True)
            apart = [row.what for row in rows if not row.agrees]
            # A difference that also occurs at the example's lengths is not due to these lengths.
            return not apart or (not any(map(_is_of_outputs, apart)) and not self.trains_alike)
        except Exception:
            return False

    def written_takes(self, sizes: Lengths) -> bool:
        """Whether the written module accepts these lengths in evaluation."""
        try:
            self.flax(self.call_at(sizes))
        except Exception:  # whatever JAX raises for shapes that do not fit
            return False
        return True

    def trains_at(self, sizes: Lengths) -> bool:
        """Whether training is meaningful at these lengths: BatchNorm over a length of 1 is dominated by rounding."""
        from torch.nn.modules.batchnorm import _BatchNorm

        return 1 not in sizes.values() or not any(isinstance(layer, _BatchNorm) for layer in self.module.modules())

    def runs(self, sizes: Lengths) -> bool:
        """Whether the conditions allow these lengths, and the original accepts them."""
        return not self.lengths.broken(sizes) and self.takes(sizes)

    def takes(self, sizes: Lengths) -> bool:
        """Whether the original accepts these lengths."""
        return self.trials.runs(self.lengths.sizes(sizes))


def _is_of_outputs(what: str) -> bool:
    return what.startswith("outputs")


def words(sizes: Lengths) -> str:
    """Format lengths: ``n = 3, h = 40``."""
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())
