"""A GPT in the style of nanoGPT: random crops of a text, microbatches, a rate set by hand, two losses estimated."""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--max-steps", type=int, default=60)
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--block-size", type=int, default=8)
parser.add_argument("--accumulate", type=int, default=3)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--min-lr", type=float, default=3e-4)
parser.add_argument("--warmup", type=int, default=4)
parser.add_argument("--eval-interval", type=int, default=6)
parser.add_argument("--eval-iters", type=int, default=2)
args = parser.parse_args()

VOCABULARY = 13
torch.manual_seed(1337)
text = torch.arange(3000) ** 2 // 7 % VOCABULARY
split_at = int(0.9 * len(text))
train_data, val_data = text[:split_at], text[split_at:]


def get_batch(split):
    data = train_data if split == "train" else val_data
    ix = torch.randint(len(data) - args.block_size, (args.batch_size,))
    x = torch.stack([data[i : i + args.block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + args.block_size] for i in ix])
    return x, y


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)
        self.heads = heads

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (z.view(n, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.ln1(x)).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.proj(y.transpose(1, 2).reshape(n, t, c)))
        return x + self.dropout(self.mlp(self.ln2(x)))


class GPT(nn.Module):
    def __init__(self, width=16, layers=2, dropout=0.1):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, width), nn.Embedding(args.block_size, width)
        self.blocks = nn.ModuleList([Block(width, 2, dropout) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.token.weight

    def forward(self, ids, targets=None):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss

    def configure_optimizers(self, lr):
        trained = [p for p in self.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in trained if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))


def get_lr(it):
    if it < args.warmup:
        return args.lr * (it + 1) / (args.warmup + 1)
    ratio = min(1.0, (it - args.warmup) / (args.max_steps - args.warmup))
    return args.min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (args.lr - args.min_lr)


@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for split in ["train", "val"]:
        losses = torch.zeros(args.eval_iters)
        for k in range(args.eval_iters):
            X, Y = get_batch(split)
            _, loss = model(X, Y)
            losses[k] = loss.item()
        out[split] = losses.mean()
    model.train()
    return out


model = GPT()
optimizer = model.configure_optimizers(args.lr)
for step in range(args.max_steps):
    lr = get_lr(step)
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr
    if step % args.eval_interval == 0 or step == args.max_steps - 1:
        found = estimate_loss()
        print(f"step {step}: train loss {found['train']:.4f}, val loss {found['val']:.4f}")
    for _micro in range(args.accumulate):
        X, Y = get_batch("train")
        logits, loss = model(X, Y)
        loss = loss / args.accumulate
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
