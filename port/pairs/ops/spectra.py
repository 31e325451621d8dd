"""Fourier transforms, and complex numbers."""

from __future__ import annotations

from port.pairs.ops.axes import Along, Each
from port.pairs.ops.operator_pair import OperatorPair, elementwise, of_one

_F = "torch.fft."


def _transform(
    name: str, *, several: str = "", default: object = None, written: str = "", only_if: str = ""
) -> OperatorPair:
    """Pair a transform along one axis, or ``several`` ("two" or "any"); ``written`` is JAX's name if it differs."""
    length, axis = ("s", "axes") if several else ("n", "axis")
    return OperatorPair(
        f"{_F}{name}",
        f"aten.fft_{name}",
        f"{_F}{name}(input, {length}, dim, norm)",
        f"jnp.fft.{written or name}(input, {length}, {axis}=dim, norm=norm)",
        only_if=only_if,
        left_out={length: None, "dim": default, "norm": None},
        axes=None if several == "any" else Along("dim"),
    )


PAIRS: tuple[OperatorPair, ...] = (
    *(_transform(name, default=-1) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")),
    # torch's also accept one axis, or three; JAX's do not.
    *(
        _transform(
            name,
            several="two",
            default=(-2, -1),
            written=written,
            only_if=f"isinstance(dim, tuple) and len(dim) {sign} 2",
        )
        for name in ("fft2", "ifft2", "rfft2", "irfft2")
        for sign, written in (("==", name), ("!=", f"{name[:-1]}n"))
    ),
    *(_transform(name, several="any") for name in ("fftn", "ifftn", "rfftn", "irfftn")),
    *(
        OperatorPair(
            f"{_F}{name}",
            f"aten.fft_{name}",
            f"{_F}{name}(input, dim)",
            f"jnp.fft.{name}(input, dim)",
            left_out={"dim": None},
            axes=Along("dim"),
        )
        for name in ("fftshift", "ifftshift")
    ),
    *(
        OperatorPair(
            f"{_F}{name}",
            f"aten.fft_{name}",
            f"{_F}{name}(n, d)",
            f"jnp.fft.{name}(n, d)",
            left_out={"d": 1.0},
        )
        for name in ("fftfreq", "rfftfreq")
    ),
    # %% Short-time transforms
    OperatorPair(
        "torch.stft",
        "aten.stft",
        "torch.stft(input, n_fft, hop_length, win_length, window, center=False, normalized=normalized,"
        " onesided=onesided, return_complex=True)",
        "F.stft(input, n_fft, hop_length, win_length, window, normalized, onesided)",
        left_out={"hop_length": None, "win_length": None, "window": None, "normalized": False, "onesided": None},
        schema={"center": "", "pad_mode": ""},
    ),
    OperatorPair(
        "torch.istft",
        "aten.istft",
        "torch.istft(input, n_fft, hop_length, win_length, window, center, normalized, onesided, length,"
        " return_complex)",
        "F.istft(input, n_fft, hop_length, win_length, window, center, normalized, length, return_complex)",
        left_out={
            **dict.fromkeys(("hop_length", "win_length", "window", "onesided", "length")),
            "center": True,
            "normalized": False,
            "return_complex": False,
        },
    ),
    # %% Complex numbers
    OperatorPair(
        "torch.complex",
        "aten.complex",
        "torch.complex(real, imag)",
        "lax.complex(*jnp.broadcast_arrays(real, imag))",
        axes=Each(),
    ),
    OperatorPair(
        "torch.polar",
        "aten.polar",
        "torch.polar(abs, angle)",
        "lax.complex(abs * jnp.cos(angle), abs * jnp.sin(angle))",
        axes=Each(),
    ),
    elementwise("angle", "jnp.angle(input)"),
    elementwise("real", "jnp.real(input)"),
    elementwise("imag", "jnp.imag(input)", only_if='input.dtype.kind == "c"'),
    elementwise("conj", "jnp.conj(input)", aten="aten._conj"),
    elementwise("conj_physical", "jnp.conj(input)"),
    elementwise("isreal", "jnp.isreal(input)"),
    of_one("view_as_complex", "lax.complex(input[..., 0], input[..., 1])"),
    of_one("view_as_real", "jnp.stack([input.real, input.imag], axis=-1)"),
)
