"""Laws of saved models: they predict the same, and a file can be wrong but never run."""

import io
import json
import pickle
import warnings
import zipfile

import numpy as np
import pytest
import torch
from small import HASTY

import peql
from peql import primitives
from peql.estimators import checkpoint


@pytest.fixture
def saved(seql, tmp_path):
    path = tmp_path / "model.npz"
    seql.save(path)
    return path


def contents(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def rewrite(path, **changes):
    arrays = {**contents(path), **changes}
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})


def test_a_set_of_primitives_stays_one(f1, tmp_path):
    """Else a loaded model, fitted to half of the rows by the verdict, looks for less."""
    model = peql.SEQL(varying="t", method="search", random_state=0).fit(f1.X_train, f1.y_train)
    model.save(tmp_path / "model")
    assert peql.load(tmp_path / "model").get_params() == model.get_params()


def test_loaded_model_is_saved_alike(saved, tmp_path):
    peql.load(saved).save(tmp_path / "again")
    one, two = contents(saved), contents(tmp_path / "again")
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


def test_loading_leaves_random_numbers_alone(saved):
    state = torch.get_rng_state()
    peql.load(saved)
    assert torch.equal(torch.get_rng_state(), state)


def test_array_model_and_numpy_parameters_are_saved(f1, tmp_path):
    options = {
        "max_iter": np.int64(5),
        "l0_weight": np.float32(1e-3),
        "varying": np.int64(1),
        "random_state": np.random.RandomState(0),
    }
    model = peql.SEQL(**HASTY | options).fit(f1.X_train.to_numpy(), f1.y_train)
    model.save(tmp_path / "model")
    again = peql.load(tmp_path / "model")
    assert again.random_state is None and again.varying == 1
    X = f1.X_test.to_numpy()
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_own_primitive_must_be_registered(f1, tmp_path):
    cube = primitives.Primitive("cube", lambda g: g**3, lambda g: g**3)
    options = HASTY | {"primitives": ["identity", cube]}
    model = peql.SEQL(**options).fit(f1.X_train, f1.y_train)
    with pytest.raises(ValueError, match="'cube' is not registered"):
        model.save(tmp_path / "model")
    primitives.register(cube)
    try:
        model.save(tmp_path / "model")
        assert peql.load(tmp_path / "model").primitives == {"identity": 1, "cube": 1}
        primitives.register(primitives.Primitive("cube", lambda g: g**5, lambda g: g**5))
        with pytest.raises(ValueError, match="'cube' registered here has another meaning"):
            peql.load(tmp_path / "model")
    finally:
        del primitives._REGISTRY["cube"]
    with pytest.raises(ValueError, match="unknown primitive 'cube'"):
        peql.load(tmp_path / "model")


# --- files that are no models --------------------------------------------------------------


class Bomb:
    """Runs when unpickled."""

    exploded = False

    def __reduce__(self):
        return Bomb.explode, ()

    @staticmethod
    def explode():
        Bomb.exploded = True


def pickled(path):
    path.write_bytes(pickle.dumps(Bomb()))


def pickled_inside(path):
    rewrite(path, header=np.array([Bomb()], dtype=object))


def pickled_beside(path):
    rewrite(path, other=np.array([Bomb()], dtype=object))


def torch_file(path):
    torch.save({"weights": torch.zeros(3), "bomb": Bomb()}, path)


def flipped_bytes(path):
    data = bytearray(path.read_bytes())
    for k in range(len(data) // 3, len(data) // 3 + 64):
        data[k] ^= 0xFF
    path.write_bytes(data)


def damaged_header(path):
    rewrite(path, header=np.array("{not json"))


def header_with(path, **changes):
    header = json.loads(str(contents(path)["header"]))
    rewrite(path, header=np.array(json.dumps({**header, **changes})))


def solution_with(path, **changes):
    header = json.loads(str(contents(path)["header"]))
    header["solution"] |= changes
    rewrite(path, header=np.array(json.dumps(header)))


def vast(path):
    """Small on disk, 8 GB in memory."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file, file.open("spare.npy", "w") as f:
        np.lib.format.write_array_header_1_0(
            f, {"descr": "<f8", "fortran_order": False, "shape": (10**9,)}
        )


def tangled(path, n_units, *back):
    """Each unit reads those so many places before it: small in the file, vast as an equation."""
    units = [["sin", [[[1.0, max(k - b, 0)] for b in back]]] for k in range(n_units)]
    values = primitives.get("sin").torch(torch.from_numpy(checkpoint.PROBES)).tolist()
    last = json.loads(str(contents(path)["header"]))["solution"]["output"]
    output = [[c, n_units] for c, _ in last]
    solution_with(path, units=units, meaning={"sin": [1.0, *values]}, output=output)


def twice(path):
    """Readers differ in which of two members of one name they take."""
    with zipfile.ZipFile(path, "a") as file, warnings.catch_warnings(action="ignore"):
        file.writestr("weights.npy", file.read("weights.npy"))


def crowded(path):
    with zipfile.ZipFile(path, "a") as file:
        for k in range(checkpoint.MOST_MEMBERS):
            file.writestr(f"spare{k}.npy", file.read("weights.npy"))


def talkative(path):
    """As Python's lists and dictionaries ten times as large as in the file."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("header.npy", "w") as f,
    ):
        np.lib.format.write_array_header_1_0(
            f, {"descr": "<U100000000", "fortran_order": False, "shape": ()}
        )


