"""The image's bill of materials: it is CycloneDX, and lists what is there, no more and no less."""

from __future__ import annotations

import json
from collections.abc import Mapping

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.generate.constraints_hashes import normalized

PATH = "/opt/kshadow/share/doc/kshadow/sbom.cdx.json"


def check_bill(text: str, packages: Mapping[str, str]) -> None:
    """Hold it to the version of each package that is there, by its name. Raises `AssertionError`."""
    form = json.loads(text)
    wrong = JsonStrictValidator(SchemaVersion.from_version(form["specVersion"])).validate_str(text)
    assert wrong is None, wrong
    components = form["components"]
    listed = {normalized(it["name"]): it["version"] for it in components}
    assert len(listed) == len(components)
    assert listed == {normalized(name): version for name, version in packages.items()}
    # Ours comes from no index.
    assert {it["name"] for it in components if "purl" not in it} == {"kshadow"}
