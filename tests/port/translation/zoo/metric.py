"""Distances and angles: cosine heads, margins, prototypes, contrastive losses inside forward."""

from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given, integers


class CosineHead(nn.Module):
    def __init__(self, n_in: int = 5, n_classes: int = 4, scale: float = 8.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_classes, n_in))
        nn.init.xavier_uniform_(self.weight)
        self.sigma = nn.Parameter(torch.tensor(scale))

    def forward(self, x: Tensor) -> Tensor:
        out = F.linear(F.normalize(x, p=2, dim=1), F.normalize(self.weight, dim=-1))
        return self.sigma * out


class ArcMargin(nn.Module):
    """ArcFace: the angle of the right class grows by a margin, while it is trained."""

    def __init__(self, in_features: int = 5, out_features: int = 6, s: float = 4.0, m: float = 0.30) -> None:
        super().__init__()
        self.s = s
        self.weight = nn.Parameter(torch.FloatTensor(out_features, in_features))
        nn.init.xavier_uniform_(self.weight)
        self.cos_m, self.sin_m = math.cos(m), math.sin(m)
        self.th, self.mm = math.cos(math.pi - m), math.sin(math.pi - m) * m

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        cosine = F.linear(F.normalize(input), F.normalize(self.weight))
        if not self.training:
            return cosine * self.s
        sine = torch.sqrt((1.0 - torch.pow(cosine, 2)).clamp(1e-6, 1))
        phi = cosine * self.cos_m - sine * self.sin_m
        phi = torch.where(cosine > self.th, phi, cosine - self.mm)
        one_hot = torch.zeros(cosine.size(), device=input.device)
        one_hot.scatter_(1, label.view(-1, 1).long(), 1)
        output = (one_hot * phi) + ((1.0 - one_hot) * cosine)
        output *= self.s
        return output


class Prototypes(nn.Module):
    """The distance to the mean of each class's support, and to learned centres."""

    def __init__(self, n_in: int = 4, dim: int = 3, centres: int = 5) -> None:
        super().__init__()
        self.embed = nn.Linear(n_in, dim)
        self.centres = nn.Parameter(torch.randn(centres, dim))

    def forward(self, query: Tensor, support: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q = self.embed(query)
        prototypes = self.embed(support).mean(dim=1)  # (classes, shots, n_in)
        dists = torch.pow(q.unsqueeze(1) - prototypes.unsqueeze(0), 2).sum(2)
        log_p = F.log_softmax(-dists, dim=1)
        rbf = torch.exp(-torch.cdist(q, self.centres).square() / 2)
        manhattan = torch.cdist(q, prototypes, p=1.0)
        return log_p, rbf, manhattan


class CLIP(nn.Module):
    """Two towers, a learned temperature, the loss over all pairs of a batch."""

    def __init__(self, n_image: int = 6, n_text: int = 5, dim: int = 4) -> None:
        super().__init__()
        self.image = nn.Linear(n_image, dim)
        self.text = nn.Linear(n_text, dim)
        self.logit_scale = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))

    def forward(self, image: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        image_features, text_features = self.image(image), self.text(text)
        image_features = image_features / image_features.norm(dim=1, keepdim=True)
        text_features = text_features / text_features.norm(dim=1, keepdim=True)
        logits = self.logit_scale.exp().clamp(max=100) * image_features @ text_features.t()
        labels = torch.arange(logits.shape[0], device=logits.device)
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        return logits, loss


class Losses(nn.Module):
    """A detector's losses, when there are targets; a triplet of embeddings."""

    def __init__(self, n_in: int = 5, classes: int = 3, gamma: float = 2.0, alpha: float = 0.25) -> None:
        super().__init__()
        self.cls = nn.Linear(n_in, classes)
        self.reg = nn.Linear(n_in, 2)
        self.gamma, self.alpha = gamma, alpha
        self.register_buffer("class_weights", torch.tensor([1.0, 0.4, 2.0]))

    def focal(self, logits: Tensor, targets: Tensor) -> Tensor:
        p = torch.sigmoid(logits)
        ce_loss = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        p_t = p * targets + (1 - p) * (1 - targets)
        alpha_t = self.alpha * targets + (1 - self.alpha) * (1 - targets)
        return (alpha_t * ce_loss * ((1 - p_t) ** self.gamma)).mean()

    def forward(self, x: Tensor, targets: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
        logits, boxes = self.cls(x), self.reg(x)
        if targets is None:
            return {"scores": logits.softmax(-1), "boxes": boxes}
        labels = targets["labels"]
        anchor, positive, negative = boxes[:-2], boxes[1:-1], boxes[2:]
        return {
            "weighted": F.cross_entropy(logits, labels, weight=self.class_weights),
            "focal": self.focal(logits, F.one_hot(labels, 3).float()),
            "box": F.smooth_l1_loss(boxes, targets["boxes"], beta=0.5) + F.huber_loss(boxes, targets["boxes"]),
            "triplet": F.triplet_margin_loss(anchor, positive, negative, margin=0.7),
            "kl": F.kl_div(logits.log_softmax(-1), logits.detach().flip(0).softmax(-1), reduction="batchmean"),
        }


def _targets() -> dict[str, torch.Tensor]:
    return {"labels": integers(3, 5), "boxes": floats(5, 2, seed=1)}


class Flow(nn.Module):
    """An affine coupling and an invertible mixing, with the density of what comes out."""

    def __init__(self, d: int = 4) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d // 2, 7), nn.Tanh(), nn.Linear(7, d))
        self.W = nn.Parameter(torch.randn(d, d))
        self.register_buffer("loc", torch.zeros(d))
        self.register_buffer("scale", torch.ones(d))

    def forward(self, x: Tensor) -> Tensor:
        a, b = x[..., ::2], x[..., 1::2]
        s, t = self.net(a).chunk(2, dim=-1)
        x = torch.stack([a, b * s.tanh().exp() + t], dim=-1).flatten(-2) @ self.W.t()
        log_det = s.tanh().sum(-1) + torch.slogdet(self.W)[1]
        return torch.distributions.Normal(self.loc, self.scale).log_prob(x).sum(-1) + log_det


EXAMPLES = (
    Example("flow", Flow, lambda: given(floats(3, 4)), "torch.distributions, whose checks nothing reads, slogdet"),
    Example("cosine_head", CosineHead, lambda: given(floats(3, 5)), "F.normalize of features and of the weight"),
    Example("arc_margin", ArcMargin, lambda: given(floats(4, 5), integers(6, 4)), "a margin in training, scatter_"),
    Example("prototypes", Prototypes, lambda: given(floats(4, 4), floats(3, 2, 4, seed=1)), "cdist, squared distances"),
    Example("contrastive", CLIP, lambda: given(floats(3, 6), floats(3, 5, seed=1)), "a learned temperature, a loss"),
    Example("detector", Losses, lambda: given(floats(3, 5)), "no targets: predictions"),
    Example(
        "detector_losses", Losses, lambda: given(floats(5, 5), targets=_targets()), "several losses in a dictionary"
    ),
)
