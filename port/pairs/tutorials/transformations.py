"""jit, callbacks, loops, configuration, and what was never meant to be public."""

from __future__ import annotations

from port.pairs.tutorials.outdated import Fate, Outdated

ROWS = (
    Outdated(
        "T18",
        says="""\
from jax import partial

@partial(jax.jit, static_argnums=1)
def power(x, n):
    return x**n

result = power(x, 2)""",
        fate=Fate.GONE,
        error="ImportError",
        happened="It was functools' own, exported by accident, and removed in jax 0.2.21.",
        today="""\
@jax.jit(static_argnames="n")
def power(x, n):
    return x**n

result = power(x, 2)""",
    ),
    Outdated(
        "T19",
        says="""\
from functools import partial

@partial(jax.jit, static_argnums=(1,))
def power(x, n):
    return x**n

result = power(x, 2)""",
        fate=Fate.WORKS,
        happened="jax.jit is called with its options first by now, and takes names.",
        today="""\
@jax.jit(static_argnames="n")
def power(x, n):
    return x**n

result = power(x, 2)""",
        torch="torch.compile guards on what Python values it saw; jit compiles once for each value that is static.",
    ),
    Outdated(
        "T20",
        says='result = jax.jit(jnp.sin, backend="cpu")(x)',
        fate=Fate.WARNS,
        happened="backend= and device= are deprecated: a function runs where its inputs are.",
        today='result = jax.jit(jnp.sin)(jax.device_put(x, jax.local_devices(backend="cpu")[0]))',
        torch="As in PyTorch.",
    ),
    Outdated(
        "T21",
        says='result = "sine" in jax.xla_computation(jnp.sin)(x).as_hlo_text()',
        fate=Fate.GONE,
        error="AttributeError",
        happened="Deprecated in jax 0.4.30 and removed in 0.4.34.",
        today='result = "sine" in jax.jit(jnp.sin).lower(x).as_text()',
    ),
    Outdated(
        "T22",
        says="result = jax.host_id(), jax.host_count()",
        fate=Fate.WARNS,
        happened="Renamed, as a host may have several processes.",
        today="result = jax.process_index(), jax.process_count()",
        torch="get_rank() and get_world_size(); but a process may have many devices here.",
    ),
    Outdated(
        "T23",
        says="""\
from jax.experimental import host_callback

@jax.jit
def double(x):
    host_callback.id_print(x, what="x")
    return 2 * x

result = double(x)""",
        fate=Fate.GONE,
        error="ImportError",
        happened="Deprecated in jax 0.4.26 and removed in 0.4.35.",
        today="""\
@jax.jit
def double(x):
    jax.debug.print("x: {}", x)
    return 2 * x

result = double(x)""",
        torch="A plain print runs while jit traces, once, and shows no values.",
    ),
    Outdated(
        "T24",
        says="""\
from jax.experimental import host_callback

result = jax.jit(lambda x: host_callback.call(np.cumsum, x, result_shape=x))(x)""",
        fate=Fate.GONE,
        error="ImportError",
        happened="Deprecated in jax 0.4.26 and removed in 0.4.35; what has effects is jax.experimental.io_callback's.",
        today="""\
def cumulate(x):
    return jax.pure_callback(np.cumsum, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

result = jax.jit(cumulate)(x)""",
        torch="torch.compile breaks the graph for NumPy and goes on; jit has to be told of it, and of the shape.",
    ),
    Outdated(
        "T25",
        says="""\
from jax.experimental import loops

with loops.Scope() as s:
    s.total = 0.0
    for i in s.range(3):
        s.total += x[i]
    result = s.total""",
        fate=Fate.GONE,
        error="ImportError",
        happened="Deprecated in jax 0.3.6 and removed in 0.3.16.",
        today="result = jax.lax.fori_loop(0, 3, lambda i, total: total + x[i], 0.0)",
        torch="A Python loop works under jit too: it is unrolled, and compiles as many copies of its body.",
    ),
    Outdated(
        "T26",
        says='from jax.config import config\n\nconfig.update("jax_debug_nans", False)\nresult = True',
        fate=Fate.GONE,
        error="ModuleNotFoundError",
        happened="The submodule was removed in jax 0.4.29; jax.config is the object itself.",
        today='jax.config.update("jax_debug_nans", False)\nresult = True',
    ),
    Outdated(
        "T27",
        says="""\
from jax.experimental import enable_x64

with enable_x64():
    result = np.asarray(jnp.ones(3, float))""",
        fate=Fate.GONE,
        error="ImportError",
        happened="It is in jax itself by now.",
        today="with jax.enable_x64(True):\n    result = np.asarray(jnp.ones(3, float))",
        torch="Without it float64 is not to be had: what asks for it gets float32.",
    ),
    Outdated(
        "T28",
        says="from jax.lib import xla_bridge\n\nresult = xla_bridge.get_backend().platform",
        fate=Fate.GONE,
        error="ImportError",
        happened="Deprecated in jax 0.4.32, and removed since.",
        today="result = jax.default_backend()",
        torch="It is the question that torch.cuda.is_available() answers.",
    ),
    Outdated(
        "T29",
        says="from jax.abstract_arrays import ShapedArray\n\nresult = ShapedArray((3,), jnp.float32).shape",
        fate=Fate.GONE,
        error="ModuleNotFoundError",
        happened="Deprecated in jax 0.4.12 and removed in 0.4.17.",
        today="result = jax.ShapeDtypeStruct((3,), jnp.float32).shape",
        torch='It is torch.empty(3, device="meta").',
    ),
    Outdated(
        "T30",
        says='result = jax.core.Primitive("double").name',
        fate=Fate.GONE,
        error="AttributeError",
        happened="jax.core keeps little that is public; Primitive and Jaxpr are in jax.extend.core.",
        today='from jax.extend.core import Primitive\n\nresult = Primitive("double").name',
        torch="As one registers an operator with torch.library; most need jax.custom_vjp only.",
    ),
    Outdated(
        "T31",
        says="result = jax.core.get_aval(x).shape",
        fate=Fate.GONE,
        error="AttributeError",
        happened="Deprecated in jax 0.8.2 and removed in 0.10.0.",
        today="result = jax.typeof(x).shape",
    ),
    Outdated(
        "T32",
        says="from jax import linear_util as lu\n\nresult = lu.wrap_init(jnp.sin).call_wrapped(x)",
        fate=Fate.GONE,
        error="ImportError",
        happened="Deprecated in jax 0.4.16 and removed in 0.4.24; it was for JAX's own use.",
        today="result = jnp.sin(x)",
    ),
    Outdated(
        "T33",
        says="""\
from jax.test_util import JaxTestCase

result = JaxTestCase().assertAllClose(x, x) is None""",
        fate=Fate.GONE,
        error="ImportError",
        happened="Deprecated in jax 0.3.1 and removed in 0.3.15; check_grads is still there.",
        today="""\
from jax.test_util import check_grads

check_grads(jnp.sin, (1.0,), order=1)
result = np.testing.assert_allclose(x, x) is None""",
        torch="check_grads is torch.autograd.gradcheck.",
    ),
)
