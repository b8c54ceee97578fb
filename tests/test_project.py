"""The project as a whole: its style, its layers, what it ships, and what it must not mention."""

from __future__ import annotations

import ast
import importlib.metadata
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.needs import missing

ROOT = Path(__file__).parents[1]
MOST_LINES_IN_A_FUNCTION = 60

# In halves, so that this file does not mention what no file may mention.
NEVER_MENTIONED = (
    "pypi" + ".org",
    "python" + "hosted",
    "deb." + "debian",
    "registry." + "npmjs",
    "--index" + "-url",
    "../" + "shared",
    "bash" + "_jobs",
    "/work" + "/main",
    "/work" + "/shared",
)
# A path of the machine that this was written on.
NEVER_MATCHED = re.compile(r"(?<![\w.\-])/(?:" + "work" + "|" + "farm" + r")/")


def run(*args: str | Path) -> None:
    """Run a tool on the project, and fail with all that it said."""
    done = subprocess.run(args, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def python_files() -> list[Path]:
    return sorted((ROOT / "callflow").rglob("*.py"))


def tracked_text() -> Iterator[tuple[Path, str]]:
    """Every text file in git, and those about to be, with its content."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        missing("the git repository", "run this in a clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in sorted(set(listed.stdout.split("\0")) - {""}):
        path = ROOT / name
        if path.is_file():
            raw = path.read_bytes()
            if b"\0" not in raw:
                yield path, raw.decode(errors="replace")


def project() -> dict[str, str]:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert isinstance(table, dict)
    return table


def test_imports_go_in_the_directions_of_the_contracts() -> None:
    run(sys.executable, "-c", "from importlinter.cli import lint_imports_command as l; l()")


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("callflow", exclude_type_checking_imports=True)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    # A package's __init__ that imports its own modules, and they its constants, is one idea.
    TopologicalSorter(imports).prepare()


def test_no_file_name_stands_twice() -> None:
    files = defaultdict(list)
    for path in python_files():
        if path.name not in ("__init__.py", "__main__.py"):
            files[path.name].append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in files.items() if len(paths) > 1}


def test_no_class_name_stands_twice() -> None:
    classes = defaultdict(list)
    for path in python_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in classes.items() if len(paths) > 1}


def test_no_function_is_longer_than_a_screen() -> None:
    long: dict[str, int] = {}
    for path in python_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MOST_LINES_IN_A_FUNCTION:
                    long[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = lines
    assert not long


@pytest.mark.stack
@pytest.mark.timeout(180)
def test_the_wheel_holds_all_that_the_package_reads(tmp_path: Path) -> None:
    run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
        *("--disable-pip-version-check", "--wheel-dir", tmp_path, "."),
    )
    (wheel,) = tmp_path.glob("callflow-*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    needed = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "callflow").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert packed >= {*needed, "celeryconfig.py"}
    # The kinds of data that are read at run time; a typo in this test would not find them.
    for kind in (".lua", ".sh", ".md", "py.typed"):
        assert any(name.endswith(kind) for name in packed), kind
    stray = {name for name in packed if name.startswith(("tests/", "benchmarks/"))}
    assert not stray


def test_the_version_is_the_same_everywhere() -> None:
    import callflow

    version = project()["version"]
    assert getattr(callflow, "__version__", version) == version
    try:
        assert importlib.metadata.version("callflow") == version
    except importlib.metadata.PackageNotFoundError:
        missing("the installed package", "make setup")


def test_constraints_pin_every_requirement() -> None:
    pinned = {
        re.sub(r"[-_.]+", "-", line.split("==")[0]).lower()
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = itertools.chain(table["dependencies"], *table["optional-dependencies"].values())
    names = {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", one)[0]).lower() for one in required}
    assert names - {"callflow"} <= pinned


def test_compose_accepts_the_compose_file(tmp_path: Path) -> None:
    compose = shutil.which("docker-compose")
    if compose is None:
        missing("docker-compose", "apt-get install docker-compose")
    # A .env of the developer's own is not what is tested here.
    no_env = tmp_path / "empty.env"
    no_env.touch()
    settings = {
        "CALLFLOW_REDIS_PASSWORD": "secret",
        "CALLFLOW_RECORDS_PASSWORD": "secret",
        "FLOWER_BASIC_AUTH": "operator:secret",
        "CALLFLOW_PUBLIC_URL": "https://voice.example.org",
        "CALLFLOW_TWILIO_AUTH_TOKEN": "secret",
    }
    command = [compose, "--env-file", str(no_env), "--file", "compose.yaml", "config", "--quiet"]
    for left_out in (None, *settings):
        env = {name: value for name, value in settings.items() if name != left_out}
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) == (left_out is None), f"{left_out}: {done.stderr}"


def test_compose_opens_ports_to_this_machine_alone() -> None:
    import yaml

    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_example_settings_are_those_that_compose_asks_for() -> None:
    asked = set(re.findall(r"\$\{(\w+):\?", (ROOT / "compose.yaml").read_text(encoding="utf-8")))
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"^(\w+)=", example, re.MULTILINE)) == asked


def test_nothing_of_the_machine_it_was_written_on_is_mentioned() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path, text in tracked_text()
        for number, line in enumerate(text.splitlines(), 1)
        if any(word in line for word in NEVER_MENTIONED) or NEVER_MATCHED.search(line)
    ]
    assert not found


def test_scripts_are_executable() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
