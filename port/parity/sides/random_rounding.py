"""Run torch with random rounding: every operator result is moved at random by a few units in its last place.

This is Monte Carlo arithmetic (D. S. Parker, "Monte Carlo arithmetic: exploiting randomness in floating-point
arithmetic", 1997): digits that change with the rounding are not significant.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_EXACT = """
abs alias arange as_strided bernoulli broadcast_to bitwise_not cat chunk clamp clamp_max clamp_min clone col2im
constant_pad_nd copy copy_ detach detach_ diagonal embedding empty empty_like expand eye fill fill_ flip full
full_like gather hardtanh im2col index index_put index_put_ index_select kthvalue lift_fresh masked_fill masked_fill_
masked_select max max_pool2d_with_indices max_pool3d_with_indices maximum median min minimum narrow nan_to_num neg
new_empty new_full new_ones new_zeros one_ ones ones_like permute pixel_shuffle pixel_unshuffle relu relu_ repeat
reshape roll scalar_tensor scatter select select_backward select_scatter set_ sign slice slice_backward slice_scatter
sort split split_with_sizes squeeze stack t threshold_backward _to_copy topk transpose tril triu unbind unfold
unsqueeze _unsafe_view view where zero_ zeros zeros_like _reshape_alias _unsafe_index reflection_pad1d
reflection_pad2d replication_pad1d replication_pad2d amax amin upsample_nearest1d upsample_nearest2d
upsample_nearest3d complex conj_physical _conj_physical
"""
"""Operators that copy numbers and do not round."""

_SATURATED = """
erf erf_ expm1 expm1_ sigmoid sigmoid_ tanh tanh_
"""
"""Operators whose result is rounded even if it is an integer."""

_TRANSFORMS = """
_fft_c2c _fft_c2r _fft_r2c
"""
"""Operators whose every result is a sum over all inputs: rounding errors scale with the largest result."""

_SUMS_WITHIN = """
_log_softmax _log_softmax_backward_data _softmax _softmax_backward_data batch_norm_backward celu elu elu_backward gelu
gelu_backward hardsigmoid_backward log_sigmoid_backward log_sigmoid_forward logsumexp mish mish_backward
native_batch_norm native_batch_norm_backward native_group_norm native_group_norm_backward native_layer_norm
native_layer_norm_backward selu sigmoid_backward silu silu_backward softplus softplus_backward std std_mean
tanh_backward var var_mean
"""
"""Operators that round intermediate values, which their result does not show: they run decomposed.
hardsigmoid_backward uses the slope 1/6 in float32, whatever the tensor's dtype; its decomposition is exact."""


@contextmanager
def random_rounding(seed: int, *, units: int) -> Iterator[None]:
    """Round torch's results at random in this context, forward and backward.

    Integers stay exact, and so do the indices and masks made from them.

    Args:
        seed: the seed of the directions.
        units: by how many units in the last place a result is moved.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    generator = torch.Generator().manual_seed(seed)
    exact, saturated = frozenset(_EXACT.split()), frozenset(_SATURATED.split())
    transforms = frozenset(_TRANSFORMS.split())
    dtypes = (torch.float32, torch.float64, torch.complex64, torch.complex128)

    def signs(like: torch.Tensor) -> torch.Tensor:
        up = torch.rand(like.shape, generator=generator, dtype=like.dtype) < 0.5
        return torch.ones_like(like).masked_fill_(up, -1)

    def moved(tensor: torch.Tensor, name: str, args: Any) -> torch.Tensor:
        step = units * torch.finfo(tensor.dtype).eps
        size = tensor.abs()
        if name in transforms:
            size = size.square().mean(args[1], keepdim=True).sqrt().expand_as(size)
        if tensor.is_complex():
            # Each part of a complex product has a rounding error of the size of its magnitude.
            other = tensor + step * torch.complex(size * signs(size), size * signs(size))
            is_whole = (tensor.real == tensor.real.round()) & (tensor.imag == tensor.imag.round())
        else:
            other, is_whole = tensor + step * size * signs(size), tensor == tensor.round()
        return other if name in saturated or name in transforms else torch.where(is_whole, tensor, other)

    def rounded(result: Any, name: str, args: Any) -> Any:
        if isinstance(result, torch.Tensor):
            return moved(result, name, args) if result.dtype in dtypes else result
        return type(result)(rounded(part, name, args) for part in result) if type(result) in (tuple, list) else result

    class Rounding(TorchDispatchMode):
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = operator.overloadpacket.__name__
            if name in exact or operator.is_view:
                return operator(*args, **kwargs)
            parts = _in_parts().get(operator)
            if parts is not None:
                try:
                    with self:
                        return parts(*args, **kwargs)
                except Exception:  # these arguments have no decomposition
                    pass
            result = operator(*args, **kwargs)
            if not operator._schema.is_mutable:
                return rounded(result, name, args)
            if isinstance(result, torch.Tensor) and result.dtype in dtypes:
                result.copy_(moved(result, name, args))
            return result

    with Rounding():
        yield


@cache
def _in_parts() -> dict[Any, Any]:
    """Return operator overload → an equivalent function of several operators, for those that round intermediates."""
    import torch
    from torch._decomp import get_decompositions

    packets = [getattr(torch.ops.aten, name) for name in _SUMS_WITHIN.split() if hasattr(torch.ops.aten, name)]
    found: dict[Any, Any] = dict(get_decompositions(packets))
    backward = found[torch.ops.aten.elu_backward.default]

    def elu_backward(grad: Any, alpha: float, scale: float, input_scale: float, is_result: bool, value: Any) -> Any:
        """Compute ELU's gradient from its output, as JAX does: near -1 the output has lost the derivative's digits."""
        result = value if is_result else torch.ops.aten.elu(value, alpha, scale, input_scale)
        return backward(grad, alpha, scale, input_scale, True, result)

    return found | {torch.ops.aten.elu_backward.default: elu_backward}
