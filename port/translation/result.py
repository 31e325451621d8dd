"""The result of translating a module."""

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
        """Whether the original's constructors are kept."""

    def at(self, settings: OtherModel, module: Any = None) -> Translation:
        """Return the translation at these settings."""

    def constructed_at(self, settings: OtherModel) -> Translation:
        """Return the translation at these settings, with weights that are shapes only."""

    def proof_at(self, settings: OtherModel, module: Any = None, **options: Any) -> Proof:
        """Compare both sides at these settings."""


@dataclass(frozen=True)
class Translation(WrittenModule):
    """The Flax module that was written for a torch module.

    Attributes:
        notes: id of a difference → its locations in the original, ``file:line``.
        unwritten: layers and operators without a pair; the source raises there.
        transposes: the number of transposes that were written only to change a layout.
        without_start: name of a parameter or buffer whose initial value is unknown → why; a new module raises.
        copied_starts: name of a parameter that the original initialises as a copy → of which; here each is drawn.
        untaken: branches that no example call takes, with their locations; they were not translated, and raise.
        apart: lists of layers that could not be stacked, with the reasons.
        standalone: whether the source imports nothing from ``port``.
        originals: name of a written definition → the original's definition that it was made from.
        settings: which other values of its constructor's arguments the source takes.
        others: the translation with the calling convention of each further example call.
        proof: the float64 comparison of both sides; None if it was not requested, or nothing could be run.
        elsewhere: translates and proves at other settings; None if the translation was not checked.
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
        """Compare both sides in float64 at other settings of the original's constructor.

        Args:
            settings: ``{"depth": 4}``, or a function that constructs the original with others, ``lambda: resnet34()``.
            module: a module of the original's class with these settings; by default a new one is constructed.
            options: ``time_limit`` and ``tell``, as in `port.translate`.

        Raises:
            UsageError: the source or the original does not take these settings; says why.
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
        """Write a weights file; ``load`` in the written source reads it and constructs the module with its arguments.

        Args:
            path: the safetensors file.
            arguments: arguments of the original's constructor, as in `build`.
            weights: a torch module of the original's class with these arguments, whose weights are written; by default
                the module that was translated.
            overwrite: whether to replace an existing file.

        Raises:
            UsageError: the source does not take these arguments, or a file cannot store them; says why.
            BrokenWeights: the file cannot be written.
        """
        if arguments is not None and weights is None:
            raise UsageError("a weights file holds a module's weights: pass the module, weights=…, with its arguments")
        made = self if weights is None else self._elsewhere.at(arguments or {}, weights)
        said, own = made.said_arguments.unsaid, self.said_arguments.unsaid
        if other := [f"{name} = {said.get(name)}" for name in {**said, **own} if said.get(name) != own.get(name)]:
            raise UsageError(
                f"a weights file says the numbers and texts of a constructor's arguments, not {', '.join(other)}: "
                "build the module with them, and give that its weights"
            )
        write_weights(made, path, overwrite=overwrite)

    def constructed_at(self, settings: OtherModel) -> Translation:
        """Check the source at other settings on shapes only, for a model that is too large to run.

        The source is the same there, and the module that it constructs has every weight, in its shape.

        Args:
            settings: as in `proof_at`.

        Returns:
            The translation at these settings; its mapping loads a checkpoint, ``port.load(model, CHECKPOINT,
            rename=…)``.

        Raises:
            UsageError: the source or the original does not take these settings; says why.
            WeightsMismatch: the module that the source constructs lacks a weight, or has one of another shape.
        """
        return self._elsewhere.constructed_at(settings)

    @property
    def _elsewhere(self) -> AtOtherSettings:
        if self.elsewhere is None:
            raise UsageError("other settings need a translation that was checked: translate with check=True")
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
        """Construct a new Flax module from the source.

        Args:
            arguments: constructor arguments that differ from those of the translated module, or a function that
                constructs the original with others, ``lambda: resnet34()``.
            weights: a torch module of the original's class with these arguments, whose weights the new module gets.
            seed: the seed of its random streams and initial values.
            filled: whether it gets the original's weights; with other arguments, those of ``weights``, if any.
            options: ``dtype`` and ``param_dtype``; ``mesh`` and ``rules``, as in `WrittenModule.build`.

        Raises:
            UsageError: the source does not take these arguments, the mesh or the rules; says why.
            NoInitialValue: it is not filled, and the initial value of a parameter is unknown.
        """
        if arguments is None and weights is None:
            return super().build(seed=seed, filled=filled, **options)
        made = self._elsewhere.at(arguments or {}, weights)
        return WrittenModule.build(made, seed=seed, filled=filled and weights is not None, **options)