def text_member(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("readme.txt", "hello")


def npy_file(path):
    with open(path, "wb") as file:
        np.save(file, np.arange(3))


DAMAGE = {
    "empty": lambda path: path.write_bytes(b""),
    "random": lambda path: path.write_bytes(np.random.default_rng(0).bytes(5000)),
    "text": lambda path: path.write_text("x,t,y\n1,2,3\n"),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped bytes": flipped_bytes,
    "pickle": pickled,
    "pickle inside": pickled_inside,
    "pickle beside": pickled_beside,
    "torch": torch_file,
    "foreign npz": lambda path: np.savez(path, a=np.arange(3)),
    "npy": npy_file,
    "zip": text_member,
    "header": damaged_header,
    "header a list": lambda path: rewrite(path, header=np.array("[1, 2]")),
    "format": lambda path: header_with(path, format="peql-model-99"),
    "model": lambda path: header_with(path, model="os.system"),
    "parameters": lambda path: header_with(path, parameters={"no_such": 1}),
    "columns": lambda path: header_with(path, columns=["x"]),
    "columns too many": lambda path: header_with(path, columns=["x", "z", "t"]),
    "no t": lambda path: rewrite(path, t=None),
    "no weights": lambda path: rewrite(path, weights=None),
    "shape": lambda path: rewrite(path, weights=np.zeros((1, 2, 3))),
    "text weights": lambda path: rewrite(path, weights=np.array(["a"])),
    "nan": lambda path: rewrite(path, t=np.full_like(contents(path)["t"], np.nan)),
    "output": lambda path: solution_with(path, output=[[0, 10**9]]),
    "units": lambda path: solution_with(path, units=[["square", [[[0, 7]]]]]),
    "many units": lambda path: solution_with(path, units=[["one", []]] * 20_000),
    "meaning": lambda path: solution_with(path, meaning={"square": [1.0, 2.0]}),
    "vast": lambda path: vast(path),
    "written out": lambda path: tangled(path, 60, 0, 1),
    "deep": lambda path: tangled(path, 5000, 0),
    "t": lambda path: rewrite(path, t=contents(path)["t"][:3]),
    "scale": lambda path: rewrite(path, x_scale=np.ones(5)),
    "no scale": lambda path: rewrite(path, x_scale=np.zeros_like(contents(path)["x_scale"])),
    "scale of y": lambda path: solution_with(path, y_scale=float("nan")),
    "complex": lambda path: rewrite(path, weights=contents(path)["weights"] * 1j),
    "no units": lambda path: solution_with(path, units=None),
    "no solution": lambda path: header_with(path, solution=[]),
    "twice": twice,
    "crowded": crowded,
    "talkative": talkative,
    "t that descend": lambda path: rewrite(path, t=contents(path)["t"][::-1]),
    "equal t": lambda path: rewrite(path, t=np.ones_like(contents(path)["t"])),
    "one row of weights": lambda path: solution_with(path, source="single"),
    "half precision": lambda path: rewrite(path, weights=contents(path)["weights"].astype("f2")),
    "infinite number": lambda path: solution_with(path, output=[[0, 1], [float("inf"), 1]]),
    "labels as text": lambda path: solution_with(path, labels="a" * len(contents(path)["t"])),
    "few labels": lambda path: solution_with(path, labels=["only"]),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_wrong_files_are_one_clear_error(damage, saved):
    damage(saved)
    with pytest.raises(ValueError, match=r"model\.npz is (not a whole peql model|damaged)") as info:
        peql.load(saved)
    assert "model.save wrote" in str(info.value) or "save the model again" in str(info.value)
    assert not Bomb.exploded


def test_bomb_would_run_if_unpickled():
    pickle.loads(pickle.dumps(Bomb()))
    assert Bomb.exploded
    Bomb.exploded = False


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npz: there is no such file"):
        peql.load(tmp_path / "none.npz")
    with pytest.raises(IsADirectoryError):
        peql.load(tmp_path)


# --- saving --------------------------------------------------------------------------------


def test_failed_save_leaves_what_was_there(saved, seql, monkeypatch):
    before = saved.read_bytes()

    def broken(file, **arrays):
        file.write(b"half of it")
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint.np, "savez_compressed", broken)
    with pytest.raises(OSError, match="disk full"):
        seql.save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["model.npz"]


def test_save_needs_a_folder(seql, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*absent"):
        seql.save(tmp_path / "absent" / "model.npz")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        seql.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        peql.SEQL().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_file_is_arrays_and_json(saved):
    with zipfile.ZipFile(saved) as file:
        for name in file.namelist():
            values = np.lib.format.read_array(io.BytesIO(file.read(name)), allow_pickle=False)
            assert values.dtype != object
