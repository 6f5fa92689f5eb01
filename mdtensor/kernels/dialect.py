"""Dialect: the spelling of one C-like language, as data for the one renderer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a language spells what a LoopNest says.

    Templates are filled with `str.format`. `vectors` tells whether the language has vector types
    with arithmetic; a nest with lanes is rendered only in such a language.
    """

    name: str
    prelude: str
    kernel: str
    types: Mapping[str, str]
    unsigned: Mapping[str, str]
    index: str
    regions: Mapping[str, str]
    arrays: Mapping[str, str]
    restrict: str
    barrier: str
    group: str
    item: str
    half_load: str
    half_store: str
    streaming_store: str
    functions: Mapping[str, str]
    vectors: bool
    sizes_by_value: bool
