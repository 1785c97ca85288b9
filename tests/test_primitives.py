"""Laws of primitives: the torch form and the SymPy form are one function."""

import pickle

import numpy as np
import pytest
import sympy
import torch

from peql import primitives
from peql.primitives import Layout, Primitive


@pytest.mark.parametrize("name", primitives.names())
def test_torch_and_sympy_forms_agree(name):
    primitive = primitives.get(name)
    symbols = sympy.symbols(f"g:{primitive.arity}") if primitive.arity else ()
    values = torch.rand(primitive.arity, 200, dtype=torch.float64) * 4 - 2
    written = sympy.lambdify(symbols, primitive.sympy(*symbols), "numpy")(*values.numpy())
    computed = torch.as_tensor(primitive.torch(*values), dtype=torch.float64).numpy()
    np.testing.assert_allclose(computed, written, rtol=1e-12, atol=1e-12)


def test_named_sets_are_registered_and_the_default_is_the_papers():
    for members in primitives.SETS.values():
        assert set(members) <= set(primitives.names())
    assert list(primitives.SETS["default"].items()) == [
        ("one", 2),
        ("identity", 4),
        ("square", 4),
        ("sin", 2),
        ("product", 2),
    ]


GUARDED = ["exp", "log", "sqrt", "reciprocal"]


@pytest.mark.parametrize("name", GUARDED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_guarded_primitives_are_finite_with_finite_slopes(name, dtype):
    ends = [0.0, 1e-30, 1e-8, 1.0, 30.0, 1e4, 1e30]
    g = torch.tensor([*ends, *(-e for e in ends)], dtype=dtype, requires_grad=True)
    value = primitives.get(name).torch(g)
    value.sum().backward()
    assert value.isfinite().all()
    assert g.grad.isfinite().all()
    assert value.detach().square().isfinite().all()


@pytest.mark.parametrize("name", GUARDED)
@pytest.mark.parametrize("g", [0.0, 1e-6, -1e-6, 1e-3, 3.0, -40.0, 100.0])
def test_guards_do_not_change_what_is_written(name, g):
    primitive = primitives.get(name)
    computed = float(primitive.torch(torch.tensor(g, dtype=torch.float64)))
    assert computed == pytest.approx(float(primitive.sympy(sympy.Float(g))), rel=1e-12)


@pytest.mark.parametrize(
    "choice",
    ["default", ["product", "sin"], {"one": 1, "product": 3, "square": 2}],
    ids=["default", "list", "mapping"],
)
def test_grouped_activation_equals_unit_by_unit(choice):
    layout = Layout(primitives.resolve(choice))
    g = torch.randn(3, layout.n_in, 7)
    grouped = torch.cat(layout.activate(g), dim=-2)
    single = [
        torch.as_tensor(primitive.torch(*(g[:, c] for c in columns))).expand(3, 7)
        for primitive, columns in layout.units()
    ]
    assert grouped.shape == (3, layout.n_out, 7)
    assert torch.equal(grouped, torch.stack(single, dim=-2))


def test_every_pre_activation_is_read_once():
    layout = Layout(primitives.resolve("default"))
    read = [c for _, columns in layout.units() for c in columns]
    assert sorted(read) == list(range(layout.n_in))


def test_registered_primitives_are_pickled_by_name():
    sin = primitives.get("sin")
    assert pickle.loads(pickle.dumps(sin)) is sin


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (["sinus"], "unknown primitive 'sinus': did you mean 'sin'"),
        ("sin", r"unknown set of primitives 'sin'.*default"),
        ("trigg", "unknown set of primitives 'trigg': did you mean 'trig'"),
        ({"square": 0}, "'square' is asked for 0 times.*at least 1"),
        ({"square": 1.5}, "'square' is asked for 1.5 times"),
        (["one"], "at least one must take an input"),
        ([], "at least one must take an input"),
        (3, r"primitives=3: expected a set \(default, trig, growth\), a list, or a mapping"),
        (["sin", Primitive("sin", torch.sin, sympy.sin)], "two different ones are called 'sin'"),
    ],
)
def test_bad_choices_are_explained(choice, message):
    with pytest.raises(ValueError, match=message):
        primitives.resolve(choice)
