"""The web processes of a demo: two, so that one may be killed while the other answers."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from importlib import resources

from callflow.lab.stack import LocalStack, free_port

PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Line:
    """The account, the secrets and the ports of one demo's telephone."""

    public_url: str
    account_sid: str
    auth_token: str
    api_port: int
    ports: dict[str, int]

    @classmethod
    def of_its_own(cls) -> Line:
        """One that nobody else has."""
        return cls(
            "https://demo.callflow.example",
            f"AC{secrets.token_hex(16)}",
            secrets.token_hex(16),
            free_port(),
            {f"web{number}": free_port() for number in range(1, PROCESSES + 1)},
        )

    @property
    def env(self) -> dict[str, str]:
        """The settings of every process."""
        return {
            "CALLFLOW_PUBLIC_URL": self.public_url,
            "CALLFLOW_TWILIO_ACCOUNT_SID": self.account_sid,
            "CALLFLOW_TWILIO_AUTH_TOKEN": self.auth_token,
            "CALLFLOW_TWILIO_API_URL": f"http://127.0.0.1:{self.api_port}",
            "CALLFLOW_SITES": str(resources.files("callflow.lab.demo") / "sites.yaml"),
        }


@dataclass(frozen=True, slots=True)
class WebProcesses:
    """The processes by name, and where each listens."""

    stack: LocalStack
    ports: dict[str, int]

    @property
    def addresses(self) -> list[str]:
        """Where the carrier's load balancer finds them."""
        return [f"http://127.0.0.1:{port}" for port in self.ports.values()]

    async def answering(self) -> list[str]:
        """The names of those that take connections now."""
        return [name for name, port in self.ports.items() if await _listens(port)]

    async def all_answer(self) -> bool:
        """True when every one does."""
        return len(await self.answering()) == len(self.ports)

    def replace(self, name: str) -> None:
        """Pull the plug of one, and start another in its place."""
        self.stack.processes[name].kill()
        self.stack.start_web(self.ports[name], name)


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
