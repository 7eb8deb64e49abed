"""The image, built by an engine and run as a cluster runs it.

    python -m tests.harness.image [--keep DIR] [--extras '[otlp]'] [--base TAR]

Owns a base image from Debian's packages (`base.py`), the build by buildah (`buildah.py`), a container by runc
(`container.py`) and what is looked at (`checks.py`). Needs root, Debian's buildah, debootstrap and runc; no registry
of images.
"""
