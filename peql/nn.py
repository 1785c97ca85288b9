"""The torch modules, for use behind an encoder of your own."""

from . import more_primitives as more_primitives  # registers them
from .encoded import ImageEncoder as ImageEncoder
from .encoded import Latent as Latent
from .gates import HardConcreteGates as HardConcreteGates
from .network import SymbolicNetwork as SymbolicNetwork
