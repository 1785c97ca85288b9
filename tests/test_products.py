"""What holds for sums of products, the forms of a field's equation."""

import numpy as np
import pytest
import torch

from peql.engine.products import Library, by_step, products, sums_of_products, written
from peql.engine.solver import Points


def points(noise, *, n_steps=12, n_rows=40, seed=0):
    """x0·x1 with a coefficient of t, x2 with a constant; ``noise`` (step,) in y."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((n_steps, n_rows, 3))
    a = 1 + np.arange(n_steps) / n_steps
    y = a[:, None] * x[..., 0] * x[..., 1] + 0.5 * x[..., 2]
    y = y + np.broadcast_to(noise, n_steps)[:, None] * random.standard_normal(y.shape)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    return Points(x, y, torch.ones_like(y), torch.ones_like(y)[..., None]), a


@pytest.mark.parametrize("noise", [0.0, 1e-6, 0.01, 0.3])
def test_the_terms_and_the_constant_are_found(noise):
    given, a = points(noise)
    fit = sums_of_products(given)[0]
    assert fit.formula == written([(2,), (0, 1)], 3)
    assert fit.constant == (True, False)
    assert np.allclose(fit.weights[0, 0, 0], 0.5, atol=0.3 * noise + 1e-9)
    assert np.allclose(fit.weights[:, 1, 0], a, atol=noise + 1e-9)


def test_a_written_product_is_that_product():
    terms = products(3)
    x = torch.randn(1, 5, 3, dtype=torch.float64)
    for term in terms:
        value = written([term], 3)([torch.tensor(2.0)], x)
        assert torch.allclose(value, 2 * x[..., list(term)].prod(-1))


def test_a_noisy_step_has_little_say_in_a_constant():
    """Pooled, the error of the constant would be that of the noisy half of the steps."""
    noise = np.where(np.arange(12) < 6, 1.0, 1e-3)
    errors = []
    for seed in range(5):
        given, _ = points(noise, seed=seed)
        errors.append(abs(float(sums_of_products(given)[0].weights[0, 0, 0]) - 0.5))
    assert max(errors) < 1e-3


def test_fewer_independent_rows_ask_for_more_evidence():
    """Rows that repeat each other tempt a criterion that counts them all."""
    random = np.random.default_rng(1)
    x = np.repeat(random.standard_normal((12, 8, 3)), 16, axis=1)
    error = np.repeat(random.standard_normal((12, 8)), 16, axis=1)
    x, y = torch.from_numpy(x), torch.from_numpy(2 * x[..., 0] + error)
    given = Points(x, y, torch.ones_like(y), torch.ones_like(y)[..., None])
    assert len(sums_of_products(given)[0].constant) > 1
    assert sums_of_products(given, share=1 / 16)[0].formula == written([(0,)], 3)


def test_an_error_that_rounding_explains_is_none():
    given, _ = points(0.0)
    bent = given.y + 1e-6 * given.x[..., 0] ** 3
    given = Points(given.x, bent, given.mask, given.basis)
    assert len(sums_of_products(given)[0].constant) == 3
    assert len(sums_of_products(given, exact=1e-9)[0].constant) == 2


def test_what_grows_scores_what_it_is_solved_for():
    given, _ = points(0.1)
    library = Library(given, products(3, 2), 1.0, 0.0)
    for chosen, score in library.grown((1,)).items():
        assert score == pytest.approx(library.score(library.error(chosen), chosen))


def test_more_constants_than_half_the_rows_are_never_worth_it():
    rows = np.full(3, 8.0)
    assert by_step(1e-30 * rows, rows, rows, 5, 0, 1, 0 * rows) == np.inf
