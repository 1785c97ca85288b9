"""The torch modules, for use behind an encoder of your own."""

from .encoded import ImageEncoder as ImageEncoder
from .encoded import Latent as Latent
from .gates import HardConcreteGates as HardConcreteGates
from .network import SymbolicNetwork as SymbolicNetwork
