"""The torch modules, for use behind an encoder of your own."""

from .gates import HardConcreteGates as HardConcreteGates
from .network import SymbolicNetwork as SymbolicNetwork
