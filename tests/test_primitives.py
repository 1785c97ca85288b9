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


def test_default_names_are_registered():
    assert set(primitives.DEFAULT) <= set(primitives.names())


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
        ({"square": 0}, "'square' is asked for 0 times.*at least 1"),
        ({"square": 1.5}, "'square' is asked for 1.5 times"),
        (["one"], "at least one must take an input"),
        ([], "at least one must take an input"),
        (3, "primitives=3: expected 'default', a list or a mapping"),
        (["sin", Primitive("sin", torch.sin, sympy.sin)], "two different ones are called 'sin'"),
    ],
)
def test_bad_choices_are_explained(choice, message):
    with pytest.raises(ValueError, match=message):
        primitives.resolve(choice)
