"""The tables and figures of the book, beside the paper's: a module for each chapter or page.

What several chapters use, and the chapters on analytic functions, can be imported from here.
Nothing else in the package imports these modules.
"""

from .analytic import Case as Case
from .analytic import Cases as Cases
from .analytic import between as between
from .analytic import compared as compared
from .analytic import equations as equations
from .analytic import equations_at as equations_at
from .analytic import evaluate as evaluate
from .analytic import failures as failures
from .analytic import fit as fit
from .analytic import missed_trials as missed_trials
from .analytic import misses as misses
from .analytic import mse as mse
from .analytic import nearness as nearness
from .analytic import polynomial_error as polynomial_error
from .analytic import sentences as sentences
from .analytic import set_up as set_up
from .analytic import split_error as split_error
from .analytic import statistics as statistics
from .analytic import with_origin as with_origin
from .recording import record as record
