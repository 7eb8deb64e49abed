"""The tools, and the versions that tests are held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

KUBERNETES = "1.36.3"


@dataclass(frozen=True, slots=True)
class Tool:
    """One program, built from a Go module.

    Attributes:
        name: Of the program, and of its file.
        module: The Go module that holds it.
        version: The module's.
        package: Within the module; the module itself where empty.
        shown: What the project calls that version, where the module calls it otherwise.
        tags: Go's build tags.
        replace: Modules to take in place of others, as `go mod edit -replace` takes them: a module that is used by
            another does not bring its own replacements along.
        stamp: Variables to set at link time, by package path.
        staged: The module's own replacements by neighbouring directories are to be taken from modules of their own
            (Kubernetes' staging repositories).
        program: A source file beside this one that is the program: it puts the module's packages together, as this
            project's builders do.
        requires: Modules that it needs beside, each with its version.
        only_by_name: Not built with the others: what needs it can go without, and it takes minutes.
        lacks: Files that the module embeds but does not bring, since its releases make them first: path and content.
    """

    name: str
    module: str
    version: str
    package: str = ""
    shown: str = ""
    tags: str = ""
    replace: tuple[str, ...] = ()
    stamp: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    staged: bool = False
    lacks: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    program: str = ""
    requires: tuple[str, ...] = ()
    only_by_name: bool = False

    @property
    def path(self) -> str:
        """The Go package to build."""
        return f"{self.module}/{self.package}" if self.package else self.module

    @property
    def label(self) -> str:
        """The version as people know it, without a leading v."""
        return (self.shown or self.version).removeprefix("v")


_PROMETHEUS = ("github.com/prometheus/prometheus", "v0.315.0")
_ALERTMANAGER = ("github.com/prometheus/alertmanager", "v0.34.2")
_JSONNET = ("github.com/google/go-jsonnet", "v0.22.0")
_NO_PAGES = {"ui/app/dist/index.html": "<!doctype html><title>Alertmanager</title><p>Built without its pages."}
_VERSION = "github.com/prometheus/common/version.Version"


def _of_kubernetes(name: str, only_by_name: bool = False) -> Tool:
    return Tool(
        name,
        "k8s.io/kubernetes",
        f"v{KUBERNETES}",
        f"cmd/{name}",
        stamp={"k8s.io/component-base/version.gitVersion": f"v{KUBERNETES}"},
        staged=True,
        only_by_name=only_by_name,
    )


# Those that take seconds first: what is missing at the end of a build that was cut short is the least.
TOOLS: Mapping[str, Tool] = MappingProxyType(
    {
        tool.name: tool
        for tool in (
            Tool("jsonnet", *_JSONNET, "cmd/jsonnet"),
            Tool("jsonnetfmt", *_JSONNET, "cmd/jsonnetfmt"),
            Tool("kubeconform", "github.com/yannh/kubeconform", "v0.8.0", "cmd/kubeconform"),
            Tool("helm", "helm.sh/helm/v4", "v4.3.1", "cmd/helm"),
            Tool("helm3", "helm.sh/helm/v3", "v3.22.0", "cmd/helm"),
            Tool(
                "helm-unittest",
                "github.com/helm-unittest/helm-unittest",
                "v1.1.2",
                "cmd/helm-unittest",
                replace=(
                    "github.com/vmware-labs/yaml-jsonpath@v0.3.2=github.com/helm-unittest/yaml-jsonpath@v0.4.0",
                ),
            ),
            Tool(
                "promtool",
                *_PROMETHEUS,
                "cmd/promtool",
                shown="3.15.0",
                tags="remove_all_sd",
                stamp={_VERSION: "3.15.0"},
            ),
            Tool(
                "prometheus",
                *_PROMETHEUS,
                "cmd/prometheus",
                shown="3.15.0",
                tags="remove_all_sd",
                stamp={_VERSION: "3.15.0"},
            ),
            Tool("amtool", *_ALERTMANAGER, "cmd/amtool", stamp={_VERSION: "0.34.2"}),
            Tool(
                "alertmanager",
                *_ALERTMANAGER,
                "cmd/alertmanager",
                stamp={_VERSION: "0.34.2"},
                lacks=_NO_PAGES,
            ),
            Tool("etcd", "go.etcd.io/etcd/server/v3", "v3.7.3"),
            _of_kubernetes("kube-apiserver"),
            # A node, and the controllers that give it work.
            _of_kubernetes("kube-scheduler", only_by_name=True),
            _of_kubernetes("kube-controller-manager", only_by_name=True),
            _of_kubernetes("kubelet", only_by_name=True),
            Tool(
                "otelcol",
                "go.opentelemetry.io/collector/otelcol",
                "v0.165.0",
                program="otelcol.go",
                requires=(
                    "github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter@v0.165.0",
                    "go.opentelemetry.io/collector/receiver/otlpreceiver@v0.165.0",
                    "go.opentelemetry.io/collector/confmap/provider/fileprovider@v1.71.0",
                ),
                only_by_name=True,
            ),
        )
    }
)
