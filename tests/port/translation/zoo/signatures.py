"""What goes in and comes out: keywords, nested structures, named tuples, any number of tensors, None."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, booleans, floats, given, integers


class Nested(nn.Module):
    """A dictionary of tuples and lists goes in, and comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.point = nn.Linear(3, 4)
        self.colour = nn.Linear(2, 4)

    def forward(self, scene: dict[str, Any], *, weights: tuple[Tensor, Tensor], scale: float = 1.5) -> dict[str, Any]:
        xyz, (rgb, alpha) = scene["points"], scene["colours"]
        w1, w2 = weights
        mixed = self.point(xyz) * w1[:, None] + self.colour(rgb) * w2[:, None] * scale
        return {
            "mixed": mixed,
            "parts": [mixed[..., :2], (mixed[..., 2:], alpha.clamp(0, 1))],
            "nothing": None,
        }


class ModelOutput(NamedTuple):
    logits: Tensor
    hidden: Tensor
    loss: Tensor | None = None


class NamedOutput(nn.Module):
    def __init__(self, n_in: int = 5, n_out: int = 3) -> None:
        super().__init__()
        self.body = nn.Linear(n_in, 6)
        self.head = nn.Linear(6, n_out)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> ModelOutput:
        hidden = self.body(x).tanh()
        logits = self.head(hidden)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
        return ModelOutput(logits, hidden=hidden, loss=loss)


class Concatenate(nn.Module):
    """Any number of tensors."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.fc = nn.Linear(n_in, n_out)

    def forward(self, *features: Tensor) -> Tensor:
        first, *others = features
        x = torch.cat([first, *(f.flatten(1) for f in others)], dim=-1)
        return self.fc(x)


class Optional(nn.Module):
    """Arguments that may be None, and a flag that decides what comes out."""

    def __init__(self, dim: int = 4, null: bool = True) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.cond = nn.Linear(3, dim)
        self.null_cond = nn.Parameter(torch.randn(1, dim)) if null else None

    def forward(
        self, x: Tensor, cond: Tensor | None = None, mask: Tensor | None = None, return_hidden: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        if cond is None:
            extra = self.null_cond.expand(x.shape[0], -1) if self.null_cond is not None else 0.0
        else:
            extra = self.cond(cond)
        hidden = self.fc(x) + extra
        out = hidden if mask is None else hidden * mask.unsqueeze(-1)
        if return_hidden:
            return out, hidden
        return out


class MultiTask(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.classifier = nn.Linear(8, 4)
        self.regressor = nn.Linear(8, 1)
        self.box_head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        features = self.trunk(x)
        outputs: dict[str, Tensor] = {}
        outputs["class_probs"] = F.softmax(self.classifier(features), dim=-1)
        outputs["value"] = self.regressor(features).squeeze(-1)

        cx, cy, w, h = self.box_head(features).sigmoid().unbind(-1)
        b = [(cx - 0.5 * w), (cy - 0.5 * h), (cx + 0.5 * w), (cy + 0.5 * h)]
        outputs["boxes"] = torch.stack(b, dim=-1)
        return outputs


class TabularNet(nn.Module):
    """Columns with embeddings of their own beside numbers."""

    def __init__(self, cardinalities: list[int], n_numbers: int, n_out: int) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(c, min(50, (c + 1) // 2)) for c in cardinalities])
        n_emb = sum(e.embedding_dim for e in self.embeddings)
        self.bn = nn.BatchNorm1d(n_numbers)
        self.lin = nn.Linear(n_emb + n_numbers, n_out)

    def forward(self, x_cat: Tensor, x_cont: Tensor) -> Tensor:
        x = [e(x_cat[:, i]) for i, e in enumerate(self.embeddings)]
        x = torch.cat(x, 1)
        return self.lin(torch.cat([x, self.bn(x_cont)], 1))


def _scene() -> dict[str, Any]:
    return {"points": floats(3, 5, 3), "colours": [floats(3, 5, 2, seed=1), floats(3, 5, seed=2)]}


EXAMPLES = (
    Example(
        "nested_arguments",
        Nested,
        lambda: given(_scene(), weights=(floats(3, 1, seed=3), floats(3, 1, seed=4))),
        "dictionaries, lists and tuples in and out, a keyword-only argument, a None among the outputs",
    ),
    Example("named_tuple", NamedOutput, lambda: given(floats(3, 5)), "a named tuple with a None"),
    Example("named_tuple_loss", NamedOutput, lambda: given(floats(4, 5), labels=integers(3, 4)), "a loss, smoothed"),
    Example(
        "any_number",
        lambda: Concatenate(12, 3),
        lambda: given(floats(2, 4), floats(2, 3, 2, seed=1), floats(2, 2, seed=2)),
        "forward(*features)",
    ),
    Example("optional_none", Optional, lambda: given(floats(3, 4)), "optional arguments left out"),
    Example(
        "optional_given",
        Optional,
        lambda: given(floats(3, 4), cond=floats(3, 3, seed=1), mask=booleans(3), return_hidden=True),
        "optional arguments given, a flag among them",
    ),
    Example("multi_task", MultiTask, lambda: given(floats(3, 6)), "heads in a dictionary, boxes from unbind and stack"),
    Example(
        "tabular",
        lambda: TabularNet([5, 9, 3], 4, 2),
        lambda: given(integers(3, 4, 3), x_cont=floats(4, 4)),
        "a column of indices for each embedding",
    ),
)
