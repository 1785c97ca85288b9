"""peql: one equation, coefficients that vary with t. EQL, SEQL and HEQL in torch."""

from . import datasets as datasets
from . import nn as nn
from . import primitives as primitives
from .checkpoint import load as load
from .encoded import EncodedHEQL as EncodedHEQL
from .encoded import EncodedSEQL as EncodedSEQL
from .estimators import EQL as EQL
from .estimators import HEQL as HEQL
from .estimators import SEQL as SEQL

__version__ = "0.1.0"
