"""The techniques that a search may use, by name."""

from __future__ import annotations

from functools import partial

from mdtensor.autotune.search.surrogate import Learned
from mdtensor.autotune.search.techniques import (
    MEMBERS as MEMBERS_OF_KERNELS,
)
from mdtensor.autotune.search.techniques import (
    TECHNIQUES as TECHNIQUES_OF_KERNELS,
)
from mdtensor.autotune.search.techniques import (
    Bandit,
    MakeTechnique,
)
from mdtensor.tuner.population import ParticleSwarm, Simplex

# Those among which the bandit chooses.
MEMBERS: dict[str, MakeTechnique] = {
    **MEMBERS_OF_KERNELS,
    "particle_swarm": ParticleSwarm,
    "simplex": Simplex,
    "surrogate": Learned,
}
TECHNIQUES: dict[str, MakeTechnique] = {
    "exhaustive": TECHNIQUES_OF_KERNELS["exhaustive"],
    **MEMBERS,
    "bandit": partial(Bandit, members=MEMBERS),
}
