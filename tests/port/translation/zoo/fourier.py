"""Fourier transforms and complex numbers: spectral convolutions, mixing by FFT, a state space by its kernel."""

from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given


class SpectralConv1d(nn.Module):
    """Of the Fourier neural operator: it does FFT, linear transform, and inverse FFT."""

    def __init__(self, in_channels: int, out_channels: int, modes1: int) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.modes1 = modes1  # Number of Fourier modes to multiply, at most floor(N/2) + 1
        scale = 1 / (in_channels * out_channels)
        self.weights1 = nn.Parameter(scale * torch.rand(in_channels, out_channels, modes1, dtype=torch.cfloat))

    def compl_mul1d(self, input: Tensor, weights: Tensor) -> Tensor:
        # (batch, in_channel, x), (in_channel, out_channel, x) -> (batch, out_channel, x)
        return torch.einsum("bix,iox->box", input, weights)

    def forward(self, x: Tensor) -> Tensor:
        batchsize = x.shape[0]
        # Compute Fourier coefficients up to factor of e^(- something constant)
        x_ft = torch.fft.rfft(x)

        # Multiply relevant Fourier modes
        out_ft = torch.zeros(batchsize, self.out_channels, x.size(-1) // 2 + 1, device=x.device, dtype=torch.cfloat)
        out_ft[:, :, : self.modes1] = self.compl_mul1d(x_ft[:, :, : self.modes1], self.weights1)

        # Return to physical space
        return torch.fft.irfft(out_ft, n=x.size(-1))


class FNO1d(nn.Module):
    def __init__(self, modes: int = 3, width: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.fc0 = nn.Linear(2, width)  # input channel is 2: (a(x), x)
        self.convs = nn.ModuleList([SpectralConv1d(width, width, modes) for _ in range(depth)])
        self.ws = nn.ModuleList([nn.Conv1d(width, width, 1) for _ in range(depth)])
        self.fc1 = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        grid = torch.linspace(0, 1, x.shape[1]).reshape(1, -1, 1).repeat([x.shape[0], 1, 1])
        x = self.fc0(torch.cat((x, grid), dim=-1)).permute(0, 2, 1)
        for conv, w in zip(self.convs, self.ws, strict=True):
            x = F.gelu(conv(x) + w(x))
        return self.fc1(x.permute(0, 2, 1))


class SpectralConv2d(nn.Module):
    """Two corners of the spectrum, each with its complex weights."""

    def __init__(self, cin: int = 2, cout: int = 3, modes: tuple[int, int] = (2, 3)) -> None:
        super().__init__()
        self.cout, self.modes = cout, modes
        self.weight = nn.Parameter(torch.randn(2, cin, cout, *modes, dtype=torch.cfloat) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        m1, m2 = self.modes
        low, high = self.weight
        spectrum = torch.fft.rfft2(x, norm="ortho")
        out = spectrum.new_zeros(x.shape[0], self.cout, h, w // 2 + 1)
        out[:, :, :m1, :m2] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m1, :m2], low)
        out[:, :, -m1:, :m2] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m1:, :m2], high)
        return torch.fft.irfft2(out, s=(h, w), norm="ortho")


