"""A language model whose hidden state is carried over, in batches that are cut from a long tensor; SGD by hand."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--length", type=int, default=6, help="of a piece")
parser.add_argument("--lr", type=float, default=4.0)
args = parser.parse_args()
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.drop = nn.Dropout(0.1)
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.LSTM(width, width, 2, dropout=0.1)
        self.head = nn.Linear(width, words)
        self.width = width

    def forward(self, words, hidden):
        out, hidden = self.rnn(self.drop(self.embed(words)), hidden)
        return torch.log_softmax(self.head(out).view(-1, 12), 1), hidden

    def begin(self, batch):
        weight = next(self.parameters())
        return weight.new_zeros(2, batch, self.width), weight.new_zeros(2, batch, self.width)


def columns(text, count):
    length = text.size(0) // count
    return text.narrow(0, 0, length * count).view(count, -1).t().contiguous()


text = torch.randint(0, 12, (240,), generator=torch.Generator().manual_seed(1))
train_data = columns(text[:170], 5)
held_out = columns(text[170:], 3)
model = Model(12, 8)
criterion = nn.NLLLoss()


def detached(hidden):
    return hidden.detach() if isinstance(hidden, torch.Tensor) else tuple(detached(one) for one in hidden)


# A piece of the text, and the words behind each of its words.
def piece(source, i):
    length = min(args.length, len(source) - 1 - i)
    return source[i : i + length], source[i + 1 : i + 1 + length].view(-1)


def evaluate(source):
    model.eval()
    total, hidden = 0.0, model.begin(3)
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, args.length):
            data, targets = piece(source, i)
            output, hidden = model(data, hidden)
            hidden = detached(hidden)
            total += len(data) * criterion(output, targets).item()
    return total / (len(source) - 1)


def train():
    model.train()
    hidden = model.begin(5)
    for _batch, i in enumerate(range(0, train_data.size(0) - 1, args.length)):
        data, targets = piece(train_data, i)
        model.zero_grad()
        hidden = detached(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)


lr = args.lr
best = None
try:
    for epoch in range(1, args.epochs + 1):
        train()
        loss = evaluate(held_out)
        print(f"epoch {epoch}: loss {loss:.6f}, rate {lr}")
        if not best or loss < best:
            with open("best.pt", "wb") as file:
                torch.save(model.state_dict(), file)
            best = loss
        else:
            lr /= 4.0
except KeyboardInterrupt:
    print("exiting early")
