"""`kshadow sidecar`: a kshadow container for a pod, by itself or put into manifests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from agent import __version__
from agent.cli.options import Decorator, combined, option, output_option, partitioner_option
from agent.cli.output import print_value, warn
from agent.config.options import BROKERS, NameValue

if TYPE_CHECKING:
    from agent.tools.sidecar.container import Sidecar

FIRST_UNPRIVILEGED_PORT = 1024
DATA = 1
"""The exit code where the manifests are not what they should be."""

_sidecar_options: Decorator = combined(
    option("--image", default=f"kshadow:{__version__}", help="The agent's image."),
    option("--cluster", metavar="NAME", help="What you call the cluster."),
    option("--bootstrap-server", type=BROKERS, required=True, help="Kafka brokers to start from, for the pod."),
    option(
        "-X",
        "--property",
        "properties",
        type=NameValue("property", "NAME=VALUE"),
        multiple=True,
        help="A librdkafka property. A secret is ${NAME}, looked up in the pod. Repeatable; separated by blanks in "
        "the variable.",
    ),
    option(
        "--secret-env",
        type=NameValue("variable of the container", "NAME=SECRET/KEY"),
        multiple=True,
        help="A variable of the container, and the Secret and the key in it that it comes from. Repeatable; blanks "
        "part those in the variable.",
    ),
    option(
        "--certificates-secret",
        metavar="SECRET",
        help="A Secret that is mounted at /etc/kshadow/certificates, for ssl.ca.location and the like.",
    ),
    option("--group", "groups", multiple=True, help="A group of the pod's consumer. Repeatable. None: all groups."),
    partitioner_option,
    option(
        "--broker-log",
        metavar="DIR",
        help="Beside a broker: where its log's volume is mounted, for ours as for its own container.",
    ),
    option("--broker-log-volume", metavar="NAME", help="The pod's volume that holds the broker's log."),
    option(
        "--kubernetes/--no-kubernetes",
        default=False,
        help="Watch the pod's namespace, to say why members left and joined. The pod's service account needs rights "
        "for it.",
    ),
    option(
        "--admin/--no-admin",
        default=False,
        help="Observe through the Admin API too: a process more, and some requests a second to each broker.",
    ),
    option("--lag/--no-lag", default=True, help="Tell the lag; needs Describe on the topics."),
    option("--port", type=click.IntRange(1, 65535), default=9308, help="Where it listens."),
    option(
        "--native/--no-native",
        default=True,
        help="A native sidecar: an init container that stays, from Kubernetes 1.29 on. A Job is done without it.",
    ),
    option("--cpu-request", default="10m", metavar="QUANTITY", help="CPU that is asked for."),
    option("--memory-request", default="64Mi", metavar="QUANTITY", help="Memory, likewise."),
    option("--memory-limit", default="128Mi", metavar="QUANTITY", help="What is too much."),
    click.argument("extra", metavar="[-- OPTIONS OF RUN]", nargs=-1, type=click.UNPROCESSED),
)


@click.group()
def sidecar() -> None:
    """Make the container for a pod, or patch a manifest with it.

    Beside a consumer it reads the one partition of the topic that holds the pod's group.

    \b
    Examples:
      kshadow sidecar render --bootstrap-server kafka:9092 --group payments
      kshadow sidecar inject pod.yaml --bootstrap-server kafka:9092 --group payments
    """


@sidecar.command()
@_sidecar_options
@output_option("yaml")
@click.pass_context
def render(ctx: click.Context, /, output: str, **given: Any) -> None:
    """Print the container: an item of a pod's initContainers, or with --no-native of its containers.

    \b
    Examples:
      kshadow sidecar render --bootstrap-server kafka:9092 --group payments
      kshadow sidecar render --bootstrap-server kafka:9092 --group payments --no-native -- --granularity=partition
    """
    from agent.tools.sidecar.container import container, volumes

    with _checked():
        it = _sidecar(ctx, given)
        made = container(it)
    print_value(made, output)
    for volume in volumes(it):
        secret = volume.get("secret", {}).get("secretName")
        of = f"of the Secret {secret!r}" if secret else f"as `kshadow sidecar inject` adds it: {volume['projected']}"
        warn(f"The pod needs a volume {volume['name']!r} {of}.")


@sidecar.command()
@click.argument("file", type=click.File("rb"))
@_sidecar_options
@option("--kind", "kinds", multiple=True, help="Only objects of this kind. Repeatable.")
@option("--name", "names", multiple=True, help="Only objects of this name. Repeatable.")
@option("--annotate", is_flag=True, help="Also set the annotations prometheus.io/scrape, port and path.")
@click.pass_context
def inject(
    ctx: click.Context,
    /,
    file: BinaryIO,
    kinds: tuple[str, ...],
    names: tuple[str, ...],
    annotate: bool,
    **given: Any,
) -> None:
    """Put the container into each pod template of the manifests in FILE (-: standard input), and print them all.

    Everything else stays as it is written. A kshadow container that is there already is replaced. Exit code 1: the
    manifests are not what they should be; then nothing is printed.

    \b
    Examples:
      kshadow sidecar inject deploy.yaml --bootstrap-server kafka:9092 --group payments --kind Deployment
      kshadow sidecar inject - --bootstrap-server kafka:9092 --group payments -X security.protocol=SASL_SSL
    """
    from agent.tools.sidecar.manifests import ManifestError
    from agent.tools.sidecar.patching import inject as injected

    with _checked():
        it = _sidecar(ctx, given)
        try:
            made = injected(_text(file), it, kinds=kinds, names=names, annotates=annotate)
        except ManifestError as error:
            name = "standard input" if file is sys.stdin.buffer else file.name
            warn(f"Error: {name}: {error}")
            raise click.exceptions.Exit(DATA) from None
    # Not through the text layer: the manifests go out as they came.
    sys.stdout.flush()
    sys.stdout.buffer.write(made.text.encode())
    sys.stdout.buffer.flush()
    for of in made.patched:
        warn(f"patched {of}")
    for text in made.warnings:
        warn(f"Warning: {text}")


def _text(file: BinaryIO) -> str:
    from agent.tools.sidecar.manifests import ManifestError

    try:
        content = file.read()
    except OSError as error:
        raise ManifestError(f"expected a readable file: {error.strerror}") from None
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ManifestError(f"line {line}: expected text in UTF-8") from None


def _sidecar(ctx: click.Context, given: dict[str, Any]) -> Sidecar:
    from agent.tools.sidecar.container import Resources, Sidecar, check, parse_secret_key

    _check_extra(ctx, given["extra"])
    quantities = {name: given.pop(name) for name in Resources.__struct_fields__}
    given["secret_env"] = {name: parse_secret_key(text) for name, text in given["secret_env"]}
    it = Sidecar(**given, resources=Resources(**quantities))
    check(it)
    if it.port < FIRST_UNPRIVILEGED_PORT:
        warn(
            f"Warning: --port {it.port}: below {FIRST_UNPRIVILEGED_PORT} only root may listen with CRI-O, containerd "
            "before 2.0 and a host's network, and the container is not root: there it would end again and again"
        )
    return it


def _check_extra(ctx: click.Context, extra: tuple[str, ...]) -> None:
    """They must be options of run; values are not looked at, since `$(X)` in them is Kubernetes' to fill in."""
    from agent.cli.run_options import declared

    about = click.Context(declared, info_name="kshadow run", parent=ctx)
    given, rest, _ = declared.make_parser(about).parse_args(list(extra))
    if rest:
        raise click.UsageError(f"expected only options of kshadow run after --, got {rest[0]!r}")
    if "properties" in given:
        raise click.UsageError("-X goes before --, where it is seen whether it is a secret")


@contextmanager
def _checked() -> Iterator[None]:
    from agent.tools.sidecar.container import SidecarError

    try:
        yield
    except SidecarError as error:
        raise click.UsageError(str(error)) from None
