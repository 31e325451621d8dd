"""Sequence to sequence with nn.Transformer, padded batches of different lengths, label smoothing, Noam by LambdaLR."""

import argparse
import math

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

PAD, BOS, EOS, VOCAB = 0, 1, 2, 20


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size, dropout, maxlen=50):
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        pos_embedding = torch.zeros((maxlen, emb_size))
        pos_embedding[:, 0::2] = torch.sin(pos * den)
        pos_embedding[:, 1::2] = torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pos_embedding", pos_embedding.unsqueeze(0))

    def forward(self, x):
        return self.dropout(x + self.pos_embedding[:, : x.size(1)])


class Seq2Seq(nn.Module):
    def __init__(self, d=16, heads=2, layers=1):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.pos = PositionalEncoding(d, 0.1)
        self.transformer = nn.Transformer(d, heads, layers, layers, 32, 0.1, batch_first=True)
        self.generator = nn.Linear(d, VOCAB)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, src, tgt):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
        out = self.transformer(
            self.pos(self.emb(src)),
            self.pos(self.emb(tgt)),
            tgt_mask=mask,
            src_key_padding_mask=src == PAD,
            tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=src == PAD,
        )
        return self.generator(out)


def pairs(n, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        length = int(torch.randint(3, 7, (1,), generator=g))
        words = torch.randint(3, VOCAB, (length,), generator=g)
        yield words, words.flip(0)


def collate(batch):
    src = [torch.cat([s, torch.tensor([EOS])]) for s, _ in batch]
    tgt = [torch.cat([torch.tensor([BOS]), t, torch.tensor([EOS])]) for _, t in batch]
    return pad_sequence(src, batch_first=True, padding_value=PAD), pad_sequence(
        tgt, batch_first=True, padding_value=PAD
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=10)
    args = parser.parse_args()
    torch.manual_seed(0)
    train_iter = DataLoader(list(pairs(48, 1)), batch_size=8, shuffle=True, collate_fn=collate)
    val_iter = DataLoader(list(pairs(16, 2)), batch_size=8, collate_fn=collate)
    model = Seq2Seq()
    loss_fn = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 16**-0.5 * min((step + 1) ** -0.5, (step + 1) * args.warmup**-1.5)
    )
    for epoch in range(1, args.epochs + 1):
        model.train()
        losses = 0
        for src, tgt in train_iter:
            tgt_input, tgt_out = tgt[:, :-1], tgt[:, 1:]
            logits = model(src, tgt_input)
            optimizer.zero_grad()
            loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt_out.reshape(-1))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            losses += loss.item()
        model.eval()
        val = 0
        with torch.no_grad():
            for src, tgt in val_iter:
                logits = model(src, tgt[:, :-1])
                val += loss_fn(logits.reshape(-1, logits.shape[-1]), tgt[:, 1:].reshape(-1)).item()
        print(f"epoch {epoch} train {losses / len(train_iter):.3f} val {val / len(val_iter):.3f}")


if __name__ == "__main__":
    main()
