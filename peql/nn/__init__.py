"""The torch modules, for use behind an encoder of your own."""

from .encoder import ImageEncoder as ImageEncoder
from .encoder import Latent as Latent
from .gates import HardConcreteGates as HardConcreteGates
from .network import SymbolicNetwork as SymbolicNetwork
