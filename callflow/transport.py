"""The line to the broker: kombu's own, made to outlive what becomes of a Redis server.

kombu and Celery come back by themselves after a restart. They do not after a failover in which the
old primary stays up: what a demoted server answers counts as the answer to a mistake of ours, so a
worker ends itself, or goes on asking a server that may not write (celery/celery#10096, #7946). And
they come back late: their pause between two tries grows to half a minute.

Nothing of a call depends on any of it; a message that is lost on the way is owed in the record.
"""

from __future__ import annotations

from typing import Any

import kombu.connection
import redis
from celery.app.amqp import AMQP
from kombu.transport import redis as kombu_redis
from kombu.utils.json import dumps

from callflow.errors import CallflowError

RECONNECT = {"interval_start": 0.1, "interval_step": 0.3, "interval_max": 1.0}
"""Pauses between two tries to connect, s. Celery's own are 2, 4, 6 … 30 s, and no setting shortens
them."""

UNBLOCKED = "UNBLOCKED"
"""How a server that becomes a replica answers a command that is waiting in it at that moment. To
those that come later it says READONLY."""


class BrokerDemoted(CallflowError, redis.ConnectionError):
    """The broker that we are connected to has become a replica; whatever is written in the address
    leads to the new primary."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        super().__init__(
            f"the broker is no longer the primary ({answer}): connecting anew; if that goes on, "
            "CALLFLOW_BROKER_URL names a replica instead of the endpoint that follows the primary"
        )


class Client(redis.Redis):
    """Hangs up on a server that has been demoted, so that the next command finds the new one."""

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        """The answer to one command. Raises BrokerDemoted, which counts as a lost connection."""
        try:
            return super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        except redis.ResponseError as error:
            if not isinstance(error, redis.ReadOnlyError) and UNBLOCKED not in str(error):
                raise
            connection.disconnect()
            raise BrokerDemoted(str(error)) from error


class _Steady:
    """What both of kombu's channels lack. Mixed in before them."""

    def _get_client(self) -> Any:
        usual: Any = super()._get_client()  # type: ignore[misc]
        return Client if usual is redis.Redis else usual

    def _restore(self: Any, message: Any, leftmost: bool = False) -> None:
        """Put a message back where it was taken from: at the front. kombu itself puts what a worker
        gives back when it ends behind everybody who came later."""
        info = message.delivery_info
        again = dumps({**message.serializable(), "redelivered": True})  # type: ignore[no-untyped-call]
        with self.conn_or_acquire() as client:
            for queue in self._lookup(info["exchange"], info["routing_key"]):
                client.rpush(self._q_for_pri(queue, 0), again)


class Channel(_Steady, kombu_redis.Channel):
    """To one server, or to the endpoint before several."""


class SentinelChannel(_Steady, kombu_redis.SentinelChannel):
    """To the server that Sentinels name."""


class Transport(kombu_redis.Transport):
    """For redis://, rediss:// and redis+socket://."""

    Channel = Channel


class SentinelTransport(kombu_redis.SentinelTransport):
    """For sentinel://."""

    Channel = SentinelChannel


class Connection(kombu.connection.Connection):
    """Tries again after a second at most: a worker, and beat, that wait for their broker."""

    def ensure_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Connect, however long it takes, unless `max_retries` or `timeout` are given."""
        pauses: Any = {**RECONNECT, **kwargs}
        return super().ensure_connection(*args, **pauses)  # type: ignore[no-untyped-call]


class Amqp(AMQP):  # type: ignore[misc]
    """Gives a Celery app our connections."""

    Connection = Connection
