"""This machine: what is installed, where the agent writes, where it listens. Nothing here needs a cluster."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka

import agent
from agent.common.packages import package_directory
from agent.serving.web.listener import bound_socket
from agent.tools.doctor.checks import Check, DoctorRequest, Trial

OURS = ("agent", "analyzers", "spark_jobs")
"""Top-level packages: generic names, which others may have, too."""
DISTRIBUTION = "kshadow"
LEAST_LIBRDKAFKA = (2, 13)
LEAST_FREE = 1 << 30
LEAST_FILES = 1024

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)[^;]*(?:;(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


def check_machine(request: DoctorRequest) -> Iterator[Check]:
    """Every check of this machine, as soon as it is made."""
    yield _versions(Trial("versions", "here", "looked at versions"))
    yield _packages(Trial("packages", "here", f"looked where the packages {', '.join(OURS)} come from"))
    yield _extras(Trial("extras", "here", "looked for what the optional parts need"))
    yield _files(Trial("open files", "here", "asked for the limit of open files"))
    for purpose, directory in request.directories.items():
        yield _directory(Trial(f"{purpose} directory", str(directory), "wrote a file and took it away"), directory)
    if request.listen is not None:
        host, port = request.listen
        yield _port(Trial("port", f"{host}:{port}", "listened there and stopped again"), host, port)


def _versions(trial: Trial) -> Check:
    text, _ = confluent_kafka.libversion()
    found = f"kshadow {agent.__version__}, Python {platform.python_version()}, librdkafka {text}"
    if tuple(int(part) for part in re.findall(r"\d+", text)[:2]) < LEAST_LIBRDKAFKA:
        needed = ".".join(map(str, LEAST_LIBRDKAFKA))
        return trial.failed(f"{found}, and {needed} or newer is needed", f"pip install 'confluent-kafka>={needed}'")
    return trial.ok(found)


def _packages(trial: Trial) -> Check:
    """Whether each of our packages is ours: another distribution may install one of the same name."""
    root = Path(agent.__file__).parents[1]
    others = [
        f"{name} is also in {owner}"
        for name, owners in importlib.metadata.packages_distributions().items()
        for owner in owners
        if name in OURS and owner != DISTRIBUTION
    ]
    for name in OURS:
        place = package_directory(name)
        if place is None or place.resolve() != root.resolve() / name:
            others.append(f"{name} is not kshadow's but from {place.resolve() if place else 'nowhere'}")
    if others:
        fix = "pipx install . in kshadow's sources: alone, in an environment of its own"
        return trial.failed("; ".join(sorted(set(others))), fix)
    return trial.ok(f"all from {root}")


def _extras(trial: Trial) -> Check:
    """Which optional parts are installed."""
    try:
        requires = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return trial.skipped("kshadow runs from its sources and is not installed")
    missing: dict[str, list[str]] = {}
    broken: list[str] = []
    for line in requires:
        match = _REQUIREMENT.match(line)
        assert match is not None, "a requirement begins with a name"
        extra = _EXTRA.search(match[2] or "")
        lacking = missing.setdefault(extra[1], []) if extra else broken
        if match[1] != DISTRIBUTION and not _is_installed(match[1]):
            lacking.append(match[1])
    if broken:
        return trial.failed(f"not installed: {', '.join(broken)}", f"pip install {' '.join(broken)}")
    missing.pop("dev", None)
    parts = [f"{extra}: " + (f"needs {', '.join(it)}" if it else "installed") for extra, it in missing.items()]
    return trial.ok("; ".join(parts) or "there are none")


def _is_installed(name: str) -> bool:
    return next(iter(importlib.metadata.distributions(name=name)), None) is not None


def _files(trial: Trial) -> Check:
    """Connections to brokers and from scrapers are open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST_FILES:
        return trial.warning(
            f"{soft}: few for a cluster of many brokers, each of which takes two or three",
            f"ulimit -n {LEAST_FILES} (the most is {hard}), or LimitNOFILE={LEAST_FILES} in the systemd unit",
        )
    return trial.ok(f"{soft}")


def _directory(trial: Trial, directory: Path) -> Check:
    there = directory
    try:
        there = next((it for it in (directory, *directory.absolute().parents) if it.exists()), directory)
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"kshadow")
        free = shutil.disk_usage(there).free
    except OSError as error:
        return trial.failed(f"{there}: {error.strerror}", f"mkdir -p {directory} && chown {_user()} {directory}")
    found = f"{free / (1 << 30):.1f} GiB free" + ("" if there == directory else f"; it will be made in {there}")
    return trial.ok(found) if free >= LEAST_FREE else trial.warning(found, "make room, or name another directory")


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an id without a name, as in many a container
        return "USER"


def _port(trial: Trial, host: str, port: int) -> Check:
    try:
        bound_socket(host, port).close()
    except OSError as error:
        fix = f"--listen with another port, or end who has it: ss -ltnp 'sport = :{port}'"
        return trial.failed(f"{error.strerror or error}; perhaps the agent itself runs already", fix)
    return trial.ok("free")
