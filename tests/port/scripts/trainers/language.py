"""A small GPT on a DataLoader: warm-up and cosine decay, decayed and undecayed groups, accumulation, clipping."""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--warmup", type=int, default=5)
parser.add_argument("--total", type=int, default=200, help="over which the rate falls")
args = parser.parse_args()

BLOCK, VOCABULARY, WIDTH = 8, 17, 16
ACCUMULATED = 2


class Text(Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        steps = torch.randint(1, 4, (count, 1), generator=generator)
        first = torch.randint(0, VOCABULARY, (count, 1), generator=generator)
        self.ids = (first + steps * torch.arange(BLOCK + 1)) % VOCABULARY

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return self.ids[index, :-1], self.ids[index, 1:]


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
    def __init__(self, layers=2, dropout=0.1):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.ModuleList([Block(WIDTH, 2, dropout) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.token.weight

    def forward(self, ids, targets):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def rate(step):
    if step < args.warmup:
        return (step + 1) / args.warmup
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, (step - args.warmup) / (args.total - args.warmup))))


torch.manual_seed(1337)
training = DataLoader(Text(64, 0), batch_size=4, shuffle=True, drop_last=True)
held_out = DataLoader(Text(16, 1), batch_size=8)
model = GPT()
decayed = [p for p in model.parameters() if p.dim() >= 2]
others = [p for p in model.parameters() if p.dim() < 2]
groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
for epoch in range(args.epochs):
    model.train()
    for number, (ids, targets) in enumerate(training):
        loss = model(ids, targets) / ACCUMULATED
        loss.backward()
        if (number + 1) % ACCUMULATED == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
    model.eval()
    with torch.no_grad():
        total = sum(model(ids, targets).item() for ids, targets in held_out)
    print(f"epoch {epoch}: {total / len(held_out):.4f}")
