"""`port.translate`: from a torch module and example inputs to its Flax source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from port.errors import UsageError
from port.judging.limits import SIZES_LIMIT, TIME_LIMIT
from port.judging.status import Status
from port.pairs.layers.conv_transpose import output_sizes_at_calls
from port.parity.options import check_inputs
from port.parity.sides.duration import sizes_limit_of, time_limit_of
from port.parity.sides.inputs import Inputs
from port.translation.both_modes import BothRuns, both_runs
from port.translation.free_dimensions import (
    captured_with_free_lengths,
)
from port.translation.frontend.construction import constructed
from port.translation.frontend.example_inputs import Given, arguments, check_objects
from port.translation.frontend.python_random import same_numbers_afterwards
from port.translation.frontend.single_layer import as_root
from port.translation.options import CapturedModel, TranslationOptions
from port.translation.other_settings import OtherModel
from port.translation.result import Translation
from port.translation.structure.init_inference import ConstructFails, Seen, watched
from port.translation.structure.remat import remat_of
from port.translation.writing import write_translation

if TYPE_CHECKING:
    import torch


@output_sizes_at_calls()
@same_numbers_afterwards()
def translate(
    module: torch.nn.Module,
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    *,
    cases: Sequence[Any] = (),
    name: str | None = None,
    static: bool = False,
    check: bool = True,
    construct: Callable[[], torch.nn.Module] | None = None,
    remat: Sequence[str] | str = (),
    remat_policy: str | None = None,
    scan: bool = False,
    logical_axes: bool = False,
    standalone: bool = False,
    package: bool = False,
    at: OtherModel | Sequence[OtherModel] = (),
    time_limit: float = TIME_LIMIT,
    sizes_limit: float = SIZES_LIMIT,
    tell: Callable[[str], Any] | None = None,
) -> Translation:
    """Translate a torch module to readable Flax source, and prove that both compute the same.

    Parameters that torch does not train (``requires_grad=False``) become `port.nn.Frozen`, which ``nnx.Param`` filters
    leave out.

    Args:
        module: a PyTorch module; left unchanged. One on the meta device is written without weights, and not proved.
        args: example inputs: one tensor, or the tuple of positional arguments.
        kwargs: keyword arguments.
        cases: several example calls instead, ``[(x,), {"x": x, "mask": mask}]``: each a tuple of positional arguments,
            a dict of keyword arguments, or a pair of both. Code that only some calls run is written under a condition
            on the arguments that distinguish them, the original's own condition where it has one.
        name: the name of the file that will hold the source; by default the class's, in lower case.
        static: whether to fix all input lengths at the example's. By default every length stays free that can vary,
            which is found by running the original. Fixed lengths are checked on entry.
        construct: constructs the module again, as its user does (``lambda: Net(width=64)``). It is called twice and
            observed, and a new written module is initialised as it initialises. Without it, a class whose constructor
            takes no arguments is constructed; otherwise layers are initialised as torch's own, and a parameter or
            buffer of a user-defined class raises `NoInitialValue` in a new module until `load` fills it. The module's
            current values are never used for this: they may come from a checkpoint.
        check: whether to compare both sides in float64 (outputs, gradients, buffers) and to validate constructor
            arguments. Without it constructors take no arguments, except where instances of a class differ.
        remat: names of the original's classes whose activations are recomputed in the backward pass (``nnx.remat``,
            gradient checkpointing): less memory, for one more forward pass of these classes.
        remat_policy: which of their activations are stored all the same: ``"nothing"``, ``"dots"``,
            ``"dots_with_no_batch_dims"`` or ``"everything"``, as in `jax.checkpoint_policies`; by default nothing.
        scan: whether lists of equal layers become stacks, whose parameters have a leading axis over the layers, called
            by ``nnx.scan``: source and compile time do not grow with depth. Layers may differ in numbers. A list that
            cannot be a stack stays a list, and ``translation.apart`` gives the reason.
        logical_axes: whether parameters name their axes (``embed``, ``heads``, ``mlp``, ``vocab``), inferred from the
            computations along them, with rules in the source that shard these over the axes of a mesh:
            ``translation.build(mesh=jax.make_mesh((4, 2), ("fsdp", "tensor")))`` builds directly onto it.
        standalone: whether to copy what the source uses of ``port`` into it, so that it needs only JAX, Flax,
            safetensors and numpy.
        package: whether to write the source as a package too, ``package.files``, with one file for each file of the
            original that defines a part of it, and the same names in the same order. The package is then compared.
        at: other settings of the original's constructor, ``{"depth": 4, "width": 48}``, a function that constructs it
            with others, ``lambda: Net(depth=4)``, or a sequence of these: both sides are constructed and compared there
            too, so that a model on the meta device can be proved at a size that fits. A model that a function
            constructs also shows which arguments are valid; where the original's constructors are kept, classes and
            branches that only this model uses are written too.
        time_limit: limit in seconds for comparing both sides, estimated beforehand; a longer comparison is made at
            smaller lengths, or not at all, and the proof says so.
        sizes_limit: limit in seconds for comparing both sides at other sizes: each constructor argument changed alone
            to a neighbouring value that the original accepts, then random pairs; 0 for none. An argument for which
            both sides differ is written as its value.
        tell: called beforehand with the expected duration, if that is long.

    Returns:
        The translation: source, module with its weights, mapping, notes and proof.

    Raises:
        UsageError: not a module, or it does not take its inputs; all inputs are empty, on which any two modules
            agree; its copy computes something else; it hides a method of
            ``torch.nn.Module``; two ``cases`` that no argument distinguishes; a name in ``remat`` that is not a written
            class; an unknown ``remat_policy``; settings in ``at`` that the original or the source does not take.
        NoPair: torch.export cannot capture the module, or it computes with state that is neither a parameter nor a
            buffer, such as layers in a plain list; says where and what to do.
    """
    time_limit, computed_again = time_limit_of(time_limit), remat_of(remat, remat_policy)
    calls = _calls(args, kwargs, cases)
    for positional, by_name in calls if check else ():
        check_inputs(Inputs(positional, by_name))
    if len(calls) > 1 and hasattr(module, "forward"):
        check_objects(module, calls)
    run = partial(both_runs, module, remat=bool(remat), check=check)
    captured = [_captured(partial(run, *call), static=static) for call in calls]
    root = captured[0].root
    made_anew = None if construct is None else lambda: as_root(construct())
    unknown = ""
    try:
        seen = watched(root, made_anew)
    except ConstructFails as error:
        made_anew, unknown, seen = None, f"constructors keep no arguments: {error}", Seen(why=str(error))
    original = CapturedModel(
        captured,
        run,
        seen=seen,
        construction=constructed(root, made_anew) if check else None,
        construct=made_anew,
        unknown=unknown,
    )
    options = TranslationOptions(
        name=name,
        check=check,
        remat=computed_again,
        scan=scan,
        logical_axes=logical_axes,
        standalone=standalone,
        package=package,
        at=(at,) if isinstance(at, Mapping) or callable(at) else tuple(at),
        time_limit=time_limit,
        sizes_limit=sizes_limit_of(sizes_limit),
        tell=tell,
    )
    made, is_kept = write_translation(original, options)
    if is_kept and made.proof is not None and made.proof.status is Status.DIFFER:
        # A kept constructor computes something else in JAX: write its result instead.
        made, _ = write_translation(original, options, keeps=False)
    return made


def _calls(args: Any, kwargs: dict[str, Any] | None, cases: Sequence[Any]) -> list[Given]:
    """Return the arguments of the example calls.

    Raises:
        UsageError: both ``cases`` and ``args`` or ``kwargs`` were passed.
    """
    if not cases:
        return [(tuple(args) if isinstance(args, tuple | list) else (args,), dict(kwargs or {}))]
    if kwargs or not (isinstance(args, tuple | list) and not args):
        raise UsageError("pass example inputs either as args and kwargs or as cases, not both")
    return [arguments(case) for case in cases]


def _captured(run: Callable[..., BothRuns], *, static: bool) -> BothRuns:
    return run(free=()) if static else captured_with_free_lengths(run)
