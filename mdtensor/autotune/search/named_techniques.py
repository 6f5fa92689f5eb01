"""The registry of search techniques by name."""

from __future__ import annotations

from functools import partial

from mdtensor.autotune.search.population import ParticleSwarm, Simplex
from mdtensor.autotune.search.surrogate import SurrogateModel
from mdtensor.autotune.search.techniques import MEMBERS as CHEAP_MEMBERS
from mdtensor.autotune.search.techniques import Bandit, Exhaustive, MakeTechnique

# Those among which the bandit chooses.
MEMBERS: dict[str, MakeTechnique] = {
    **CHEAP_MEMBERS,
    "particle_swarm": ParticleSwarm,
    "simplex": Simplex,
    "surrogate": SurrogateModel,
}
TECHNIQUES: dict[str, MakeTechnique] = {
    "exhaustive": Exhaustive,
    **MEMBERS,
    "bandit": partial(Bandit, members=MEMBERS),
}
