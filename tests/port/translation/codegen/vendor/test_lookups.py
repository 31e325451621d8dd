"""Names that resolve in a module, as opposed to local names of functions and classes."""

from __future__ import annotations

import ast

import pytest

from port.translation.codegen.vendor.lookups import bound_names, module_names


def found(source: str) -> str:
    names = module_names(ast.parse(source).body[0])
    return " ".join(dict.fromkeys(sorted(node.id for node in names.found)))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(a: A, *b, c=C, **d) -> R: return a, b, c, d, e, f", "A C R e f"),
        ("@deco(x)\ndef f(x): return x", "deco x"),
        ("def f():\n  x = y\n  def g(): return x, z\n  return g", "y z"),
        ("def f():\n  def g():\n    nonlocal x\n    x = 1\n  x = 0", ""),
        ("def f():\n  global x\n  x = y", "x y"),
        ("lambda a, b=b: a + b + c", "b c"),
        ("[x + y for x in xs if x in ys]", "xs y ys"),
        ("[x for x in x]", "x"),
        ("{k: v for k, (v, _) in d.items() for z in (k, w)}", "d w"),
        ("def f():\n  [(last := x) for x in xs]\n  return last", "xs"),
        ("class A(B):\n  x = y\n  z = x\n  def m(self): return x, z, self", "B x y z"),
        ("class A:\n  x: T = 1\n  def m(self, y: x): return y", "T"),
        ("def f():\n  try: pass\n  except E as e: print(e)", "E print"),
        ("def f(v):\n  match v:\n    case P(a), [*b]: return a, b\n    case {'k': c, **d}: return c, d", "P"),
        ("def f():\n  import a.b\n  from c import d as e\n  return a, b, d, e", "b d"),
        ("def f():\n  with open(p) as h: return h\n  for i, (j, k) in s: l = i, j, k", "open p s"),
        ("async def f(x):\n  async for y in x: await z(y)", "z"),
        ("x = f'{y!r:{z}}'", "x y z"),
    ],
)
def test_the_names_that_the_module_gives(source: str, names: str) -> None:
    assert found(source) == names


def test_a_wanted_import_inside_a_function() -> None:
    statement = ast.parse("def f():\n  from own import g as h\n  import other\n  return h(other), [h for x in y]").body[
        0
    ]
    names = module_names(statement, lambda node: isinstance(node, ast.ImportFrom))
    assert [node.id for node, _ in names.imported] == ["h", "h"] and len(names.imports) == 1
    assert {node.id for node in names.found} == {"y"}
    assert names.local == {"h", "other", "x"}


def test_what_statements_bind() -> None:
    source = "import a.b, c as d\nx = y.z = 1\ndef f(g): h = 1\n(i := 2)\nfor j, k in l: m = 1\ndel n"
    assert bound_names(ast.parse(source).body) == {"a", "d", "x", "f", "i", "j", "k", "m", "n"}
