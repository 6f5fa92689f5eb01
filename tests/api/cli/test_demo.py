from __future__ import annotations

import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import mdtensor
from mdtensor.api.cli.demo import (
    Digits,
    Network,
    accuracy,
    expression_of,
    load_digits,
    record_epoch,
    run,
    sparkline,
    train,
)
from mdtensor.api.cli.main import app
from tests.api.short_searches import search_trials


@pytest.fixture(scope="module")
def digits() -> Digits:
    return load_digits()


def test_all_images_are_used_once(digits: Digits) -> None:
    assert len(digits.images) + len(digits.test_images) == 1797
    together = np.concatenate([digits.images, digits.test_images])
    assert len(np.unique(together, axis=0)) == 1797
    assert (together.min(), together.max(), together.dtype) == (0, 1, np.float32)


def test_gradients_are_those_of_the_loss(digits: Digits) -> None:
    network = Network((64, 16, 12, 10))
    images, wanted = digits.images[:32], np.eye(10, dtype=np.float32)[digits.labels[:32]]
    _, gradients = network.loss_and_gradients(images, wanted)
    step = 1e-2
    rng = np.random.default_rng(1)
    for parameter, gradient in zip(network.parameters, gradients, strict=True):
        assert gradient.shape == parameter.shape
        direction = rng.normal(size=parameter.shape).astype(np.float32)
        direction /= np.float32(np.linalg.norm(direction))
        kept = parameter.copy()
        losses: list[float] = []
        for sign in (1, -1):
            parameter[...] = kept + np.float32(sign * step) * direction
            losses.append(network.loss_and_gradients(images, wanted)[0])
        parameter[...] = kept
        slope = (losses[0] - losses[1]) / (2 * step)
        assert slope == pytest.approx(np.sum(gradient * direction), rel=0.02, abs=1e-4)


def test_the_network_learns_to_read(digits: Digits) -> None:
    network = Network((64, 256, 10))
    mdtensor.stats(reset=True)
    losses = list(train(network, digits, epochs=30))
    assert accuracy(network, digits) >= 0.97
    assert losses[-1] < losses[0] / 10
    stats = mdtensor.stats()
    assert stats.share == 1
    # 11 batches an epoch, 9 contractions a batch, and the two of the test.
    assert stats.generated == {"float": 30 * 11 * 9 + 2}


def test_an_epoch_is_recorded_once_per_shape(digits: Digits) -> None:
    labels = [str(expression_of(each.md_hom)) for each in record_epoch(digits, (64, 256, 10))]
    assert labels == [
        "bi,ij->bj 128,64 64,256",
        "bi,ij->bj 128,256 256,10",
        "bk->b 128,10",
        "bk,bk-> 128,10 128,10",
        "bi,bj->ij 128,256 128,10",
        "bj->j 128,10",
        "bj,ij->bi 128,10 256,10",
        "bi,bj->ij 128,64 128,256",
        "bj->j 128,256",
        "bi,ij->bj 360,64 64,256",
        "bi,ij->bj 360,256 256,10",
    ]


@pytest.mark.parametrize(
    ("values", "line"),
    [([3.0, 2.0, 1.0, 0.5], "█▅▂▁"), ([1.0], "▁"), ([2.0, 2.0], "▁▁")],
)
def test_sparkline(values: list[float], line: str) -> None:
    assert sparkline(values) == line


def test_a_missing_scikit_learn_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1
    assert result.stderr == (
        "error: the demo reads its images from scikit-learn, which is not installed\n"
        "  hint: pip install 'mdtensor[demo]'\n"
    )


@pytest.mark.campaign
def test_the_second_run_tunes_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    search_trials(monkeypatch, 1)
    run(budget_s=33, epochs=2, rounds=1)
    first = capsys.readouterr().out
    run(budget_s=33, epochs=2, rounds=1)
    second = capsys.readouterr().out
    assert "everything came from the cache: 11 computations, 0 trials\n" in second
    for shown in (first, second):
        assert "accuracy on held-out images: " in shown
        assert "(100% of all contractions by generated kernels)" in shown
        assert shown.count("bi,ij->bj") == 4
