"""Read a written model's construction: ``FromBatchToLoss(model=Net(inputs=5, hidden=12, **options), **options)``."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from dataclasses import dataclass

from port.scripts.writing.loss_source import CLASS
from port.scripts.writing.taken_statements import called_name, calls_in

ModelArgument = tuple[str, str]
"""A model, by the script's name, and an argument of its constructor."""


@dataclass(frozen=True)
class ModelConstruction:
    """The construction of a written model.

    Attributes:
        call: the expression; dtypes and streams are in ``options``.
        takes: the arguments of each model's class.
        classes: the classes that are called.
    """

    call: ast.Call
    takes: Mapping[str, frozenset[str]]
    classes: tuple[str, ...]

    def source(self, arguments: Mapping[ModelArgument, str]) -> str:
        """The source, with other expressions for some arguments."""
        made = copy.deepcopy(self.call)
        models = _models(made)
        for (model, name), text in arguments.items():
            words = models[model].keywords
            word = ast.keyword(name, ast.parse(text, mode="eval").body)
            place = next((number for number, one in enumerate(words) if one.arg == name), None)
            if place is not None:
                words[place] = word
            else:
                words.insert(len(words) - 1, word)  # in front of **options
        return ast.unparse(ast.fix_missing_locations(made))


def construction_in(model: str) -> ModelConstruction | None:
    """The construction in ``load`` of a written model.py; None if it takes no models.

    Args:
        model: the source of model.py.
    """
    tree = ast.parse(model)
    (load,) = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "load"]
    for call in calls_in(load):
        if called_name(call) == "saved_arguments":
            words = [copy.deepcopy(word) for word in call.keywords if word.arg is not None]
            rest = ast.keyword(None, ast.Name("options", ast.Load()))
            made = ast.Call(ast.Name(CLASS, ast.Load()), [], [*words, rest])
            taken = {name: _parameters(tree, called_name(one)) for name, one in _models(made).items()}
            classes = dict.fromkeys(filter(None, map(called_name, calls_in(made))))
            return ModelConstruction(made, taken, tuple(classes))
    return None


def _models(construction: ast.Call) -> dict[str, ast.Call]:
    """The models' constructions, by name."""
    return {word.arg: word.value for word in construction.keywords if word.arg and isinstance(word.value, ast.Call)}


def _parameters(tree: ast.Module, name: str) -> frozenset[str]:
    for cls in tree.body:
        if isinstance(cls, ast.ClassDef) and cls.name == name:
            for one in cls.body:
                if isinstance(one, ast.FunctionDef) and one.name == "__init__":
                    return frozenset(word.arg for word in [*one.args.args[1:], *one.args.kwonlyargs])
    return frozenset()
