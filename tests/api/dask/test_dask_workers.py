"""Calls on workers of dask.distributed, of which one is killed amid them."""

import os
import signal
import threading
import time
import unittest.mock
from collections.abc import Iterator

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import mdtensor as mdt

pytestmark = [
    pytest.mark.campaign,
    # A worker that is killed leaves its connections open.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:distributed"),
]


@pytest.fixture
def client() -> Iterator[Client]:
    with (
        # Processes are begun with one thread each, which the environment keeps.
        unittest.mock.patch.dict(os.environ),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _slowly(block: np.ndarray) -> np.ndarray:
    time.sleep(0.02)
    return block


def test_a_killed_worker_changes_nothing(client: Client) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((240, 200)), rng.random((200, 160))
    a = da.from_array(x, chunks=(40, 40)).map_blocks(_slowly)
    b = da.from_array(y, chunks=(40, 40)).map_blocks(_slowly)

    @mdt.stencil(border="nearest")
    def blur(u):
        return u[-1, 0] + u[1, 0] + u[0, 0]

    product = mdt.einsum("ij,jk->ik", a, b)
    calls = [
        blur(product),
        mdt.scan("ij->ij", product, combine={"j": "add"}),
        mdt.reduce("ij->i", product, combine=lambda left, right: left + right),
    ]
    alone = [call.compute(scheduler="sync") for call in calls]

    pids = list(client.run(os.getpid).values())
    killer = threading.Timer(0.4, os.kill, (pids[0], signal.SIGKILL))
    killer.start()
    computed = client.gather(client.compute(calls))
    killer.join()
    client.wait_for_workers(2, timeout=60)
    assert pids[0] not in client.run(os.getpid).values()

    for result, same in zip(computed, alone, strict=True):
        np.testing.assert_array_equal(result, same)
    exact = x @ y
    padded = np.pad(exact, ((1, 1), (0, 0)), "edge")
    np.testing.assert_allclose(computed[0], padded[:-2] + padded[1:-1] + padded[2:])
    np.testing.assert_allclose(computed[1], exact.cumsum(1))
    np.testing.assert_allclose(computed[2], exact.sum(1))
