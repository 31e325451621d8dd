"""The written module: Flax source, weights and calling convention."""

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
    """A Flax module as source, with its weights and its calling convention.

    Attributes:
        name: name of the root's class.
        source: the Flax NNX source, as one file.
        mapping: the mapping from the original's tensors.
        boundary: the calling convention.
        values: Flax's path → numpy array of the variable.
        hidden: Flax's paths of non-persistent buffers of the original.
        tables: tables that a new module starts with: name → array, the contents of ``NAME.tables.safetensors``.
        mixed: whether the original computes a part in float32, whatever its precision.
        prefix: prefix of the original's names, if a single layer was wrapped into a module to translate it.
        lengths: the lengths of the input tensors: free ones by name, conditions on them, those that were tried.
        draws: mode (True for training) → layouts of the random draws, in order; those of a loop's iteration as a tuple.
        checkpointed: names of the written classes whose calls are under ``nnx.remat``.
        stacked: Flax's paths of the lists of layers that are stacks.
        rules: logical axis → axes of a mesh along which it is divided; None if axes have no names.
        unnamed: Flax's paths of parameters with several axes of which none has a name.
        own_gradients: ``torch.autograd.Function``s whose backward pass the source lacks: ``Name (file:line)``.
        arguments: the constructor's arguments for this model, except defaults: name → expression.
        others: the same module for other example calls: calling convention, lengths, draws.
        package: the source as a package; its files are then what runs.
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
        """The Flax module with the original's weights, in training mode, Flax's default."""
        return self.build()

    @property
    def params(self) -> dict[str, np.ndarray]:
        """The weights by Flax's dotted paths."""
        return self.values

    @property
    def has_weights(self) -> bool:
        """Whether it has the original's weights; a translation of a module on the meta device has none."""
        return bool(self.values) or all(entry.collection == TORCH_ONLY for entry in self.mapping.entries)

    @property
    def frozen(self) -> tuple[str, ...]:
        """Names of the original's parameters with ``requires_grad=False``, which become `port.nn.Frozen`."""
        return self._parameters(FROZEN)

    @property
    def trained(self) -> tuple[str, ...]:
        """Names of the original's parameters that are trained."""
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
        """Build a new Flax module from the source.

        Args:
            seed: seeds its random streams and initial values.
            filled: whether to use the original's weights.
            mesh: a device mesh onto which to place the arrays; needs a translation with ``logical_axes``.
            rules: logical axis → axes of the mesh, in place of the source's; None for an axis that is not divided.
            options: ``dtype`` and ``param_dtype``.

        Raises:
            UsageError: a mesh for axes without names, rules without a mesh, or an unknown name in the rules or the
                mesh.
            NoInitialValue: not filled, and the initial values of some parameters are unknown.
            WeightsMismatch: the source constructs other shapes than the weights have.
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
            raise UsageError("a mesh needs logical names of the model's axes: translate with logical_axes=True")
        if mesh is None:
            raise UsageError("rules need a mesh: pass one too, as mesh=jax.make_mesh((8,), ('fsdp',))")
        parts = whole(self.values) if filled else None
        with self.filled_later() if filled else nullcontext():
            return on_mesh(
                lambda: self.constructor(rngs=nnx.Rngs(seed), **options), mesh, self.rules, given=rules, parts=parts
            )

    def check_built(self) -> None:
        """Check that the module can be built, with each weight in its shape; no array is allocated.

        Raises:
            WeightsMismatch: a weight is missing or has another shape.
            Exception: the source's error.
        """
        from flax import nnx

        entries = [entry for entry in self.mapping.entries if entry.collection != TORCH_ONLY]
        shapes = {
            path: shape for entry in entries for path, shape in zip(entry.targets, entry.target_shapes(), strict=True)
        }
        with self.filled_later():
            filling.check_filled(lambda: self.constructor(rngs=nnx.Rngs(0)), shapes, self.name)

    def filled_later(self) -> AbstractContextManager[None]:
        """Return a context manager in which variables with unknown initial values stay empty."""
        from port.nn import filled_later

        # A standalone source has its own.
        return self.code.__dict__.get("filled_later", filled_later)()  # type: ignore[no-any-return]

    @property
    def constructor(self) -> Callable[..., Any]:
        """The root's class with this model's arguments bound; it takes ``rngs``, ``dtype`` and ``param_dtype``."""
        import jax.numpy as jnp
        from flax import nnx

        import port.nn

        def construct(**options: Any) -> Any:
            own = self.code.__dict__
            # The source imports names that only the arguments use if it has a `load`; otherwise they are added here.
            names = {**vars(port.nn), "partial": partial, "nnx": nnx, "jnp": jnp, **own}
            arguments = {name: eval(text, names, {"options": options}) for name, text in self.arguments.items()}
            return own[self.name](**arguments, **options)

        return construct

    @property
    def said_arguments(self) -> SaidArguments:
        """This model's constructor arguments, including defaults, in the form that the weights file stores."""
        own = self.code.__dict__
        modules = {name: text for name, text in self.arguments.items() if "**options" in text}
        arguments = {name: eval(text, own) for name, text in self.arguments.items() if name not in modules}
        made = said_arguments(own[self.name], arguments)
        values = {name: value for name, value in made.values.items() if name not in modules}
        return SaidArguments(values, {**made.unsaid, **modules})

    @cached_property
    def code(self) -> Any:
        """The source as a Python module; for a package, a module with the definitions of all its files."""
        if self.package is not None:
            return _code_of_package(self.package, self.name, self.tables)
        return _code(self.source, self.name, self.tables)

    @property
    def needs_x64(self) -> bool:
        """Whether the source names a 64-bit dtype, which JAX has only with ``jax_enable_x64``."""
        return re.search(r"\bjnp\.(float64|complex128)\b", self._own_source) is not None

    @property
    def written_classes(self) -> frozenset[str]:
        """Names of the classes that were translated from the original."""
        return frozenset(node.name for node in ast.parse(self._own_source).body if isinstance(node, ast.ClassDef))

    @property
    def _own_source(self) -> str:
        """The source without copies from port."""
        return self.source.rpartition(MODEL)[2] if self.package is None else self.package.own_text

    def to_flax(self, args: Any, kwargs: dict[str, Any] | None = None) -> tuple[Any, ...]:
        """Convert torch's arguments to the Flax module's positional arguments: arrays in its layouts.

        The arguments of ``**kwargs`` become a dict at the end; `run` unpacks it.

        Args:
            args: one tensor, or the tuple of positional arguments, as for ``translate``.
            kwargs: keyword arguments.

        Raises:
            UsageError: the arguments' tensors differ in number or rank from the example's.
        """
        args = tuple(args) if isinstance(args, tuple | list) else (args,)
        case = self.called_as(args, kwargs or {})
        if case is not self or not self.others:
            return case.boundary.to_flax(args, kwargs or {})
        # No example call is like this one: convert each argument as in the example calls that have it.
        layouts = {name: known for each in (*self.others, self) for name, known in each.boundary.layouts.items()}
        return replace(self.boundary, layouts=layouts).to_flax(args, kwargs or {})

    def called_as(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> WrittenModule:
        """Return the module for the example call that is like this call; by default, for the first example call."""
        if not self.others:
            return self
        return next((case for case in (self, *self.others) if case.boundary.takes(args, kwargs)), self)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the Flax module with torch's arguments, like the original, and return torch tensors.

        Raises:
            UsageError: the arguments differ from the example's, or no example call has this combination of them, and
                the layout of the results is unknown.
        """
        case = self.called_as(args, kwargs)
        results = self.boundary.call(self.module, self.to_flax(args, kwargs))
        fitting = [each for each in (case, self, *self.others) if each.boundary.gives(results)] or [case]
        if not case.boundary.takes(args, kwargs) and any(
            each.boundary.outputs != fitting[0].boundary.outputs for each in fitting
        ):
            raise UsageError(
                "no example call has this combination of arguments, so the layout of the results in PyTorch is "
                "unknown: call the module itself, which returns them in JAX's layout"
            )
        return fitting[0].to_torch(results)

    def to_torch(self, results: Any) -> Any:
        """Convert the Flax module's results to torch tensors, in torch's layout and the original's tuples and dicts."""
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
    # The constructor's arguments may use names that any of the files imports.
    for module in modules.values():
        vars(made).update(vars(module))
    vars(made).update(vars(modules[""]))
    vars(made).update({name: getattr(modules[home], there) for name, (home, there) in package.homes.items()})
    return made
