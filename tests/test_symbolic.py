"""Laws of reading an equation: what is written is what is computed."""

import pickle

import numpy as np
import pytest
import sympy
import torch

import peql
from peql.analysis.comparison import coefficient_deviations, has_true_terms
from peql.engine.formula import Formula
from peql.equation import reading as symbolic
from peql.equation.reading import drop_small, number, structure
from peql.nn import SymbolicNetwork

x, t = sympy.symbols("x t")
a, b = sympy.Function("a")(t), sympy.Function("b")(t)


def random_formula(seed, features=2, share=0.1, n_steps=4, primitives="default", n_layers=2):
    """A random sparse network as a formula, and weights (step, weight) for it."""
    random = np.random.default_rng(seed)
    net = SymbolicNetwork(features, primitives=primitives, n_layers=n_layers)
    keep = np.flatnonzero(random.random(net.n_weights) < share)
    formula, _ = Formula.of_network(net.layout, net.shapes, keep.tolist())
    return formula, random.normal(size=(n_steps, formula.n_weights))


def values_of(expression, symbols, columns):
    function = sympy.lambdify(symbols, expression, "numpy", dummify=True)
    return np.broadcast_to(function(*columns), columns[0].shape)


@pytest.mark.parametrize("seed", range(6))
def test_equation_is_the_formula(seed):
    formula, weights = random_formula(seed)
    equation = symbolic.read(formula, weights, ["x", "z"], ["t"], [2.0, 5.0], [0.0, 7.0], 3.0)
    points = np.random.default_rng(seed).uniform(-1, 1, (20, 2))
    values = equation.evaluate(weights)
    for step, row in enumerate(weights):
        columns = [torch.tensor([[w]], dtype=torch.float64) for w in row]
        scaled = torch.from_numpy((points - [0.0, 7.0]) / [2.0, 5.0])[None]
        computed = 3.0 * formula(columns, scaled)[0].numpy()
        written = values_of(equation.at(values[step]), sympy.symbols("x z"), points.T)
        np.testing.assert_allclose(written, computed, rtol=1e-7, atol=1e-8)


def test_coefficient_that_is_zero_at_one_t_is_written_as_zero(seql):
    assert seql.equation(t=0.0) == 0


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.1 + 0.2, "0.3"),
        (1 - 1e-16, "1"),
        (-1.0, "-1"),
        (0.0, "0"),
        (2.0, "2.0"),
        (1e-30, "1e-30"),
    ],
)
def test_numbers_are_rounded_to_what_is_known(value, written):
    assert float(number(value)) == float(written)
    assert (number(value).is_Integer) == ("." not in written and "e" not in written)


def test_structure_ignores_coefficients_only():
    features = ["x", "z"]
    z = sympy.Symbol("z")
    assert structure(a * x**2 + b * x, features) == structure(-3 * x + 0.5 * x**2, features)
    assert structure(sympy.sin(a * x), features) == structure(2 * sympy.sin(3 * x), features)
    assert structure(a * x, features) != structure(a * z, features)
    assert structure(a * x, features) != structure(a * x + b, features)
    assert structure(a * x, features) != structure(a * x**2, features)
    assert structure(sympy.sin(a * x), features) != structure(sympy.cos(a * x), features)
    assert structure(sympy.sin(a * x), features) != structure(sympy.sin(a * x + b), features)


def test_small_terms_are_left_out():
    assert drop_small(0.009 * x**2 + 0.011 * x - 0.02, 0.01) == 0.011 * x - 0.02
    assert drop_small(0.001 * x, 0.0) == 0.001 * x


