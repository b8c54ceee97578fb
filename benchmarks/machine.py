"""What the numbers were measured on: without it they mean nothing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

import redis

from callflow.lab.embedded_server import EmbeddedServer


def describe() -> dict[str, str | float]:
    """Load before the start, cores, CPU model, Python, server, and the libraries that matter."""
    with EmbeddedServer.start() as server, redis.Redis.from_url(server.url) as client:
        info = client.info("server")
    name = str(info.get("server_name", "redis"))
    return {
        "load": round(os.getloadavg()[0], 1),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _cores(),
        "cpu": _cpu_model(),
        "python": platform.python_version(),
        "server": f"{name} {info.get(f'{name}_version', info['redis_version'])}",
        **{name: _version(name) for name in ("celery", "kombu", "redis", "hiredis")},
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _cores() -> int:
    return os.cpu_count() or 1


def _cpu_model() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
