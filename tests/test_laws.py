"""One table of laws that every model passes: EQL, SEQL, HEQL and the two behind an encoder."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import sympy
import torch
from sklearn.base import clone
from small import QUICK

import peql

ENCODED = {
    "primitives": ["identity"],
    "n_layers": 1,
    "max_iter": 60,
    "polish_iter": 20,
    "random_state": 0,
}


class Tabular:
    """A model of a table, and the rows it is fitted to."""

    def __init__(self, model, varying=("t",), scattered=False):
        random = np.random.default_rng(0)
        n_steps, n = (200, 4) if scattered else (8, 32)
        t = np.repeat(random.uniform(-1, 1, (n_steps, len(varying))).round(3), n, axis=0)
        table = dict(zip(varying, t.T, strict=True))
        self.X = pd.DataFrame({"x": random.uniform(-2, 2, len(t)), **table})
        self.y = pd.Series((2 + t.sum(axis=1)) * self.X["x"] ** 2 + self.X["x"], name="y")
        self.model, self.varying = model, list(varying)

    def fit(self, rows=None):
        rows = np.arange(len(self.X)) if rows is None else rows
        return clone(self.model).fit(self.X.iloc[rows], self.y.iloc[rows])

    def predict(self, model):
        return model.predict(self.X)

    def score(self, model):
        return model.score(self.X, self.y)

    def written(self, model, row):
        """What the equation at the t of a row says of it."""
        t = self.X.loc[row, self.varying].to_numpy()
        equation = model.equation(t=t if len(t) > 1 else t[0])
        return float(equation.subs({sympy.Symbol("x"): self.X.loc[row, "x"]}))


class Encoded:
    """A model of images: the y of a row follows from the positions of two bumps."""

    def __init__(self, model):
        data = peql.datasets.load("spring_force", n_t=4, n_train=64, n_test=4)
        self.images, self.t, self.y = data.images_train, data.X_train["t"], data.y_train
        self.model = model

    def fit(self, rows=None):
        rows = np.arange(len(self.t)) if rows is None else rows
        return clone(self.model).fit(self.images[rows], self.t.iloc[rows], self.y.iloc[rows])

    def predict(self, model):
        return model.predict(self.images, self.t)

    def score(self, model):
        return model.score(self.images, self.t, self.y)

    def written(self, model, row):
        z = model.latent(self.images[row : row + 1])[0]
        symbols = sympy.symbols("z1 z2")
        return float(model.equation(t=self.t.iloc[row]).subs(dict(zip(symbols, z, strict=True))))


CASES = {
    "EQL": lambda: Tabular(peql.EQL(**QUICK)),
    "SEQL": lambda: Tabular(peql.SEQL(**QUICK)),
    "HEQL": lambda: Tabular(peql.HEQL(**QUICK)),
    "HEQL, t on no grid": lambda: Tabular(peql.HEQL(**QUICK), scattered=True),
    "HEQL, two varying columns": lambda: Tabular(
        peql.HEQL(**QUICK | {"varying": ["t1", "t2"]}), ("t1", "t2")
    ),
    "HEQL, two, on no grid": lambda: Tabular(
        peql.HEQL(**QUICK | {"varying": ["t1", "t2"]}), ("t1", "t2"), scattered=True
    ),
    "SEQL as trained": lambda: Tabular(peql.SEQL(**QUICK | {"refine": False})),
    "EncodedSEQL": lambda: Encoded(peql.EncodedSEQL(**ENCODED)),
    "EncodedHEQL": lambda: Encoded(peql.EncodedHEQL(**ENCODED)),
}


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES.keys())
def case(request):
    made = request.param()
    return made, made.fit()


def test_saved_and_loaded_it_predicts_the_same_bytes(case, tmp_path):
    data, model = case
    model.save(tmp_path / "model")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]  # no suffix added, nothing left over
    again = peql.load(tmp_path / "model")
    assert type(again) is type(model)
    given = {**model.get_params(), "primitives": again.primitives}
    assert {k: v for k, v in again.get_params().items() if k != "encoder"} == {
        k: v for k, v in given.items() if k != "encoder"
    }
    assert data.predict(again).tobytes() == data.predict(model).tobytes()
    assert again.equation_ == model.equation_ and again.latex() == model.latex()
    pd.testing.assert_frame_equal(again.coefficients_, model.coefficients_)
    pd.testing.assert_frame_equal(again.coefficient_errors_, model.coefficient_errors_)
    pd.testing.assert_frame_equal(again.trials_, model.trials_)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copied_and_pickled_it_is_the_same(case, again):
    data, model = case
    assert data.predict(again(model)).tobytes() == data.predict(model).tobytes()
    assert again(model).equation_ == model.equation_


def test_the_same_seed_gives_the_same_model(case):
    data, model = case
    again = data.fit()
    assert again.equation_ == model.equation_
    assert data.predict(again).tobytes() == data.predict(model).tobytes()


def test_the_order_of_the_rows_does_not_matter(case):
    data, model = case
    rows = np.random.default_rng(1).permutation(len(data.y))
    again = data.fit(rows)
    assert again.equation_ == model.equation_
    np.testing.assert_array_equal(data.predict(again), data.predict(model))


def test_the_equation_is_the_prediction(case):
    data, model = case
    if not model.solution_.refined:
        return  # terms below the paper's threshold are not printed
    predicted = data.predict(model)
    for row in (0, 5, len(predicted) - 1):
        assert data.written(model, row) == pytest.approx(predicted[row], rel=1e-6, abs=1e-6)


def test_the_coefficients_belong_to_the_equation(case):
    _, model = case
    if not model.solution_.refined:
        return  # terms below the paper's threshold are not printed
    numbers = model.coefficients_.iloc[-1]  # of EQL's there is one
    values = dict(zip(model.coefficients_, numbers, strict=True))
    functions = model.equation_.atoms(sympy.core.function.AppliedUndef)
    filled = model.equation_.subs({f: values[f.func.__name__] for f in functions})
    filled = filled.subs("t", numbers.name)  # a feature of EQL
    difference = sympy.expand(filled - model.equation(t=numbers.name))
    assert all(abs(c) < 1e-9 for c in difference.as_coefficients_dict().values())


def test_errors_have_the_coefficients_shape(case):
    _, model = case
    assert model.coefficient_errors_.shape == model.coefficients_.shape
    assert model.coefficient_errors_.index.equals(model.coefficients_.index)
    if model.solution_.refined:
        assert (model.coefficient_errors_ >= 0).all(axis=None)
        assert (model.constants_["standard_error"] >= 0).all()
    else:  # nothing was solved for
        assert model.coefficient_errors_.isna().all(axis=None)


def test_everything_a_result_offers_is_there(case):
    data, model = case
    assert isinstance(model.latex(), str)
    assert np.isfinite(data.score(model))
    assert {"method", "train_error", "equation"} <= set(model.trials_)
    if len(model.solution_.varying) == 1:
        model.jumps()
    else:
        with pytest.raises(ValueError, match="along one"):
            model.jumps()


def test_the_network_holds_the_formula(case):
    _, model = case
    solution = model.solution_
    network, n = model.network_, len(solution.features)
    steps = solution.t if solution.source == "meta" else None
    x = torch.from_numpy(np.random.default_rng(2).uniform(-1, 1, (len(solution.t), 7, n)))
    scaled = None if steps is None else torch.from_numpy(solution.scales.t(steps))
    through = network(x, scaled)[..., 0].detach().numpy()
    weights = torch.from_numpy(np.array(solution.weights))
    formula = solution.formula([w[:, None] for w in weights.unbind(1)], x).numpy()
    np.testing.assert_allclose(through, formula, rtol=1e-5, atol=1e-6)
