"""Recurrent networks: torch's own layers, cells in loops over static lengths, and a cell by hand."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given, integers


class LSTMTagger(nn.Module):
    def __init__(self, embedding_dim: int, hidden_dim: int, vocab_size: int, tagset_size: int) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.word_embeddings = nn.Embedding(vocab_size, embedding_dim, padding_idx=0)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim, batch_first=True)
        # The linear layer that maps from hidden state space to tag space
        self.hidden2tag = nn.Linear(hidden_dim, tagset_size)

    def forward(self, sentence: Tensor) -> Tensor:
        embeds = self.word_embeddings(sentence)
        lstm_out, _ = self.lstm(embeds)
        tag_space = self.hidden2tag(lstm_out)
        return F.log_softmax(tag_space, dim=-1)


class BiLSTMClassifier(nn.Module):
    """The last states of both directions of the last layer."""

    def __init__(self, features: int = 5, hidden: int = 4, layers: int = 2, classes: int = 3) -> None:
        super().__init__()
        self.rnn = nn.LSTM(features, hidden, num_layers=layers, bidirectional=True, dropout=0.25)
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(hidden * 2, classes)

    def forward(self, x: Tensor) -> Tensor:
        # [batch, time, features] -> [time, batch, features]
        output, (hidden, cell) = self.rnn(x.permute(1, 0, 2))
        # concat the final forward (hidden[-2,:,:]) and backward (hidden[-1,:,:]) hidden layers
        hidden = self.dropout(torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1))
        return self.fc(hidden) + output.mean(0).sum(-1, keepdim=True) * cell[0].mean(-1, keepdim=True)


class LearnedStart(nn.Module):
    """A GRU and a plain RNN that begin with a parameter."""

    def __init__(self, features: int = 3, hidden: int = 6) -> None:
        super().__init__()
        self.h0 = nn.Parameter(torch.zeros(2, 1, hidden))
        self.gru = nn.GRU(features, hidden, num_layers=2, batch_first=True)
        self.rnn = nn.RNN(hidden, hidden - 1, nonlinearity="relu", batch_first=True, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h0 = self.h0.expand(-1, x.size(0), -1).contiguous()
        out, hn = self.gru(x, h0)
        last, _ = self.rnn(out)
        return last[:, -1], hn.transpose(0, 1)


class Encoder(nn.Module):
    def __init__(self, vocab: int, emb: int, enc_hid: int, dec_hid: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.rnn = nn.GRU(emb, enc_hid, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(enc_hid * 2, dec_hid)

    def forward(self, src: Tensor) -> tuple[Tensor, Tensor]:
        outputs, hidden = self.rnn(self.embedding(src))
        hidden = torch.tanh(self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1)))
        return outputs, hidden


class Attention(nn.Module):
    def __init__(self, enc_hid: int, dec_hid: int) -> None:
        super().__init__()
        self.attn = nn.Linear(enc_hid * 2 + dec_hid, dec_hid)
        self.v = nn.Linear(dec_hid, 1, bias=False)

    def forward(self, hidden: Tensor, encoder_outputs: Tensor) -> Tensor:
        src_len = encoder_outputs.shape[1]
        hidden = hidden.unsqueeze(1).repeat(1, src_len, 1)
        energy = torch.tanh(self.attn(torch.cat((hidden, encoder_outputs), dim=2)))
        return F.softmax(self.v(energy).squeeze(2), dim=1)


class Seq2Seq(nn.Module):
    """Bahdanau's: the decoder is a loop, which is fed the truth or, ``greedy``, its own best guess."""

    def __init__(self, vocab: int = 11, emb: int = 4, enc_hid: int = 3, dec_hid: int = 5, greedy: bool = False) -> None:
        super().__init__()
        self.encoder = Encoder(vocab, emb, enc_hid, dec_hid)
        self.attention = Attention(enc_hid, dec_hid)
        self.embedding = nn.Embedding(vocab, emb)
        self.cell = nn.GRUCell(emb + 2 * enc_hid, dec_hid)
        self.fc_out = nn.Linear(dec_hid + 2 * enc_hid, vocab)
        self.vocab, self.greedy = vocab, greedy

    def forward(self, src: Tensor, trg: Tensor) -> Tensor:
        batch_size, trg_len = trg.shape
        # tensor to store decoder outputs
        outputs = torch.zeros(batch_size, trg_len, self.vocab, device=src.device)
        encoder_outputs, hidden = self.encoder(src)
        token = trg[:, 0]
        for t in range(1, trg_len):
            a = self.attention(hidden, encoder_outputs).unsqueeze(1)
            weighted = torch.bmm(a, encoder_outputs).squeeze(1)
            hidden = self.cell(torch.cat((self.embedding(token), weighted), dim=1), hidden)
            prediction = self.fc_out(torch.cat([hidden, weighted], -1))
            outputs[:, t] = prediction
            token = prediction.argmax(1) if self.greedy else trg[:, t]
        return outputs


