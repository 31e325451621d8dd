"""The Flax module that was written, with all that it takes to run it: source, weights, calling convention."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from collections.abc import Mapping as Mapping_
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import UsageError
from port.mapping import FROZEN, TORCH_ONLY, Mapping
from port.translation.artifact import filling
from port.translation.artifact.calling_convention import Boundary
from port.translation.codegen.module_of_source import MODEL, loaded
from port.translation.codegen.packages import WrittenPackage
from port.translation.codegen.packages.loading import loaded_package
from port.translation.frontend.input_lengths import InputLengths
from port.translation.ir.layout import Drawn
from port.weights.constructor_arguments import SaidArguments, said_arguments

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from port.nn.logical_axes import Rules


@dataclass(frozen=True)
class WrittenModule:
    """A Flax module in source, and what its original's tensors are in it.

    Attributes:
        name: of the root's class.
        source: the Flax NNX source, as one file.
        mapping: where every tensor went.
        boundary: what goes in and comes out, on both sides.
        values: what the variables hold, by Flax's paths: numpy arrays.
        hidden: Flax's paths of buffers that no state dict of the original's holds.
        tables: fixed tables that a new module starts with: name → array, as ``NAME.tables.safetensors`` holds them.
        mixed: whether the original computes something in float32 whatever its precision is.
        prefix: of the names in the module that was translated, where a layer alone was put into one.
        lengths: of the tensors that go in: free ones by their names, the conditions on them, those that were tried.
        draws: by whether it is of training, the layouts of what is drawn at random, in order; those of a loop's round
            together.
        checkpointed: names of the written classes whose calls stand under ``nnx.remat``.
        stacked: Flax's paths of the lists of layers that are one stack each.
        rules: logical names of axes → the axes of a mesh that they are divided along; None where axes have no names.
        unnamed: Flax's paths of parameters of several axes of which none has a name.
        own_gradients: what of ``torch.autograd`` has a backward pass that the source does not: ``Name (file:line)``.
        arguments: what the constructor is given to make this model, but for defaults: names → expressions.
        others: the same module as other example calls have it: what goes in and comes out, lengths, draws.
        package: the source as a package, whose files are then what is run.
    """

    name: str
    source: str
    mapping: Mapping
    boundary: Boundary
    values: dict[str, np.ndarray] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    tables: dict[str, np.ndarray] = field(default_factory=dict)
    mixed: bool = False
    prefix: str = ""
    lengths: InputLengths = field(default_factory=lambda: InputLengths(()))
    draws: dict[bool, tuple[Drawn, ...]] = field(default_factory=dict)
    checkpointed: tuple[str, ...] = ()
    stacked: tuple[str, ...] = ()
    rules: Mapping_[str, str | tuple[str, ...] | None] | None = None
    unnamed: tuple[str, ...] = ()
    own_gradients: tuple[str, ...] = ()
    arguments: dict[str, str] = field(default_factory=dict)
    others: tuple[WrittenModule, ...] = field(default=(), repr=False)
    package: WrittenPackage | None = None

    @cached_property
    def module(self) -> Any:
        """The Flax module with the original's weights, in training mode as Flax's modules begin."""
        return self.build()

    @property
    def params(self) -> dict[str, np.ndarray]:
        """The weights by Flax's dotted paths."""
        return self.values

    @property
    def has_weights(self) -> bool:
        """Whether it has the original's numbers: one of a module on the meta device has none."""
        return bool(self.values) or all(entry.collection == TORCH_ONLY for entry in self.mapping.entries)

    @property
    def frozen(self) -> tuple[str, ...]:
        """Names of the original's parameters that it does not train, and that the module holds as `port.nn.Frozen`."""
        return self._parameters(FROZEN)

    @property
    def trained(self) -> tuple[str, ...]:
        """Names of those that it trains."""
        return self._parameters("params")

    def _parameters(self, collection: str) -> tuple[str, ...]:
        entries = [entry for entry in self.mapping.entries if entry.collection == collection]
        return tuple(name for entry in entries for name in entry.sources[: 1 if entry.is_tied else None])

    def build(
        self,
        *,
        seed: int = 0,
        filled: bool = True,
        mesh: Mesh | None = None,
        rules: Rules | None = None,
        **options: Any,
    ) -> Any:
        """A new Flax module of the source.

        Args:
            seed: of its random streams, and of its initial values.
            filled: whether it has the original's weights.
            mesh: devices that it is built onto, each array in its parts: of a translation with ``logical_axes``.
            rules: logical name → axes of the mesh, in place of the source's own; None for an axis that stays whole.
            options: ``dtype`` and ``param_dtype``.

        Raises:
            UsageError: a mesh, and axes without names; a name in the rules or of the mesh's that is not known.
            NoInitialValue: it is not filled, and has parameters of which nobody knows how they start.
            WeightsMismatch: what the source constructs has other shapes than the weights.
        """
        from flax import nnx

        if mesh is not None or rules is not None:
            return self._on_mesh(mesh, rules, seed, filled=filled, **options)
        if not filled:
            return self.constructor(rngs=nnx.Rngs(seed), **options)
        with self.filled_later():
            return filling.filled(lambda: self.constructor(rngs=nnx.Rngs(seed), **options), self.values, self.name)

    def _on_mesh(self, mesh: Mesh | None, rules: Rules | None, seed: int, *, filled: bool, **options: Any) -> Any:
        from flax import nnx

        from port.nn.on_mesh import on_mesh, whole

        if self.rules is None:
            raise UsageError("a model is built onto a mesh by the names of its axes: translate with logical_axes=True")
        if mesh is None:
            raise UsageError("rules say what lies along a mesh: give the mesh too, mesh=jax.make_mesh((8,), ('fsdp',))")
        parts = whole(self.values) if filled else None
        with self.filled_later() if filled else nullcontext():
            return on_mesh(
                lambda: self.constructor(rngs=nnx.Rngs(seed), **options), mesh, self.rules, given=rules, parts=parts
            )

    def check_built(self) -> None:
        """See that the module can be built, and has each of the weights in its shape; no array is made.

        Raises:
            WeightsMismatch: it has not.
            Exception: the source's own.
        """
        from flax import nnx

        entries = [entry for entry in self.mapping.entries if entry.collection != TORCH_ONLY]
        shapes = {
            path: shape for entry in entries for path, shape in zip(entry.targets, entry.target_shapes(), strict=True)
        }
        with self.filled_later():
            filling.check_filled(lambda: self.constructor(rngs=nnx.Rngs(0)), shapes, self.name)

    def filled_later(self) -> AbstractContextManager[None]:
        """Within it, what a new module does not know the start of is left empty."""
        from port.nn import filled_later

        # A source that stands alone has its own.
        return self.code.__dict__.get("filled_later", filled_later)()  # type: ignore[no-any-return]

    @property
    def constructor(self) -> Callable[..., Any]:
        """The root's class with the arguments of this model; it takes ``rngs``, ``dtype`` and ``param_dtype``."""
        import jax.numpy as jnp
        from flax import nnx

        import port.nn

        def construct(**options: Any) -> Any:
            own = self.code.__dict__
            # What the arguments alone name is imported where the source has a `load`.
            names = {**vars(port.nn), "partial": partial, "nnx": nnx, "jnp": jnp, **own}
            given = {name: eval(text, names, {"options": options}) for name, text in self.arguments.items()}
            return own[self.name](**given, **options)

        return construct

    @property
    def said_arguments(self) -> SaidArguments:
        """What the constructor is given to make this model, as its weights file has it; defaults too."""
        own = self.code.__dict__
        modules = {name: text for name, text in self.arguments.items() if "**options" in text}
        given = {name: eval(text, own) for name, text in self.arguments.items() if name not in modules}
        made = said_arguments(own[self.name], given)
        values = {name: value for name, value in made.values.items() if name not in modules}
        return SaidArguments(values, {**made.unsaid, **modules})

    @cached_property
    def code(self) -> Any:
        """The source as a Python module; of a package, a module with all that its files define."""
        if self.package is not None:
            return _code_of_package(self.package, self.name, self.tables)
        return _code(self.source, self.name, self.tables)

    @property
    def needs_x64(self) -> bool:
        """Whether the source names a 64-bit dtype, which JAX has only where ``jax_enable_x64`` is on."""
        return re.search(r"\bjnp\.(float64|complex128)\b", self._own_source) is not None

    @property
    def written_classes(self) -> frozenset[str]:
        """Names of the classes that were written from the original's."""
        return frozenset(node.name for node in ast.parse(self._own_source).body if isinstance(node, ast.ClassDef))

    @property
    def _own_source(self) -> str:
        """Without what was copied from port into it."""
        return self.source.rpartition(MODEL)[2] if self.package is None else self.package.own_text

    def to_flax(self, args: Any, kwargs: dict[str, Any] | None = None) -> tuple[Any, ...]:
        """torch's arguments as those of the Flax module: arrays, in its layout, in order.

        What an argument with two stars gathers is a dict behind them; `run` spreads it.

        Args:
            args: one tensor, or the tuple of positional arguments, as ``translate`` took them.
            kwargs: those given by name.
        """
        args = tuple(args) if isinstance(args, tuple | list) else (args,)
        case = self.called_as(args, kwargs or {})
        if case is not self or not self.others:
            return case.boundary.to_flax(args, kwargs or {})
        # No example call is like it: each argument is taken as it is in some.
        layouts = {name: known for each in (*self.others, self) for name, known in each.boundary.layouts.items()}
        return replace(self.boundary, layouts=layouts).to_flax(args, kwargs or {})

    def called_as(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> WrittenModule:
        """The module as the example call has it that is like a call of the original's; by default as the first has."""
        if not self.others:
            return self
        return next((case for case in (self, *self.others) if case.boundary.takes(args, kwargs)), self)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """What the Flax module gives for torch's arguments, as torch tensors: called as the original is."""
        case = self.called_as(args, kwargs)
        results = self.boundary.call(self.module, self.to_flax(args, kwargs))
        fitting = [each for each in (case, self, *self.others) if each.boundary.gives(results)] or [case]
        if not case.boundary.takes(args, kwargs) and any(
            each.boundary.outputs != fitting[0].boundary.outputs for each in fitting
        ):
            raise UsageError(
                "no example call has these arguments together, so that it is not known how the axes of what comes out "
                "lie in PyTorch: call the module itself, which gives them in JAX's order"
            )
        return fitting[0].to_torch(results)

    def to_torch(self, results: Any) -> Any:
        """What the Flax module gives, as torch tensors in torch's layout, in the original's tuples and dicts."""
        return self.boundary.to_torch(results)


def _code(source: str, name: str, tables: dict[str, np.ndarray]) -> Any:
    module = loaded(source, name)
    if "TABLES" in vars(module):
        module.TABLES.arrays = tables
    return module


def _code_of_package(package: WrittenPackage, name: str, tables: dict[str, np.ndarray]) -> Any:
    modules = loaded_package(package.files, name)
    for module in modules.values():
        if "TABLES" in vars(module):
            vars(module)["TABLES"].arrays = tables
    made = ModuleType(modules[""].__name__)
    # What the model is constructed with may be said with what any of the files imports.
    for module in modules.values():
        vars(made).update(vars(module))
    vars(made).update(vars(modules[""]))
    vars(made).update({name: getattr(modules[home], there) for name, (home, there) in package.homes.items()})
    return made
