"""Read a script's loop over its epochs from its source: where its data is made, and how many epochs there are."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.epochs import epochs_of, passed_arguments
from port.scripts.writing.evaluated_when import evaluated_when, fixed_names
from port.scripts.writing.own_calls import Function
from port.scripts.writing.parsed_options import with_options_parsed
from port.scripts.writing.shared_function import calling_line
from port.scripts.writing.taken_statements import (
    SHOWN,
    Taken,
    called_name,
    calls_in,
    holds,
    is_guard,
    names_loaded,
    names_set,
    options_of,
    runs,
    taken_statements,
)
from port.scripts.writing.telling_epoch import tells_epoch


@dataclass
class EpochLoop:
    """What a written trainer copies from a script.

    Attributes:
        file: the script.
        tree: its source.
        loaders: the variables that hold the loaders: ``training``'s, and ``evaluation``'s if there is one.
        taken: the statements that make the loaders.
        epochs: the iterable of epochs, each a pass over the training loader: ``range(1, args.epochs + 1)``.
        epoch: the variable that counts them.
        every: the interval between two lines about the loss: ``args.log_interval``, or a number; None if not plain.
        jumps: breaks and continues within an epoch.
        evaluates_if: the condition on the epochs that evaluate; empty if all do.
        generators: generators of batches that the script makes itself, as source.
        rates: a generator of each epoch's learning rate, if the script sets it by hand, as source.
        hears: whether each evaluation's result is sent to that generator.
        others: what else is copied.
        evaluates_at_end: whether the evaluation is after the loop over the epochs, not in it.
        tells_epoch: whether set_epoch of the training loader's sampler is called before each pass.
        statement: the loop over the epochs; None if there is none.
        covered: where options are read for numbers that are inputs of train_step.
        numbers: the name of the generator that yields a number for each update; empty if there is none.
        is_planned: whether there are no epochs, but a generator of steps: updates, evaluations.
    """

    file: Path
    tree: ast.Module
    loaders: dict[str, str]
    taken: Taken
    epochs: ast.expr
    epoch: str
    every: ast.expr | None = None
    jumps: list[ast.stmt] = field(default_factory=list)
    evaluates_at_end: bool = False
    evaluates_if: str = ""
    generators: list[str] = field(default_factory=list)
    rates: str = ""
    hears: bool = False
    others: list[ast.AST] = field(default_factory=list)
    tells_epoch: bool = False
    covered: set[tuple[int, int]] = field(default_factory=set)
    statement: ast.For | None = None
    numbers: str = ""
    is_planned: bool = False

    def see_when_it_evaluates(self, epochs: ast.For | None, training: Event, evaluation: Event | None) -> None:
        """Find which epochs are evaluated; the evaluation is dropped if that cannot be written."""
        if "evaluation" not in self.loaders or evaluation is None or self.evaluates_at_end:
            return
        if epochs is None:
            body = loop_over_batches(self.tree, training["line"])
            when = None if body is not None and runs(body, evaluation) else ""
        else:
            fixed = fixed_names(self.tree, epochs) - {self.taken.options}
            when = evaluated_when(epochs, training, evaluation, self.taken.options, self.epoch, fixed)
        if when is None:
            del self.loaders["evaluation"]
        self.evaluates_if = when or ""

    def is_free(self, option: str) -> bool:
        """Whether an option is used only in copied code, so that the written script may take other values."""
        said = {id(node) for one in ast.walk(self.tree) if _only_tells(one) for node in _uses(one, option)}
        whole = [
            node
            for node in _uses(self.tree, option)
            if id(node) not in said and (node.lineno, node.col_offset) not in self.covered
        ]
        kept = [*self.taken.definitions, *self.taken.body, self.epochs, *([self.every] if self.every else [])]
        kept += self.others
        lines = {id(node) for one in kept for node in _uses(one, option)}
        return all(id(node) in lines for node in whole) and not self.hands_options_on()

    def hands_options_on(self) -> bool:
        """Whether all options are passed to code outside this file."""
        own = {one.name for one in ast.walk(self.tree) if isinstance(one, Function | ast.ClassDef)}
        return any(
            called_name(call) not in {*own, "print"}
            for call in calls_in(self.tree)
            for argument in [*call.args, *(word.value for word in call.keywords)]
            if isinstance(argument, ast.Name) and argument.id == self.taken.options
        )


def loop_of(
    observation: Observation,
    training: Event,
    evaluation: Event | None,
    needs: Collection[str] = (),
    *,
    with_models: bool = False,
) -> EpochLoop:
    """Read the loop from the observed script.

    Args:
        observation: the script's observation.
        training: the loader of its updates' batches.
        evaluation: the loader of its evaluation's batches.
        needs: further names from before the loop that are needed.
        with_models: whether to copy the models' construction too, because the data is drawn after their weights.

    Raises:
        UsageError: it is not a plain loop; the message has the line, and what to write.
    """
    begun = observation.trained_on()
    made = (training["constructed"] or {}).get("where") or begun
    if begun is None or made is None:
        raise UsageError("the batches come from no line of the script: call train_step with your own arrays")
    file = Path(begun["file"])
    tree = with_options_parsed(without_guard(ast.parse(file.read_text("utf-8")), begun))
    scope, statement = _scope(tree, training, made)
    statements = [statement]
    names = {"training": _variable(statement, training["name"])}
    if evaluation is not None and (found := _statement(scope, evaluation)) is not None:
        names["evaluation"] = _variable(found, evaluation["name"])
        statements.append(found)
    found_epochs = epochs_of(tree, scope, begun, made)
    loop = found_epochs.loop if found_epochs is not None else None
    epochs = found_epochs.iterated if found_epochs is not None else ast.parse("range(1)", mode="eval").body
    target = loop.target.id if loop is not None and isinstance(loop.target, ast.Name) else "epoch"
    last = found_epochs.statement.lineno if found_epochs is not None else scope[-1].lineno + 1
    before = [*passed_arguments(tree, scope, begun["file"]), *(one for one in scope if one.lineno < last)]
    models = making_models(observation, before) if with_models else []
    taken = taken_statements(tree, scope, before, statements, {*names_loaded(epochs), *needs}, models)
    if taken.options is None and found_epochs is not None:
        said = [*taken.body, ast.Expr(epochs)]
        taken.options = next((one for one in (options_of(tree),) if any(one in names_loaded(s) for s in said)), None)
    body = loop_over_batches(tree, begun["line"])
    inside = ast.walk(body) if body is not None else ()
    jumps: list[ast.stmt] = [one for one in inside if isinstance(one, ast.Break | ast.Continue)]
    evaluated = observation.evaluation[0]["where"] if observation.evaluation else None
    is_in_scope = found_epochs is not None and found_epochs.statement is loop
    at_end = loop is not None and evaluated is not None and is_in_scope and is_behind(loop, scope, evaluated)
    found_loop = EpochLoop(file, tree, names, taken, epochs, target, plain_interval(body), jumps, at_end)
    if evaluated is not None and "evaluation" in names:
        # Both may be calls of one function.
        evaluated = calling_line(tree, evaluated, names["evaluation"])
        begun = calling_line(tree, begun, names["training"])
    found_loop.see_when_it_evaluates(loop, begun, evaluated)
    found_loop.statement = loop
    found_loop.tells_epoch = tells_epoch(tree, loop, training, file)
    return found_loop


def making_models(observation: Observation, before: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements before the loop that construct models, which draws weights."""
    places = [(one["constructed"] or {}).get("where") for one in observation.models]
    lines = {where["line"] for where in places if where}
    return [one for one in before if not isinstance(one, Function) and any(holds(one, line) for line in lines)]