@pytest.mark.parametrize("flip", [1, -1])
def test_sign_of_an_odd_function_is_settled(flip):
    # c sin(b x) and -c sin(-b x) are one function and are read alike.
    net = SymbolicNetwork(1, primitives=["sin"], n_layers=1)
    formula, _ = Formula.of_network(net.layout, net.shapes, [0, 1])
    inner = np.array([[0.1], [0.2], [0.3]])
    outer = np.array([[2.0], [3.0], [5.0]])
    weights = flip * np.hstack([inner, outer])
    equation = symbolic.read(formula, weights, ["x"], ["t"], [1.0], [0.0], 1.0)
    values = equation.evaluate(weights)
    assert str(equation.expression) == "a(t)*sin(x*b(t))"
    np.testing.assert_allclose(values[:, 0], outer[:, 0])
    np.testing.assert_allclose(values[:, 1], 4 * np.pi * inner[:, 0])


def test_coefficients_that_do_not_vary_are_numbers():
    net = SymbolicNetwork(1, primitives=["square"], n_layers=1)
    formula, _ = Formula.of_network(net.layout, net.shapes, range(net.n_weights))
    weights = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 4.0]])
    equation = symbolic.read(formula, weights, ["x"], ["t"], [1.0], [0.0], 1.0)
    assert equation.expression == 2.0 * x**2 + a * x


NAMES = ["lambda", "x y", "__import__('os').abort()", "S", "I", "E", "pi", "a", "t2", "π", "", "w0"]


@pytest.mark.parametrize("name", NAMES)
def test_names_become_symbols_as_they_are(name):
    formula, weights = random_formula(2, features=2)
    equation = symbolic.read(formula, weights, [name, "b"], ["c"], [1.0, 1.0], [0.0, 0.0], 1.0)
    symbols = {sympy.Symbol(name), sympy.Symbol("b"), sympy.Symbol("c")}
    assert sympy.Symbol(name) in equation.expression.free_symbols <= symbols
    assert not {name, "b", "c"} & set(equation.names)
    points = np.random.default_rng(0).uniform(-1, 1, (2, 10))
    columns = [torch.tensor([[w]], dtype=torch.float64) for w in weights[0]]
    computed = formula(columns, torch.from_numpy(points.T)[None])[0].numpy()
    expression = equation.at(equation.evaluate(weights)[0])
    written = values_of(expression, [sympy.Symbol(name), sympy.Symbol("b")], points)
    np.testing.assert_allclose(written, computed, rtol=1e-7, atol=1e-8)


def test_there_are_letters_for_any_number_of_coefficients():
    formula, weights = random_formula(0, features=3, share=0.25, n_layers=1)
    equation = symbolic.read(
        formula, weights, ["a", "b", "e1"], ["t"], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0], 1.0
    )
    assert len(set(equation.names)) == len(equation.names)
    assert not {"a", "b", "e1", "t"} & set(equation.names)


def test_equation_can_be_pickled():
    formula, weights = random_formula(2)
    equation = symbolic.read(formula, weights, ["x", "z"], ["t"], [1.0, 1.0], [0.0, 0.0], 1.0)
    again = pickle.loads(pickle.dumps(equation))
    assert again.expression == equation.expression
    np.testing.assert_array_equal(again.evaluate(weights), equation.evaluate(weights))


def test_evaluation_tells_true_terms_and_coefficients(seql, f1):
    assert has_true_terms(seql.equation_, f1)
    assert not has_true_terms(seql.equation_ + 1, f1)
    assert not has_true_terms(f1.equation.subs(b, 0), f1)
    assert coefficient_deviations(seql, f1).max() < 1e-10


def test_a_constant_must_be_found_as_a_constant():
    f5 = peql.datasets.load("f5", n_t=4, n_train=8)
    assert has_true_terms(sympy.sin(b * x), f5)
    assert has_true_terms(0.998 * sympy.sin(b * x), f5)  # a number, which noise may move
    assert not has_true_terms(a * sympy.sin(b * x), f5)
    assert not has_true_terms(a * sympy.sin(a * x), f5)


def test_the_truth_of_f2():
    assert peql.datasets.load("f2", n_t=4, n_train=8).equation == sympy.sin(a * x)
