"""The scikit-learn faces of the engine."""

from .encoded import EncodedHEQL as EncodedHEQL
from .encoded import EncodedSEQL as EncodedSEQL
from .tabular import EQL as EQL
from .tabular import HEQL as HEQL
from .tabular import SEQL as SEQL
