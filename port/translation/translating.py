"""`port.translate`: from a torch module and example inputs to its Flax source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from port.errors import UsageError
from port.judging.limits import SIZES_LIMIT, TIME_LIMIT
from port.judging.status import Status
from port.pairs.layers.conv_transpose import output_sizes_at_calls
from port.parity.sides.duration import sizes_limit_of, time_limit_of
from port.translation.both_modes import BothRuns, both_runs
from port.translation.free_dimensions import (
    captured_with_free_lengths,
)
from port.translation.frontend.construction import constructed
from port.translation.frontend.example_inputs import Given, arguments, check_objects
from port.translation.frontend.python_random import same_numbers_afterwards
from port.translation.frontend.single_layer import as_root
from port.translation.other_settings import OtherModel
from port.translation.result import Translation
from port.translation.structure.init_inference import ConstructFails, Seen, watched
from port.translation.structure.remat import remat_of
from port.translation.wanted import CapturedModel, Wanted
from port.translation.writing import written

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
    """Write the Flax module that a person would have written, and prove that it is the same.

    Parameters that torch does not train (``requires_grad=False``) are `port.nn.Frozen`, which ``nnx.Param`` leaves out.

    Args:
        module: of PyTorch; it stays as it is. One on the meta device is written without its weights, and not proved.
        args: example inputs: one tensor, or the tuple of positional arguments.
        kwargs: those given by name.
        cases: in their place, several example calls, ``[(x,), {"x": x, "mask": mask}]``: of each a tuple of positional
            arguments, a dict of those by name, or a pair of both. What only some do stands behind a condition on the
            arguments that tell them apart, the original's own where it has one.
        name: of the file that the source is for; by default the class's, in lower case.
        static: whether all lengths of the inputs are fixed at the example's. By default those stay free that the
            original takes others for, which is found out by running it. What is fixed is checked where it comes in.
        construct: makes the module anew, as its user does (``lambda: Net(width=64)``). It is watched, twice, and a
            new written module starts as what it makes. Without it, a class whose constructor takes no arguments is
            constructed so; otherwise layers start as torch's own do, and a parameter or a buffer of a class of one's
            own raises `NoInitialValue` in a new module, which `load` fills. The module's own values are never looked
            at for this: they may be a checkpoint's.
        check: whether both sides are compared in float64: outputs, gradients, buffers; and whether the arguments of
            constructors are borne out. Without it constructors take none, but where instances of a class differ.
        remat: names of the original's classes whose activations are computed again in the backward pass
            (``nnx.remat``, gradient checkpointing): less memory for one more forward pass of them.
        remat_policy: what of these is kept all the same: ``"nothing"``, ``"dots"``, ``"dots_with_no_batch_dims"`` or
            ``"everything"``, as in `jax.checkpoint_policies`; by default nothing.
        scan: whether lists of equal layers are one stack each, whose parameters have a first axis that counts the
            layers, called by ``nnx.scan``: neither source nor time to compile grow with depth. Layers may differ by
            numbers; what cannot be a stack stays a list, and ``translation.apart`` says why.
        logical_axes: whether parameters say what their axes are, ``embed``, ``heads``, ``mlp``, ``vocab``, found by
            what is done along them; and the source has rules that say along which axes of a mesh these are divided:
            ``translation.build(mesh=jax.make_mesh((4, 2), ("fsdp", "tensor")))`` builds straight onto it.
        standalone: whether what the source takes from ``port`` is copied into it, so that it needs only JAX, Flax,
            safetensors and numpy.
        package: whether the source is a package as well, ``package.files``: a file for each file of the original's that
            defines something of it, with the same names in the same places. It is what is compared then.
        at: other settings of the original's constructor, ``{"depth": 4, "width": 48}``, or what constructs it with
            others, ``lambda: Net(depth=4)``, or several: both sides are constructed with them, and compared as well.
            So a model on the meta device is proved at a size that fits. Which arguments hold, what is constructed
            shows, with the weights that it has; where constructors are written as the original has them, the classes
            and the branches that only it uses stand in the source too.
        time_limit: seconds that comparing both sides may take, as estimated beforehand; what would take longer is
            compared at smaller lengths, or not at all, and the proof says so.
        sizes_limit: seconds that comparing both sides at other sizes may take: each argument of the constructor moved
            by itself to a value beside its own that the original takes, then two at a time, at random; 0 for none. An
            argument with another value of which both sides differ is written as its value.
        tell: is told beforehand how long that takes, if it is long.

    Returns:
        the source, the module with its weights, the mapping, the notes and the proof.

    Raises:
        UsageError: no module, or inputs that it does not take; one whose copy computes something else, or that hides a
            method of ``torch.nn.Module``; in ``cases``, two that no argument tells apart; in ``remat``, no class that
            is written; a ``remat_policy`` that there is none of; in ``at``, what the original refuses, or the source
            does not take.
        NoPair: a module that torch.export cannot capture; one that computes with state that is neither a parameter nor
            a buffer, as layers in a plain list are; says where and what to do.
    """
    time_limit, computed_again = time_limit_of(time_limit), remat_of(remat, remat_policy)
    calls = _calls(args, kwargs, cases)
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
    wanted = Wanted(
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
    made, is_kept = written(original, wanted)
    if is_kept and made.proof is not None and made.proof.status is Status.DIFFER:
        # The original's own source of a constructor makes something else in JAX: what it makes is written instead.
        made, _ = written(original, wanted, keeps=False)
    return made


def _calls(args: Any, kwargs: dict[str, Any] | None, cases: Sequence[Any]) -> list[Given]:
    """The example calls.

    Raises:
        UsageError: some are given in both ways.
    """
    if not cases:
        return [(tuple(args) if isinstance(args, tuple | list) else (args,), dict(kwargs or {}))]
    if kwargs or not (isinstance(args, tuple | list) and not args):
        raise UsageError("example inputs are given as args and kwargs, or as cases: not both")
    return [arguments(case) for case in cases]


def _captured(run: Callable[..., BothRuns], *, static: bool) -> BothRuns:
    return run(free=()) if static else captured_with_free_lengths(run)
