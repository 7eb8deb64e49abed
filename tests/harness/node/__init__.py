"""A whole Kubernetes on this machine: API server, controllers, scheduler, and a node with containerd and a kubelet.

    python -m tests.harness.node [SCENE …]

Real consumers run in real pods, with kshadow beside them and by its chart; what the kubelet and the controllers do to
them, kshadow is to tell. Owns the isolation (`isolation.py`), the programs (`node.py`), what runs on them
(`workloads.py`) and what happens (`scenes.py`). Needs root, Debian's containerd, runc, containernetworking-plugins,
busybox-static, buildah and debootstrap, and `make tools TOOLS='kubelet kube-controller-manager kube-scheduler'`.
"""
