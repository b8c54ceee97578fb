"""A Redis Cluster for the tests of the store, started where it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from callflow.lab.leaks import keys_without_lifetime
from callflow.redis.client import connect
from tests.cluster import TestCluster, cluster
from tests.parts import Parts


@pytest.fixture(scope="session")
def one_cluster() -> Iterator[TestCluster]:
    """Three masters and their replicas, shared by the tests of one process."""
    with cluster() as built:
        yield built


@pytest.fixture
def shared_cluster(one_cluster: TestCluster) -> TestCluster:
    """The same, with nothing stored. Whoever moves its slots may leave them where they are."""
    one_cluster.flush()
    return one_cluster


@pytest.fixture
def clustered(shared_cluster: TestCluster) -> Iterator[Parts]:
    """One process's worth of callflow on the cluster; its calls are ended afterwards, and no key
    of theirs stays for ever."""
    with connect(shared_cluster.url) as client:
        built = Parts(client)
        yield built
        built.close()
        assert keys_without_lifetime(client) == []
