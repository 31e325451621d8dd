"""A proof's messages about what was not or could not be compared, and what to do."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from port.parity.sides.fitting import SMALLER
from port.translation.codegen.module_of_source import LABEL
from port.translation.frontend.input_lengths import Lengths
from port.translation.verify.other_lengths import words

if TYPE_CHECKING:
    from port.translation.artifact.written_module import WrittenModule


@dataclass(frozen=True)
class Beyond:
    """Why something was not run.

    Attributes:
        sentence: what did not fit, and what to do.
        how_much: what it needs, and what is available.
    """

    sentence: str
    how_much: str

    def of(self, run: str) -> str:
        """Return the sentence for a run."""
        return self.sentence.format(f"{run} ({self.how_much})")


def compared_at(translation: WrittenModule, ran_at: Lengths, others: list[Lengths]) -> str:
    """Return the input lengths at which both sides ran, as text."""
    if not translation.lengths.names:
        return "the example's lengths only, which are fixed and checked on input"
    first = words(ran_at) if ran_at else "the example's lengths"
    tried = "; ".join(map(words, others))
    if tried:
        return f"{first}; {tried}"
    return f"{first} only" if translation.lengths.tried else f"{first} only: the original ran at no others"


UNFIT = f"the run {{}} did not fit into memory: translate with {SMALLER}, or a part alone (--submodule)"
TOO_LONG = f"the run {{}} was left out: translate with {SMALLER}, a part alone (--submodule), or a longer --time-limit"
LATE = "that would go beyond the time limit of {} (--time-limit)"
REFUSED_INPUTS = "gradients of the inputs in {} were not compared, since the original takes no inputs that need one: {}"
UNTRAINED = "training mode was not compared, since the original does not run in it: {}"
NO_GRADIENT = (
    "the written module runs in {}, but JAX cannot differentiate it, while PyTorch differentiates the original: it can "
    "be used, but not trained{}"
)
UNREAD = "the written module does not read {}, and the original's outputs depend on it"
OWN_BACKWARD = (
    "{}: its custom backward pass is not translated; the gradients are those of its forward pass. "
    "Write it with jax.custom_vjp"
)
X64 = (
    "the source names 64-bit dtypes, which JAX has only with jax_enable_x64: it was on here, and has to be on wherever "
    "the module runs"
)


def error_of(error: Exception) -> str:
    """Return the message for a written module that raises an error."""
    return f"the written module does not run{described_error(error)}"


def described_error(error: Exception) -> str:
    """Return the line of the source at which an error was raised, and the error's first line."""
    frames = traceback.extract_tb(error.__traceback__)
    text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    own = [frame for frame in frames if LABEL in frame.filename]
    where = f" in `{own[-1].line}`" if own else f" ({frames[-1].name})"
    return f"{where}: {text}"