class FullSpectrum(nn.Module):
    """A convolution over the whole torus, real and imaginary parts kept apart at the end."""

    def __init__(self, size: tuple[int, int] = (3, 4), channels: int = 2) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(channels, *size, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.fft2(x) * self.filter
        y = torch.fft.ifft2(spectrum)
        return torch.cat([y.real, y.imag], dim=1)


class FNet(nn.Module):
    """Mixing by a Fourier transform of both axes, of which the real part stays."""

    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.ff = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        mixed = torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real
        return self.ff(self.norm(x + mixed))


class GlobalFilter(nn.Module):
    """GFNet, and features of the spectrum: magnitude, phase, shift."""

    def __init__(self, h: int = 4, w: int = 5, dim: int = 3) -> None:
        super().__init__()
        self.complex_weight = nn.Parameter(torch.randn(h, w // 2 + 1, dim, 2) * 0.02)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        _B, H, W, _C = x.shape
        x = torch.fft.rfft2(x, dim=(1, 2), norm="ortho")
        x = x * torch.view_as_complex(self.complex_weight)
        power = torch.log1p(torch.abs(torch.fft.fftshift(x, dim=1)))
        phase = torch.angle(x).cos()
        x = torch.fft.irfft2(x, s=(H, W), dim=(1, 2), norm="ortho")
        return x, power, phase


class DiagonalStateSpace(nn.Module):
    """S4D: a diagonal system, its kernel computed in forward, applied by FFT."""

    def __init__(self, d_model: int = 3, n: int = 4) -> None:
        super().__init__()
        self.log_dt = nn.Parameter(torch.rand(d_model) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
        self.C = nn.Parameter(torch.view_as_real(torch.randn(d_model, n // 2, dtype=torch.cfloat)))
        self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(d_model, n // 2)))
        self.register_buffer("A_imag", math.pi * torch.arange(n // 2).repeat(d_model, 1))
        self.D = nn.Parameter(torch.randn(d_model))

    def kernel(self, L: int) -> Tensor:
        # Materialize parameters
        dt = torch.exp(self.log_dt)  # (H)
        C = torch.view_as_complex(self.C)  # (H N)
        A = -torch.exp(self.log_A_real) + 1j * self.A_imag  # (H N)
        # Vandermonde multiplication
        dtA = A * dt.unsqueeze(-1)  # (H N)
        K = dtA.unsqueeze(-1) * torch.arange(L)  # (H N L)
        C = C * (torch.exp(dtA) - 1.0) / A
        return 2 * torch.einsum("hn, hnl -> hl", C, torch.exp(K)).real

    def forward(self, u: Tensor) -> Tensor:
        L = u.size(-1)
        k = self.kernel(L)
        # Convolution
        k_f = torch.fft.rfft(k, n=2 * L)  # (H L)
        u_f = torch.fft.rfft(u, n=2 * L)  # (B H L)
        y = torch.fft.irfft(u_f * k_f, n=2 * L)[..., :L]
        return y + u * self.D.unsqueeze(-1)


class ComplexLinear(nn.Module):
    """A layer over complex numbers, made of their parts and put together again."""

    def __init__(self, n_in: int = 4, n_out: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in, dtype=torch.complex64))
        self.phase = nn.Parameter(torch.rand(n_out))

    def forward(self, real: Tensor, imag: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = torch.complex(real, imag)
        y = z @ self.weight.mT.conj()
        y = y * torch.exp(1j * self.phase)
        modulus = y.abs()
        y = y / (modulus + 1e-3) * torch.relu(modulus - 0.1)  # modReLU
        return y.real, y.imag, torch.view_as_real(y.conj().resolve_conj()).flatten(-2)


EXAMPLES = (
    Example("fno_1d", FNO1d, lambda: given(floats(2, 11, 1)), "rfft, irfft, complex parameters, slice assignment"),
    Example("fno_2d", SpectralConv2d, lambda: given(floats(2, 2, 6, 7)), "rfft2, irfft2, two corners of the spectrum"),
    Example("full_spectrum", FullSpectrum, lambda: given(floats(3, 2, 3, 4)), "fft2, ifft2, a complex parameter"),
    Example("fnet", FNet, lambda: given(floats(2, 5, 6)), "fft over two axes, the real part"),
    Example("global_filter", GlobalFilter, lambda: given(floats(3, 4, 5, 3)), "view_as_complex, fftshift, abs, angle"),
    Example(
        "state_space", DiagonalStateSpace, lambda: given(floats(2, 3, 7)), "complex exponentials, convolution by FFT"
    ),
    Example("complex_linear", ComplexLinear, lambda: given(floats(3, 4), floats(3, 4, seed=1)), "complex arithmetic"),
)
