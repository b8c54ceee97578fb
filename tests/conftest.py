"""Fixtures of all tests: real servers, shared within a test process and empty for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from callflow.celery import use_broker
from callflow.lab.embedded_server import EmbeddedServer, keys_without_lifetime
from callflow.redis.client import connect
from tests.cluster import TestCluster, cluster
from tests.parts import Parts
from tests.servers import EACH, KINDS, Servers, binary_of

# For the processes that tests start: most of them need any procedure, and none waits for an index.
os.environ.setdefault("CALLFLOW_RETRIEVAL", "lexical")

# A shared machine has its pauses: how long one example takes says nothing about the code.
settings.register_profile("laptop", deadline=None)
# CI must not fail by chance for a change that did nothing; chance is for laptops and nights.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "laptop")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --server."""
    parser.addoption(
        "--server",
        choices=KINDS,
        default=os.environ.get("CALLFLOW_TEST_SERVER", KINDS[0]),
        help="the server that tests run on, unless they run on each (default: %(default)s)",
    )


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The servers of this test process."""
    shared = Servers()
    yield shared
    shared.stop()


@pytest.fixture(autouse=True)
def no_key_stays_for_ever(request: pytest.FixtureRequest, servers: Servers) -> Iterator[None]:
    """Fail a test that leaves keys without a lifetime on the servers that it used.

    A test that leaves calls open on purpose says so: `@pytest.mark.leaves_live_calls`.
    """
    servers.used.clear()
    yield
    if request.node.get_closest_marker("leaves_live_calls") is None:
        leaks = servers.leaks()
        assert not leaks, f"keys that will stay for ever: {', '.join(leaks)}"


@pytest.fixture(scope="module")
def server_url(request: pytest.FixtureRequest, servers: Servers) -> str:
    """Where the shared server answers, for what a whole module shares."""
    return servers.clean(request.config.getoption("--server")).url


@pytest.fixture
def embedded(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedServer:
    """The shared server, empty. Kill it if you must: it comes back for the next test."""
    return servers.clean(request.config.getoption("--server"))


@pytest.fixture
def redis_url(embedded: EmbeddedServer) -> str:
    """Where the shared server answers; it is empty."""
    return embedded.url


@pytest.fixture
def parts(redis_url: str) -> Iterator[Parts]:
    """One process's worth of callflow on the shared server, and its calls ended afterwards."""
    use_broker(redis_url)
    with connect(redis_url) as client:
        built = Parts(client)
        yield built
        built.close()


@pytest.fixture(params=EACH)
def each_server(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedServer:
    """Runs the test once on each kind of server; each is empty."""
    return servers.clean(request.param)


@pytest.fixture
def own_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    """A server that no other test uses, for those that reconfigure, freeze or cut it off."""
    with EmbeddedServer.start(binary=binary_of(request.config.getoption("--server"))) as server:
        yield server


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
