"""A tuner for any program: constrained spaces of parameters, and the search for the best of them.

Usable alone; the page docs/tuner.md shows it.
"""

from mdtensor.autotune.search.abort_conditions import (
    Condition,
    Progress,
    cost_reached,
    duration,
    evaluations,
    fraction,
    speedup,
)
from mdtensor.autotune.search.named_techniques import TECHNIQUES
from mdtensor.autotune.search.search import SearchOutcome
from mdtensor.autotune.space.space import Configuration, Space
from mdtensor.autotune.trial import Measured, Trial
from mdtensor.tuner.asking import Tuner, search
from mdtensor.tuner.command_cost import Command
from mdtensor.tuner.costs import invalid
from mdtensor.tuner.isolated_cost import Isolated
from mdtensor.tuner.kernel_cost import CUDAKernel, OpenCLKernel, random_array
from mdtensor.tuner.relations import (
    Relation,
    at_least,
    at_most,
    divides,
    equal,
    greater_than,
    is_multiple_of,
    less_than,
    unequal,
)
from mdtensor.tuner.tuning_parameter import Parameter

__all__ = [
    "TECHNIQUES",
    "CUDAKernel",
    "Command",
    "Condition",
    "Configuration",
    "Isolated",
    "Measured",
    "OpenCLKernel",
    "Parameter",
    "Progress",
    "Relation",
    "SearchOutcome",
    "Space",
    "Trial",
    "Tuner",
    "at_least",
    "at_most",
    "cost_reached",
    "divides",
    "duration",
    "equal",
    "evaluations",
    "fraction",
    "greater_than",
    "invalid",
    "is_multiple_of",
    "less_than",
    "random_array",
    "search",
    "speedup",
    "unequal",
]
