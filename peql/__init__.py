"""peql: one equation, coefficients that vary with t. EQL, SEQL and HEQL in torch."""

from . import datasets as datasets
from . import more_primitives as more_primitives
from . import nn as nn
from . import primitives as primitives
from .checkpoint import load as load
from .estimators import EQL as EQL
from .estimators import HEQL as HEQL
from .estimators import SEQL as SEQL

__version__ = "0.1.0"
