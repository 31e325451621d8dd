"""Modules whose ``forward`` has options, for tests of translation from several example calls."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Attention of a mask, and of weights that are given on demand."""

    def __init__(self, width: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        n, length, width = x.shape
        q, k, v = (part.view(n, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e9)
        weights = scores.softmax(-1)
        y = self.out((weights @ v).transpose(1, 2).reshape(n, length, width))
        if return_weights:
            return y, weights
        return y


class Classifier(nn.Module):
    """Blocks that hand a mask on, a mode by its name, a loss where there are labels."""

    def __init__(self, width: int = 12, depth: int = 2) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Attention(width) for _ in range(depth)])
        self.last = Attention(width)
        self.head = nn.Linear(width, 5)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        pool: str = "mean",
        labels: Tensor | None = None,
        return_weights: bool = False,
        extra: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        for block in self.blocks:
            x = x + block(x, mask)
        if extra is not None:
            x = x + extra
        if return_weights:
            x, weights = self.last(x, mask, return_weights=True)
        else:
            x = self.last(x, mask)
        # one vector a sequence
        if pool == "mean":
            x = x.mean(1)
        elif pool == "max":
            x = x.amax(1)
        else:
            x = x[:, 0]
        logits = self.head(x)
        if labels is not None:
            return functional.cross_entropy(logits, labels), logits
        if return_weights:
            return logits, weights
        return logits


class KeepMask(nn.Module):
    """A local that is None, or made of an argument; an option of a layer's call."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.MultiheadAttention(12, 3, batch_first=True) for _ in range(2)])

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        drop = None
        if keep is not None:
            drop = keep == 0
        for layer in self.layers:
            y, _ = layer(x, x, x, key_padding_mask=drop, need_weights=False)
            x = x + y
        return x


class DefaultMask(nn.Module):
    """An argument that is given another value before what it decides is done."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.other = nn.Linear(12, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        is_given = mask is not None
        if mask is None:
            mask = torch.ones(x.shape[:2], dtype=x.dtype)
        y = self.linear(x) * mask[..., None]
        if is_given:
            y = self.other(y)
        return y.sum(1) / mask.sum(1, keepdim=True)


class DefaultPositions(nn.Module):
    """An option that no call gives, and a local of its name that one branch alone reads."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 12)

    def forward(self, x: Tensor, mask: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        if positions is None:
            positions = torch.arange(x.shape[1])
        if mask is not None:
            return x * mask[..., None] + self.embedding(positions)
        return x - self.embedding(positions + 1)


class Normalized(nn.Module):
    """A number that is an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 4)

    def forward(self, x: Tensor, eps: float = 1e-3, scale: float = 1.0) -> Tensor:
        x = self.linear(x)
        return scale * x / (x.square().sum(-1, keepdim=True) + eps)


class AnyRank(nn.Module):
    """One sequence, or several."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 2:
            x = x.unsqueeze(0)
        return torch.cumsum(self.linear(x), dim=1)


class Outputs(nn.Module):
    """Options that add to what is given, each by itself or both."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.head, self.auxiliary = nn.Linear(12, 8), nn.Linear(8, 3), nn.Linear(8, 2)

    def forward(self, x: Tensor, *, labels: Tensor | None = None, auxiliary: bool = False) -> dict[str, Tensor]:
        hidden = self.linear(x).relu()
        outputs = {"logits": self.head(hidden)}
        if auxiliary:
            outputs["auxiliary"] = self.auxiliary(hidden)
        if labels is not None:
            outputs["loss"] = functional.cross_entropy(outputs["logits"].mean(1), labels)
        return outputs


class Together(nn.Module):
    """Two options, and no branch of the source says which of them does what."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.other = nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, x: Tensor, first: bool = False, second: bool = False) -> Tensor:
        layers = {True: self.other, False: self.linear}
        return torch.tanh(layers[second](torch.sin(self.linear(x)))) if first or second else self.linear(x)


class ByLength(nn.Module):
    """A length decides what is done."""

    def __init__(self) -> None:
        super().__init__()
        self.short, self.long = nn.Linear(12, 4), nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > 5:
            return self.long(x)
        return self.short(x)


class Either(nn.Module):
    """Options of which the first keeps the second from being looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 12)

    def forward(self, x: Tensor, gated: bool = False, squashed: bool = False) -> Tensor:
        y = self.linear(x)
        if gated:
            y = y.sigmoid() * 2
        elif squashed:
            y = y.tanh()
        return y


class Cached(nn.Module):
    """What is given reads what another option has replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 4)

    def forward(self, x: Tensor, past: Tensor | None = None, use_cache: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        keys = self.linear(x)
        if past is not None:
            keys = torch.cat([past, keys], 1)
        y = keys * 2
        if use_cache:
            return y, keys
        return y


class Threshold(nn.Module):
    """A number that decides something where it is large."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 4)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        y = self.linear(x) * max(scale, 0.5)
        return y.tanh() if scale > 10 else y


class Nested(nn.Module):
    """An option within another one."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 4)

    def forward(self, x: Tensor, mask: Tensor | None = None, renormalize: bool = False) -> Tensor:
        y = self.linear(x)
        if mask is not None:
            y = y * mask[..., None]
            if renormalize:
                y = y / y.abs().sum(-1, keepdim=True).clamp_min(0.1)
        return y


class Cast(nn.Module):
    """An option that is no constant of Python's."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 4)

    def forward(self, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        y = self.linear(x)
        return y if dtype is None else y.to(dtype).to(x.dtype)
