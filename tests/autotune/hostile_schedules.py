"""Texts that a store's row may hold instead of a schedule, by whoever wrote it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

# What may stand where a value of a field should.
VALUES: dict[str, Any] = {
    "null": None,
    "text": "16",
    "empty text": "",
    "mapping": {},
    "nested": [[1, 2], [3]],
    "deep": [[[[[[1]]]]]],
    "float": 1.5,
    "whole float": 16.0,
    "negative": -1,
    "huge": 1 << 40,
    "beyond 64 bits": 1 << 70,
    "true": True,
    "false": False,
    "empty": [],
    "nulls": [None, None, None],
    "texts": ["1", "1", "1"],
    "bools": [True, False, True],
    "floats": [1.0, 2.0, 4.0],
    "negatives": [-1, -1, -1],
    "huge ones": [1 << 40, 1 << 40, 1 << 40],
    "zeros": [0, 0, 0],
    "too many": [1] * 1000,
    "very many": [1] * 40_000,
    "one of many": [1, 1, 1 << 62],
    "code": '"); system("touch marker"); ("',
}
# Whole texts.
TEXTS = {
    "empty": "",
    "null": "null",
    "number": "16",
    "list": "[]",
    "text": '"cpu"',
    "mapping": "{}",
    "unfinished": '{"asm": "cpu"',
    "deep lists": "[" * 20_000,
    "deep mappings": '{"a":' * 20_000,
    "deep and whole": '{"asm":' + "[" * 900 + "]" * 900 + "}",
    "not a number": '{"width": NaN}',
    "infinite": '{"width": Infinity}',
    "many digits": '{"width": ' + "9" * 5_000 + "}",
    "surrogate": '{"asm": "\\ud800"}',
    "zero byte": "\0",
    "megabyte": " " * (1 << 20),
    "unknown field": '{"colour": "red"}',
    "pickle": "cos\nsystem\n(S'touch marker'\ntR.",
}


def hostile_texts(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and texts: whole ones, and a schedule's with one field that is something else."""
    yield from TEXTS.items()
    for field in fields:
        yield f"{field} missing", json.dumps({n: v for n, v in fields.items() if n != field})
        for name, value in VALUES.items():
            yield f"{field} {name}", json.dumps(fields | {field: value})
    yield "registers of 2**40", json.dumps(fields | {"registers": [1 << 40] * 3})
    yield "registers of 2**14", json.dumps(fields | {"registers": [1 << 14] * 3})
    yield "another device", json.dumps(fields | {"asm": "gpu"})
    yield "all later fields", json.dumps(fields | dict.fromkeys(("stages", "swath"), 7))