def without_guard(tree: ast.Module, begun: Event) -> ast.Module:
    """A script's source, with the body of ``if __name__ == "__main__":`` unwrapped if it has the epochs' loop."""
    for place, one in enumerate(tree.body):
        if isinstance(one, ast.If) and is_guard(one):
            if any(isinstance(inner, ast.For) and runs(inner, begun) for inner in one.body):
                tree.body[place : place + 1] = one.body
            break
    return tree


def _scope(tree: ast.Module, loader: Event, made: Event) -> tuple[Sequence[ast.stmt], ast.stmt]:
    """The body in which a loader is assigned to its name, and the statement."""
    for _, scope in bodies(tree):
        found = _statement(scope, loader)
        if found is not None:
            return scope, found
    raise UsageError(
        f"{place_of(made)}: no statement at the script's top level or in a function assigns the loader to "
        f"{loader['name']}: assign it where the epochs begin, or call train_step with your own arrays"
    )


def _statement(scope: Sequence[ast.stmt], loader: Event) -> ast.stmt | None:
    """The statement of a body that makes a loader: the one that constructs it, or that sets its name."""
    made = (loader["constructed"] or {}).get("where") or {}
    assignments = [one for one in scope if isinstance(one, ast.Assign | ast.AnnAssign)]
    for one in assignments:
        if holds(one, made.get("line", 0)) and list(calls_in(one)):
            return one
    named = [one for one in assignments if loader["name"] in names_set(one) and list(calls_in(one))]
    return named[-1] if named else None


def _variable(statement: ast.stmt, name: str) -> str:
    names = names_set(statement)
    return name if name in names or not names else names[0]


def bodies(tree: ast.Module) -> Iterator[tuple[Function | None, Sequence[ast.stmt]]]:
    """The bodies that may have the loop: the script's top level, and its functions."""
    yield None, tree.body
    yield from ((one, one.body) for one in tree.body if isinstance(one, Function))


def is_behind(loop: ast.For, scope: Sequence[ast.stmt], where: Event) -> bool:
    """Whether a line runs only after a loop."""
    return not runs(loop, where) and any(runs(one, where) for one in scope if one.lineno > loop.lineno)


def loop_over_batches(tree: ast.Module, line: int) -> ast.For | None:
    """The innermost loop that a line starts or is in."""
    loops = [one for one in ast.walk(tree) if isinstance(one, ast.For) and holds(one, line)]
    return max(loops, key=lambda one: one.lineno) if loops else None


def plain_interval(body: ast.For | ast.While | None) -> ast.expr | None:
    """The divisor in ``if number % args.log_interval == 0: print(…)``."""
    for one in ast.walk(body) if body is not None else ():
        if isinstance(one, ast.If) and any(called_name(call) == "print" for call in calls_in(one)):
            for test in ast.walk(one.test):
                match test:
                    case ast.BinOp(op=ast.Mod(), right=ast.Attribute(ast.Name()) | ast.Constant() as right):
                        return right
    return None


def _only_tells(node: ast.AST) -> bool:
    """Whether it only prints, logs or saves: the written script does that in its own way."""
    match node:
        case ast.Call():
            return called_name(node) in (*SHOWN, "save")
        case ast.If(_, body, []):
            return all(isinstance(one, ast.Expr) and _only_tells(one.value) for one in body)
    return False


def _uses(node: ast.AST, option: str) -> list[ast.Attribute]:
    return [
        one
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute) and one.attr == option and isinstance(one.ctx, ast.Load)
    ]
