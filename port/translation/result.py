"""What translating a module gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from port.errors import UsageError
from port.translation.artifact.weights_file import write_weights
from port.translation.artifact.written_module import WrittenModule
from port.translation.codegen.packages.original_files import OriginalDefinition
from port.translation.ir.lowered import Unsupported
from port.translation.other_settings import OtherModel, OtherSettings
from port.translation.verify import Proof


class AtOtherSettings(Protocol):
    """A translation at other settings of the original's constructor."""

    @property
    def keeps_constructors(self) -> bool:
        """Whether constructors are written as their source has them."""

    def at(self, settings: OtherModel, module: Any = None) -> Translation:
        """What is written for the original there."""

    def constructed_at(self, settings: OtherModel) -> Translation:
        """What is written for the original there, whose weights have shapes alone."""

    def proof_at(self, settings: OtherModel, module: Any = None, **options: Any) -> Proof:
        """Both sides compared there."""


@dataclass(frozen=True)
class Translation(WrittenModule):
    """A torch module, and the Flax module that was written from it.

    Attributes:
        notes: ids of the differences met → where in the original, file:line.
        unwritten: what no pair speaks of; the source raises there.
        transposes: how many were written for the layout's sake.
        without_start: names of parameters and buffers whose initial values are not known → why; a new module raises.
        copied_starts: names of those that the original starts as copies → of which; here each draws its own.
        untaken: what no example call shows, with its place in the original: it was not translated, and raises.
        apart: which lists of layers are no stacks, though that was asked for, and why: a sentence each.
        standalone: whether the source imports nothing of ``port``'s.
        originals: the name of each written definition → what of the original's it was made from.
        settings: of the original's constructor: which other values the source takes, and which it does not.
        proof: the float64 comparison of both sides; None if it was not asked for, or nothing could be run.
        elsewhere: the translation at other settings.
    """

    notes: dict[str, list[str]] = field(default_factory=dict)
    unwritten: tuple[Unsupported, ...] = ()
    transposes: int = 0
    without_start: dict[str, str] = field(default_factory=dict)
    copied_starts: dict[str, str] = field(default_factory=dict)
    untaken: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    standalone: bool = False
    originals: dict[str, OriginalDefinition] = field(default_factory=dict)
    settings: OtherSettings = field(default_factory=OtherSettings)
    others: tuple[Translation, ...] = field(default=(), repr=False)
    proof: Proof | None = None
    elsewhere: AtOtherSettings | None = field(default=None, repr=False, compare=False)

    def proof_at(self, settings: OtherModel, module: Any = None, **options: Any) -> Proof:
        """Both sides compared in float64 at other settings of the original's constructor.

        Args:
            settings: ``{"depth": 4}``; or what constructs the original with others, ``lambda: resnet34()``.
            module: of the original's class, constructed with them; by default a new one.
            options: ``time_limit`` and ``tell``, as `port.translate` has them.

        Raises:
            UsageError: the source does not take these settings, or the original does not; says why.
        """
        return self._elsewhere.proof_at(settings, module, **options)

    def save(
        self,
        path: Path | str,
        *,
        arguments: OtherModel | None = None,
        weights: Any = None,
        overwrite: bool = False,
    ) -> None:
        """Write a weights file, which ``load`` of the written source reads, and constructs the model that it is of.

        Args:
            path: of a safetensors file.
            arguments: of the original's constructor, as in `build`.
            weights: a torch module of the original's class, constructed with them, whose weights are written; by
                default those of the module that was translated.
            overwrite: whether the file may be there already.

        Raises:
            UsageError: the source does not take these arguments, or no file can say them; says why.
            BrokenWeights: it cannot be written there.
        """
        if arguments is not None and weights is None:
            raise UsageError("a weights file has the numbers of a module: give it, weights=…, with its arguments")
        made = self if weights is None else self._elsewhere.at(arguments or {}, weights)
        said, own = made.said_arguments.unsaid, self.said_arguments.unsaid
        if other := [f"{name} = {said.get(name)}" for name in {**said, **own} if said.get(name) != own.get(name)]:
            raise UsageError(
                f"a weights file says the numbers and texts of a constructor's arguments, not {', '.join(other)}: "
                "build the module with them, and give that its weights"
            )
        write_weights(made, path, overwrite=overwrite)

    def constructed_at(self, settings: OtherModel) -> Translation:
        """The source at other settings of the original's constructor, on shapes alone: of a model that is never run.

        It is the same source that is written there, and what it constructs has each of the weights, in its shape.

        Args:
            settings: as of `proof_at`.

        Returns:
            the translation there: its mapping takes the weights, ``port.load(model, CHECKPOINT, rename=…)``.

        Raises:
            UsageError: the source does not take these settings, or the original does not; says why.
            WeightsMismatch: what the source constructs has not each of the weights, or one in another shape.
        """
        return self._elsewhere.constructed_at(settings)

    @property
    def _elsewhere(self) -> AtOtherSettings:
        if self.elsewhere is None:
            raise UsageError("a translation that was not checked is what it is: translate with check=True")
        return self.elsewhere

    def build(
        self,
        *,
        arguments: OtherModel | None = None,
        weights: Any = None,
        seed: int = 0,
        filled: bool = True,
        **options: Any,
    ) -> Any:
        """A new Flax module of the source.

        Args:
            arguments: of the original's constructor that are others than those of the module that was translated; or
                what constructs the original with others, ``lambda: resnet34()``.
            weights: a torch module of the original's class, constructed with them, whose weights it gets.
            seed: of its random streams, and of its initial values.
            filled: whether it has the original's weights; one with other arguments has those of ``weights``, if any.
            options: ``dtype`` and ``param_dtype``; ``mesh`` and ``rules``, as `WrittenModule.build` has them.

        Raises:
            UsageError: the source does not take these arguments, or the mesh or the rules; says why.
            NoInitialValue: it is not filled, and has parameters of which nobody knows how they start.
        """
        if arguments is None and weights is None:
            return super().build(seed=seed, filled=filled, **options)
        made = self._elsewhere.at(arguments or {}, weights)
        return WrittenModule.build(made, seed=seed, filled=filled and weights is not None, **options)
