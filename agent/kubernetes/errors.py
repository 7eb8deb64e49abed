"""What keeps Kubernetes from being asked at all. What goes wrong later is health (`health.py`), no exception."""

from __future__ import annotations


class KubernetesMisconfigured(Exception):
    """A setting, a kubeconfig or an installation that cannot work (exit code 2)."""
