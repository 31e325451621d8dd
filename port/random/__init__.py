"""jax's random bits in PyTorch, so that both sides of a comparison drop the same activations.

jax draws with Threefry-2x32, a hash of a key and a counter, with no state. The functions here are named as in
``jax.random`` and return the same bits, on any device: keys and bits (`threefry`), numbers (`draws`, `normal_draws`).
jax's masks for torch's dropout modules: `dropout`. ``jax_threefry_partitionable=True`` is meant, the default since jax
0.5; the older, non-partitionable mode is not reproduced.

``x64`` says whether the JAX side runs with ``jax_enable_x64``. It is part of a draw's definition: jax then draws in
64 bits by default, and those are other numbers, not the same ones to more digits.

Every ``key`` is a jax key's raw data: shape (2,), dtype ``torch.uint32``, what
``torch.from_numpy(numpy.array(jax.random.key_data(key)))`` gives. What is drawn lies on its key's device. Seeds,
keys, numbers and dtypes that jax would refuse raise UsageError.
"""

from port.random.draws import bernoulli, uniform
from port.random.dropout import dropout_key, shared_dropout
from port.random.normal_draws import normal
from port.random.threefry import bits, fold_in, key, split

__all__ = ["bernoulli", "bits", "dropout_key", "fold_in", "key", "normal", "shared_dropout", "split", "uniform"]
