"""The programs of a cluster of one node, in the isolation's network: `running` starts them and ends them."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agent.tools.embedded import ProcessReaper
from tests.harness.node.isolation import BRIDGE, CGROUP, GATEWAY, POD_NETWORK, SERVICE_ADDRESS
from tests.harness.tools import find
from tests.live.helm.kube.api import Api
from tests.live.helm.kube.server import Programs, Server, child
from tests.live.helm.kube.server import running as api_server

NODE = "n1"
PAUSE = "localhost/pause:1"
TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
DEBIAN = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "busybox": "busybox-static",
    "unshare": "util-linux",
    "ip": "iproute2",
}
CNI = Path("/usr/lib/cni")
_READY_S = 120.0


def missing() -> str | None:
    """Why there can be no node here; None: there can."""
    if lacking := [it for it in TOOLS if find(it) is None]:
        return f"{', '.join(lacking)} not built: make tools TOOLS='{' '.join(lacking)}'"
    packages = {package for program, package in DEBIAN.items() if shutil.which(program) is None}
    if not (CNI / "bridge").exists():
        packages.add("containernetworking-plugins")
    return f"not installed: apt-get install {' '.join(sorted(packages))}" if packages else None


@dataclass(frozen=True, slots=True)
class Cluster:
    """One that runs."""

    server: Server
    directory: Path

    @property
    def api(self) -> Api:
        return self.server.api

    def load_image(self, archive: Path) -> None:
        """Give the node an image, from an archive that names it."""
        ctr(self.directory, "images", "import", str(archive))


@contextmanager
def running(directory: Path, images: list[Path]) -> Iterator[Cluster]:
    """Start all of it below a directory; `images` are archives, PAUSE's among them. Raises `AssertionError`."""
    programs = {it: found for it in TOOLS if (found := find(it)) is not None}
    assert len(programs) == len(TOOLS), missing()
    plane, node = directory / "plane", directory / "node"
    plane.mkdir(parents=True)
    node.mkdir()
    with ExitStack() as stack:
        leash = stack.enter_context(closing(ProcessReaper()))
        two = Programs(programs["etcd"], programs["kube-apiserver"])
        server = stack.enter_context(api_server(two, plane, SERVICE_ADDRESS, 443))
        conf = str(server.kubeconfig)
        controllers = [str(programs["kube-controller-manager"]), f"--kubeconfig={conf}", "--leader-elect=false"]
        controllers += [f"--root-ca-file={plane / 'certs' / 'apiserver.crt'}"]
        controllers += [f"--service-account-private-key-file={plane / 'sa.key'}", "--use-service-account-credentials"]
        controllers += ["--node-monitor-period=1s", "--node-monitor-grace-period=10s", "--secure-port=0"]
        started = [stack.enter_context(child(leash, controllers, directory / "controllers.log"))]
        scheduler = [str(programs["kube-scheduler"]), f"--kubeconfig={conf}", "--leader-elect=false"]
        scheduler += ["--secure-port=0"]
        started.append(stack.enter_context(child(leash, scheduler, directory / "scheduler.log")))
        (node / "containerd.toml").write_text(_containerd(node))
        containerd = ["containerd", "-c", str(node / "containerd.toml")]
        started.append(stack.enter_context(child(leash, containerd, directory / "containerd.log")))
        _await("containerd", lambda: (node / "containerd.sock").exists(), started, directory)
        cluster = Cluster(server, node)
        for archive in images:
            cluster.load_image(archive)
        stack.callback(_end_containers, node)
        (node / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(node)))
        kubelet = [str(programs["kubelet"]), "--config", str(node / "kubelet.yaml"), "--kubeconfig", conf]
        kubelet += ["--root-dir", str(node / "kubelet"), "--hostname-override", NODE, "--node-ip", GATEWAY]
        started.append(stack.enter_context(child(leash, kubelet, directory / "kubelet.log")))
        _await("the node", lambda: _is_ready(server.api), started, directory)
        yield cluster


def ctr(directory: Path, *arguments: str) -> str:
    """containerd's own client."""
    command = ["ctr", "-a", str(directory / "containerd.sock"), "-n", "k8s.io", *arguments]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert told.returncode == 0, f"{' '.join(arguments)}: {told.stdout}{told.stderr}"
    return told.stdout


def _end_containers(directory: Path) -> None:
    """What the kubelet left running as it ended."""
    for name in ctr(directory, "tasks", "ls", "-q").split():
        subprocess.run(
            ["ctr", "-a", str(directory / "containerd.sock"), "-n", "k8s.io", "tasks", "kill", "-s", "9", name],
            capture_output=True,
            check=False,
            timeout=30,
        )


def _await(what: str, is_there: Callable[[], bool], started: list[subprocess.Popen[bytes]], directory: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while not is_there():
        ended = [it.args for it in started if it.poll() is not None]
        if ended or time.monotonic() > deadline:
            logs = {log.name: log.read_text(errors="replace").splitlines()[-4:] for log in directory.glob("*.log")}
            raise AssertionError(f"{what} is not ready; ended: {ended}; {json.dumps(logs, indent=1)}")
        time.sleep(0.2)


def _is_ready(api: Api) -> bool:
    answer = api.http.get(f"/api/v1/nodes/{NODE}")
    conditions = answer.json().get("status", {}).get("conditions", ()) if answer.status_code == 200 else ()
    tainted = answer.json().get("spec", {}).get("taints") if answer.status_code == 200 else True
    return not tainted and any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)


def _containerd(directory: Path) -> str:
    conf = directory / "cni"
    conf.mkdir(exist_ok=True)
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": False,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(directory / "ipam"),
            "ranges": [[{"subnet": POD_NETWORK, "rangeStart": "10.244.1.1", "rangeEnd": "10.244.9.250"}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}
    (conf / "10-pods.conflist").write_text(json.dumps(network))
    return f"""\
version = 2
root = "{directory}/root"
state = "{directory}/state"
[grpc]
  address = "{directory}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI}"
    conf_dir = "{conf}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""


def _kubelet(directory: Path) -> dict[str, Any]:
    (directory / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "failCgroupV1": False,
        # So that a volume over its size is seen within seconds.
        "localStorageCapacityIsolation": True,
        "volumeStatsAggPeriod": "3s",
        "containerRuntimeEndpoint": f"unix://{directory}/containerd.sock",
        "clusterDNS": ["127.0.0.1"],
        "resolvConf": str(directory / "resolv.conf"),
        "registerNode": True,
        "nodeStatusUpdateFrequency": "2s",
        # How full this machine is, is no matter of ours.
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0.1%", "imagefs.available": "0.1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "healthzPort": 0,
        "readOnlyPort": 0,
        "port": 10250,
    }
