"""What the paper compares with, and the limit that no method passes."""

from .limit import Limit as Limit
from .limit import by_term as by_term
from .limit import coefficient_mse as coefficient_mse
from .limit import least_squares_limit as least_squares_limit
from .plain import PlainSINDy as PlainSINDy
from .relu import EncodedReLU as EncodedReLU
from .sindy import GroupSINDy as GroupSINDy