class HandLSTM(nn.Module):
    """The cell by hand, its gates in one matrix."""

    def __init__(self, input_sz: int = 3, hidden_sz: int = 4) -> None:
        super().__init__()
        self.hidden_size = hidden_sz
        self.W = nn.Parameter(torch.Tensor(input_sz, hidden_sz * 4))
        self.U = nn.Parameter(torch.Tensor(hidden_sz, hidden_sz * 4))
        self.bias = nn.Parameter(torch.Tensor(hidden_sz * 4))
        for weight in self.parameters():
            weight.data.uniform_(-0.5, 0.5)

    def forward(self, x: Tensor, init_states: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, ...]:
        bs, seq_sz, _ = x.size()
        hidden_seq = []
        if init_states is None:
            h_t, c_t = torch.zeros(bs, self.hidden_size).to(x.device), x.new_zeros(bs, self.hidden_size)
        else:
            h_t, c_t = init_states

        HS = self.hidden_size
        for t in range(seq_sz):
            x_t = x[:, t, :]
            gates = torch.addmm(self.bias, x_t, self.W) + h_t @ self.U
            i_t, f_t, g_t, o_t = (
                torch.sigmoid(gates[:, :HS]),  # input
                torch.sigmoid(gates[:, HS : HS * 2]),  # forget
                torch.tanh(gates[:, HS * 2 : HS * 3]),
                torch.sigmoid(gates[:, HS * 3 :]),  # output
            )
            c_t = f_t * c_t + i_t * g_t
            h_t = o_t * torch.tanh(c_t)
            hidden_seq.append(h_t.unsqueeze(0))
        return torch.cat(hidden_seq, dim=0).transpose(0, 1).contiguous(), h_t, c_t


EXAMPLES = (
    Example("lstm_tagger", lambda: LSTMTagger(5, 4, 13, 3), lambda: given(integers(13, 3, 6)), "nn.LSTM, padding_idx"),
    Example("bilstm", BiLSTMClassifier, lambda: given(floats(2, 5, 5)), "bidirectional, two layers, dropout, h_n, c_n"),
    Example("gru_learned_start", LearnedStart, lambda: given(floats(3, 4, 3)), "an expanded parameter as first state"),
    Example("seq2seq", Seq2Seq, lambda: given(integers(11, 3, 5), integers(11, 3, 4, seed=1)), "GRU, cell in a loop"),
    Example(
        "seq2seq_greedy",
        lambda: Seq2Seq(greedy=True),
        lambda: given(src=integers(11, 2, 4), trg=integers(11, 2, 5, seed=1)),
        "the argmax is the next step's input",
    ),
    Example("lstm_by_hand", HandLSTM, lambda: given(floats(2, 5, 3)), "gates in one matrix, addmm, no first state"),
    Example(
        "lstm_by_hand_state",
        lambda: HandLSTM(2, 3),
        lambda: given(floats(3, 4, 2), (floats(3, 3, seed=1), floats(3, 3, seed=2))),
        "a tuple of states as an argument",
    ),
)
