"""Streams of other libraries as CuPy's."""

from __future__ import annotations

from types import SimpleNamespace

from mdtensor.backends.cuda.cuda_stream import stream_at


def test_streams_are_passed_by_their_protocol() -> None:
    made = stream_at(
        SimpleNamespace(cuda=SimpleNamespace(Stream=SimpleNamespace(from_external=lambda s: s))), 7
    )
    assert made.__cuda_stream__() == (0, 7)
    old = SimpleNamespace(cuda=SimpleNamespace(Stream=object, ExternalStream=lambda *given: given))
    assert stream_at(old, 7) == (7,)
