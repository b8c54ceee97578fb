"""A Redis Cluster as its clients see it: how it is named, who holds which slot, whose a command is.

Nothing here asks a server for anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from redis.connection import parse_url
from redis.crc import key_slot
from redis.exceptions import AskError, AuthenticationError
from redis.exceptions import ConnectionError as RedisConnectionError

from callflow.redis.link import CONNECTIONS, LOST, not_now, read_only

SCHEMES = {"redis+cluster": "redis", "rediss+cluster": "rediss"}
"""How a cluster is named in CALLFLOW_REDIS_URL, and what its nodes are spoken to by.

By its name and not by asking: whether the broker may live there has to be known before anything is
connected, and which client is wanted even while every node is down.
"""

SLOTS = 16_384
"""In https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/."""

DEFAULT_PORT = 6379

KEYLESS = frozenset({"CONFIG", "INFO", "PING", "PUBSUB", "SCRIPT", "TIME", "WAIT"})
"""Commands without a key, as far as callflow gives them; all others have one."""


class Address(NamedTuple):
    """Where one node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def is_cluster(url: str) -> bool:
    """True for the address of a cluster."""
    return url.partition("://")[0] in SCHEMES


def parse(url: str) -> tuple[dict[str, Any], tuple[Address, ...]]:
    """How to connect to every node, as redis-py takes it, and the nodes that are named.

    One name is enough (ElastiCache's configuration endpoint); several, with commas between them,
    let a process start while one of them is down. User, password and `?ssl_ca_certs=…` are as for
    one server. Raises ValueError for what is no address of a cluster.
    """
    parts = urlsplit(url)
    userinfo, at, hosts = parts.netloc.rpartition("@")
    # A cluster has the database 0 alone.
    if parts.scheme not in SCHEMES or parts.path not in ("", "/", "/0"):
        raise ValueError("no address of a cluster")
    scheme = SCHEMES[parts.scheme]
    named = [SplitResult("", host, "", "", "") for host in hosts.split(",")]
    if not all(one.hostname for one in named):
        raise ValueError("a cluster without a host")
    seeds = tuple(Address(one.hostname or "", one.port or DEFAULT_PORT) for one in named)
    query = f"?{parts.query}" if parts.query else ""
    node = f"{scheme}://{userinfo}{at}node{query}"
    options: dict[str, Any] = {**parse_url(node)}  # type: ignore[no-untyped-call]
    del options["host"]
    options.pop("connection_class", None)
    return options, seeds


def connection_class(url: str) -> type[Any]:
    """What speaks to a node of the cluster at `url`: with TLS, or without."""
    return CONNECTIONS[SCHEMES[url.partition("://")[0]]]


@dataclass(frozen=True, slots=True)
class SlotMap:
    """Who held which slot when a node was asked. `nodes`: masters and replicas, to ask again."""

    masters: tuple[Address, ...]
    nodes: tuple[Address, ...]
    owners: tuple[Address | None, ...]
    """of each slot; None where nobody holds it"""

    @classmethod
    def of(cls, answer: Sequence[Sequence[Any]], asked: Address) -> SlotMap:
        """From the answer to CLUSTER SLOTS of the node `asked`.

        A node that does not know its own name leaves it out: then it is where it was asked.
        """
        owners: list[Address | None] = [None] * SLOTS
        nodes: dict[Address, None] = {}
        masters: dict[Address, None] = {}
        for first, last, *listed in answer:
            found = [Address(str(host or asked.host), int(port)) for host, port, *_ in listed]
            nodes |= dict.fromkeys(found)
            masters[found[0]] = None
            owners[first : last + 1] = [found[0]] * (last + 1 - first)
        return cls(tuple(sorted(masters)), tuple(nodes), tuple(owners))

    def owner(self, slot: int | None) -> Address:
        """Who holds `slot`; any master for None, and for one that nobody holds: that one says so
        itself, with CLUSTERDOWN."""
        found = None if slot is None else self.owners[slot]
        return found or self.masters[0]


def slot_of(args: Sequence[Any]) -> int | None:
    """The slot of a command's first key; None for a command without one."""
    name = str(args[0]).partition(" ")[0]
    if name in KEYLESS:
        return None
    key = args[3] if name in ("EVAL", "EVALSHA") else args[1]
    return key_slot(str(key).encode())


def redirected(error: AskError, asked: Address) -> Address:
    """Where an answer MOVED or ASK points to."""
    return Address(error.host or asked.host, int(error.port))


SETTLE_S = 1.5
"""For so long a command is tried again while slots move or a master is being replaced; a caller's
turn has four seconds. What takes longer is as if the server were gone, and is told so."""

BRIEFLY_S = 0.3
"""For what is asked about many calls at once, of many nodes: a beat, a sweep, a list. It is asked
again by itself, and the calls of the other nodes cannot wait."""

TRIES = 2
"""A node that answers nothing is waited for twice, whatever time that takes: as one server is."""

PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.1

REDIRECTS_AT_ONCE = 4
"""A command is sent on without a pause so often; then nodes disagree, and need time to agree."""

UNDER_WAY = object()


class Command:
    """One command on its way, and what has become of it.

    One without a key belongs to the one before it, its `leader`, and goes where that goes, on the
    same connection: TIME is then the clock by which that key was stamped, and WAIT is about what
    that has written. What has to be sent again is sent again with all that belongs to it.
    """

    __slots__ = ("args", "asking", "at", "leader", "options", "reply", "slot")

    def __init__(
        self, args: tuple[Any, ...], options: dict[str, Any], before: Command | None
    ) -> None:
        self.args = args
        self.options = options
        self.slot = slot_of(args)
        self.leader: Command = before.leader if self.slot is None and before else self
        self.at: Address | None = None
        """The node that it was sent on to; None: the owner of its slot."""
        self.asking = False
        self.reply: Any = UNDER_WAY

    @property
    def unsettled(self) -> bool:
        """True when the answer may be another one in a moment."""
        return isinstance(self.reply, Exception) and settles(self.reply)


def settles(error: Exception) -> bool:
    """True for what may be over in a moment: a wrong password stays wrong."""
    if isinstance(error, AuthenticationError):
        return False
    return isinstance(error, (AskError, *LOST)) or not_now(error) or read_only(error)


def given_up(reply: Any, settle_s: float = SETTLE_S) -> Any:
    """What is not settled in time is as good as not there."""
    if isinstance(reply, AskError) or (isinstance(reply, Exception) and not_now(reply)):
        return RedisConnectionError(f"it has not settled in {settle_s} s: {reply}")
    return reply
