"""`port translate`: translates a torch module to readable Flax source, with weights and proof."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from port.cli.empty import refuse_empty
from port.cli.guarding import Made, guarded, said_beforehand
from port.cli.models import register_pairs
from port.cli.parsing import parsed
from port.cli.translated_model import TranslatedModel, WhatToTranslate, translated_model
from port.errors import UnknownChoice, UsageError
from port.extras import EXTRAS, require
from port.judging import Status
from port.judging.limits import SIZES_LIMIT, TIME_LIMIT
from port.named import arguments as keywords
from port.translation.hub.target import is_hub_target
from port.translation.ir.instrumentation import PASSES, printing, watching_passes

if TYPE_CHECKING:
    from port.report.bundle import ReportBundle


DEFAULT_FOLDER = Path("ported")


@dataclass(frozen=True)
class Arguments:
    """Write the Flax NNX source of a PyTorch module, with its weights, its mapping and the proof.

    The folder is written atomically: NAME.py, NAME.safetensors, NAME.mapping.toml, test_NAME.py, report.md; and
    NAME.tables.safetensors if a new model (without weights) starts with tables that no formula computes. How new
    parameters are initialized is read from MODULE:NAME's own code, which is run for it, never from a checkpoint.
    Exits 0 if everything was translated and both sides agree; 1 if something is left to write, or they differ; 2 if the
    model cannot be built, run or translated; 4 if it was translated, and cannot be judged.
    """

    target: Annotated[Positional[str], arg(metavar="MODULE:NAME")]
    """a class or a function that returns the module, as in torchvision.models:resnet18; or a transformers model by its
    folder or class, transformers:./llama or transformers:BertModel: its inputs are drawn, and it is proved small"""
    kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """constructor arguments, as in '{"width": 64}'; '{"config": {"@my_pkg.model:Config": {"n": 2}}}' calls the named
    class, and MODULE:NAME instead of JSON is a dict or a function that returns one. For a transformers model: fields
    of its configuration"""
    weights: Annotated[Path | None, arg(metavar="FILE")] = None
    """a checkpoint of the model (never unpickled beyond tensors); by default its initial weights at seed 0"""
    meta: bool = False
    """build the model without values (on the meta device), however large it is: source and mapping are written,
    and nothing is compared; not with --weights"""
    input: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="SHAPE[:DTYPE]")] = ()
    """an example input, as in 1,3,224,224 or 1,16:int64; repeat per input. Integers are drawn from 0 and 1"""
    inputs: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """instead, a function that returns them: a tensor, a tuple, a dict of arguments by name, or (tuple, dict); a list
    of tuples and dicts is several example calls, and what only some do is written under a condition on the
    arguments"""
    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FOLDER")] = None
    """the output, a new folder; ported/ by default"""
    name: Annotated[str | None, arg(metavar="NAME")] = None
    """name of the written module; by default the target's, in lower case"""
    submodule: Annotated[str | None, arg(metavar="PATH")] = None
    """translate only this part, as in layer1.0; the whole model is run once for the part's inputs"""
    static: bool = False
    """fix all lengths of the inputs at the example's; by default, lengths that the original lets vary stay free"""
    remat: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="CLASS")] = ()
    """a class of the model whose activations are recomputed in the backward pass (nnx.remat); repeat per class"""
    remat_policy: Annotated[str | None, arg(metavar="NAME")] = None
    """what to keep of these all the same: nothing, dots, dots_with_no_batch_dims or everything, as in jax"""
    scan: bool = False
    """stack lists of equal layers: one layer whose parameters have a leading axis that counts them, called by nnx.scan,
    so that neither source nor compile time grow with depth; the mapping stacks the checkpoint's tensors"""
    logical_axes: bool = False
    """name the axes of parameters and activations (embed, heads, mlp, vocab), by the operations along them, with a
    table of rules for the axes of a mesh, data, fsdp and tensor: load(mesh=…) builds directly on its devices"""
    generate: bool = False
    """text generation of a causal language model, with keys and values of earlier tokens in caches: in generate.py,
    which has prefill, decode and generate. Proved against the original without caches, at every position.
    A transformers model has the caches in its source, and is called as model(ids, position, places); with a sliding
    window, whose caches are rings, as model(ids, position, places, window_positions)"""
    standalone: bool = False
    """copy what NAME.py needs of port into it: it then needs only jax, flax, numpy and safetensors"""
    package: bool = False
    """write a package instead of NAME.py: a file for each file of the model's code, with the same name in the same
    place, and imports between them. FOLDER is the package: from FOLDER import load"""
    at: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="JSON")] = ()
    """other arguments of the model's constructor, as in '{"depth": 2, "width": 64}': both sides are constructed with
    them, and compared as well; repeat per set of arguments"""
    prove_at: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="JSON")] = ()
    """the same, and only there: the model itself is built without values, as by --meta, and never run, so that a
    large one is proved at a size that fits"""
    time_limit: Annotated[float, arg(metavar="SECONDS")] = TIME_LIMIT
    """time limit for comparing both sides, by its estimate: what would take longer is compared at smaller lengths"""
    sizes_limit: Annotated[float, arg(metavar="SECONDS")] = SIZES_LIMIT
    """time limit for comparing both sides at other sizes: each constructor argument alone changed to a neighbouring
    value, then two at a time, at random; 0 for none"""
    trust_remote_code: bool = False
    """run the code in a folder of transformers:FOLDER, if its configuration requires it"""
    pairs: Annotated[Path | None, arg(metavar="FILE.py")] = None
    """your own pairs: of layers, losses, operators, optimizers, schedules"""
    report_bundle: Annotated[Path | None, arg(metavar="FILE.zip")] = None
    """collect what a report of a model that does not translate needs: the sources of its classes, versions, the error
    or the report; no weights, no inputs. Read it before you send it"""
    dry_run: bool = False
    """only list the layers and operators, and which of them have no pair; exits 1 if any has none"""
    json: bool = False
    """print the result as JSON, for programs"""
    print_ir: bool = False
    """print the graph that the source is written from, one line per operation: JAX expressions with their layouts"""
    print_after: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="PASS")] = ()
    """print the graph after a pass: export, reroll-loops, generalize-lengths, output-sizes, canonical-names,
    stateful-loops, layout or lower"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    refuse_empty("translate", arguments)
    options = parsed(Arguments, "translate", arguments)
    fields = keywords(options.kwargs, "--kwargs")
    is_hub = is_hub_target(options.target, fields)
    if options.prove_at or is_hub:
        options = replace(options, meta=True, at=(*options.at, *options.prove_at))
    if options.dry_run and options.out is not None:
        raise UsageError("--dry-run writes nothing: leave out --out")
    if bool(options.input) == (options.inputs is not None) and not (is_hub and not options.input):
        raise UsageError("pass the model's inputs: --input 1,3,224,224 for each tensor, or --inputs module:function")
    if options.at and options.dry_run:
        raise UsageError("--at compares at other arguments, and --dry-run compares nothing: pass only one of them")
    if options.scan and options.dry_run:
        raise UsageError("--dry-run writes nothing: leave --scan out")
    if options.logical_axes and options.dry_run:
        raise UsageError("--dry-run writes nothing: leave --logical-axes out")
    if options.generate:
        _check_generates(options, is_hub)
    if options.package and options.dry_run:
        raise UsageError("--dry-run writes nothing: leave --package out")
    if options.package and options.out is None:
        raise UsageError("--package writes a package that is imported by its folder's name: pass one, -o FOLDER")
    if is_hub and options.weights is not None:
        mapping = (options.out or DEFAULT_FOLDER) / f"{options.name or 'NAME'}.mapping.toml"
        raise UsageError(
            "a model of transformers is written without values, and filled afterwards: leave out --weights, and write "
            f'port.load(model, "{options.weights}", rename="{mapping}")'
        )
    if options.meta and options.weights is not None:
        option = "--prove-at" if options.prove_at else "--meta"
        raise UsageError(f"{option} builds a model without values: leave out --weights, or {option}")
    require("port translate", translate=EXTRAS["translate"])
    # Imported here, so that --help does not wait for JAX.
    from rich.console import Console

    from port.report.bundle import report_bundle
    from port.translation.folder import check_folder, check_name, check_package_folder, file_name

    out = options.out or DEFAULT_FOLDER
    if not options.dry_run:
        check_package_folder(out) if options.package else check_folder(out)
    if options.pairs is not None:
        register_pairs(options.pairs)
    what = WhatToTranslate(
        options.target,
        options.kwargs,
        fields,
        options.weights,
        options.input,
        options.inputs,
        options.submodule,
        is_on_meta=options.meta,
        is_proved_at=bool(options.at),
        trust_remote_code=options.trust_remote_code,
        generates=options.generate,
    )
    console = Console() if sys.stdout.isatty() else Console(width=10_000)
    with report_bundle(options.report_bundle, ["translate", *arguments]) as bundle:
        model = translated_model(what)
        bundle.module = model.module
        # After the model, whose import has put the user's own folder on the module search path.
        name = check_name(options.name) if options.name is not None else file_name(model.called)
        if options.dry_run:
            return _dry_run(options, model, console)
        with _printed_graphs(options):
            return _translate(options, model, out, name, console, bundle)


def _check_generates(options: Arguments, is_hub: bool) -> None:
    if options.meta and not is_hub:
        raise UsageError("--generate proves a model of your own with its values: leave --meta and --prove-at out")
    for option, is_set in (
        ("--scan", options.scan),
        ("--submodule", options.submodule is not None),
        ("--dry-run", options.dry_run),
        ("--package", options.package),
        ("--remat", bool(options.remat)),
    ):
        if is_set:
            raise UsageError(f"--generate supports only a whole model in its own file so far: leave {option} out")


def _printed_graphs(options: Arguments) -> AbstractContextManager[None]:
    """A context in which the requested graphs are printed; to standard error, so that JSON or the result stay clean.

    Raises:
        UnknownChoice: the pass does not exist.
    """
    passes = (*options.print_after, *(("lower",) if options.print_ir else ()))
    for name in passes:
        if name not in PASSES:
            raise UnknownChoice("pass", name, PASSES)
    stream = sys.stderr  # bound here: torch.export's output to stderr is silenced there
    return watching_passes(printing(passes, lambda text: print(text, file=stream)))


def _dry_run(options: Arguments, model: TranslatedModel, console: Any) -> int:
    from port.report.translation_terminal import print_audit
    from port.translation.audit import audit

    done = _guarded(lambda: audit(model.module, *model.calls[0], static=options.static), options.target)
    name = options.target if options.submodule is None else f"{options.target} {options.submodule}"
    if options.json:
        from port.report.results import printed, result_of_audit

        print(printed(result_of_audit(done, name)))
    else:
        print_audit(done, console, name=name)
    return 1 if done.unknown else 0


def _translate(
    options: Arguments, model: TranslatedModel, out: Path, name: str, console: Any, bundle: ReportBundle
) -> int:
    from port.report.translation import translation_report
    from port.report.translation_terminal import print_translation
    from port.translation.folder import write_folder
    from port.translation.hub.folder_weights import taking_all
    from port.translation.translating import translate
    from port.translation.verify.generation import with_own_generation

    settings: dict[str, Any] = {"static": options.static, "remat": options.remat, "standalone": options.standalone}
    settings |= {
        "remat_policy": options.remat_policy,
        "scan": options.scan,
        "logical_axes": options.logical_axes,
        "package": options.package,
        "time_limit": options.time_limit,
        "sizes_limit": options.sizes_limit,
        "tell": said_beforehand,
        "at": [*(keywords(each, "--at") for each in options.at), *model.at],
    }
    if model.proved_at:
        said_beforehand(model.proved_at)
    done = _guarded(
        lambda: translate(model.module, cases=model.calls, name=name, construct=model.construct, **settings),
        options.target,
    )
    if (
        options.generate
        and done.proof is not None
        and not is_hub_target(options.target, keywords(options.kwargs, "--kwargs"))
    ):
        proof = with_own_generation(done.proof, model.module, done)
        done = replace(done, proof=proof)
    if done.proof is not None and model.remarks:
        done = replace(done, proof=replace(done.proof, remarks=(*model.remarks, *done.proof.remarks)))
    done = taking_all(done, model.module, model.in_folder)
    package = out.absolute().name if options.package else ""
    whole_folder = {"checkpoint": str(model.folder)} if model.folder is not None and options.submodule is None else {}
    report = translation_report(done, model.module, name=name, original=model.original, package=package, **whole_folder)
    bundle.source, bundle.report = done.source, report
    files = write_folder(done, out, name=name, original=model.original, report=report, generates=options.generate)
    if options.json:
        from port.report.results import printed, result_of_translation

        print(printed(result_of_translation(done, files)))
    else:
        print_translation(done, console, files=files)
    if done.unwritten or done.proof is None:
        return Status.DIFFER.exit_code
    return done.proof.status.exit_code


def _guarded(work: Callable[[], Made], target: str) -> Made:
    return guarded(work, f"{target} could not be translated", "--submodule PATH translates one part; ")
