"""Write notebooks/data/drag.csv, the example of the chapter on the reader's own data.

Generated, not measured: the drag on a body pulled through a liquid crystal, at 48 temperatures.

    force = a(temperature)·speed² + b(temperature)·speed + noise

a falls steadily. b is viscous: it falls exponentially, and drops at 35.3 °C, where
the liquid crystal clears and its viscosity jumps. Noise: 3 % of the force's standard deviation.

    python scripts/make_drag_data.py
"""

from pathlib import Path

import numpy as np
import pandas as pd

OUT = Path(__file__).resolve().parents[1] / "notebooks" / "data" / "drag.csv"
CLEARING_POINT = 35.3  # °C
NOISE = 0.03
SEED = 2024


def quadratic(temperature: np.ndarray) -> np.ndarray:
    """The factor of speed²."""
    return 0.9 - 0.012 * (temperature - 20)


def linear(temperature: np.ndarray) -> np.ndarray:
    """The factor of speed."""
    below = 3.2 * np.exp(-(temperature - 20) / 30)
    return np.where(temperature < CLEARING_POINT, below, 0.6 * below)


def table() -> pd.DataFrame:
    """The rows, in the order in which they might have been measured."""
    random = np.random.default_rng(SEED)
    grid = np.round(np.sort(random.uniform(20, 50, 48)), 1)
    temperature = np.repeat(np.unique(grid), 40)
    speed = random.uniform(0.2, 4.0, len(temperature))
    force = quadratic(temperature) * speed**2 + linear(temperature) * speed
    force += NOISE * force.std() * random.standard_normal(len(force))
    columns = {"temperature": temperature, "speed": speed.round(3), "force": force.round(3)}
    return pd.DataFrame(columns).sample(frac=1, random_state=SEED)


if __name__ == "__main__":
    OUT.parent.mkdir(exist_ok=True)
    table().to_csv(OUT, index=False)
    print(f"{len(table())} rows written to {OUT.parent.name}/{OUT.name}")
