"""What is generated is up to date, and what is written at two places is the same."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import click
import pytest
import yaml
from jsonschema import Draft202012Validator

from agent import __version__
from agent.cli.commands.doctor import doctor
from agent.cli.main import cli
from agent.cli.options import long_name
from agent.cli.run_options import RUN_OPTIONS as OPTIONS
from agent.config.options import MinDuration, Size
from tests.generate import chart_readme, chart_schema
from tests.live.helm.chart.rendering import CHART, LIBRARY

_FREE = {
    *("affinity", "podSecurityContext", "securityContext", "resources/requests", "resources/limits", "global"),
    *("kshadow-lib", "serviceMonitor/tlsConfig", "serviceMonitor/basicAuth"),
}
"""What Kubernetes or the Prometheus Operator checks, or Helm itself hands in."""


def _values(chart: Any = CHART) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((chart / "values.yaml").read_text())
    return values


def _defined(template: str, name: str) -> Any:
    """A named template of the library that is plain YAML."""
    text = (LIBRARY / "templates" / template).read_text()
    return yaml.safe_load(text.split(f'{{{{- define "{name}" -}}}}')[1].split("{{- end -}}")[0])


def test_the_schema_has_the_options_of_today() -> None:
    assert chart_schema.FILE.read_text() == chart_schema.text()


def test_doctor_in_the_pod_is_told_what_the_agent_is() -> None:
    """What stands under `run` in the file, it does not see."""
    template = (CHART / "templates/_config.tpl").read_text()
    (listed,) = re.findall(r"\$shared := list (.*?) -\}\}", template)
    own = yaml.safe_load(template.split('{{- define "kshadow.ownOptions" -}}')[1].split("{{- end -}}")[0])
    taken = {long_name(it) for it in doctor.params} & OPTIONS.keys() - own.keys() - {"cluster"}
    assert {*shlex.split(listed)} == taken | {"clusters"}


_DURATIONS = [
    *("0s", "500ms", "999ms", "01000ms", "1s", "9s", "10s", "9999ms", "10000ms", "59s", "60s", "59999ms", "60000ms"),
    *("100s", "0m", "1m", "0h", "007h", "1d", "1w", "1m30s", "never", "", "5", "5 s", "1y", "-5s"),
]
_TEXTS = [*("0-24,30", "7", "1-", "a", "1GiB", "5mb", "1e6", "1KiBs", "GiB"), *_DURATIONS]
_FRACTIONS = ["0.05", "0.09", "0.1", "0.5", "1.0", "2.5", "999.9", "1000.5", "9999.5", "10000.5", "1.5x", ".", "-1.5"]


@pytest.mark.parametrize(
    "name", [n for n, it in OPTIONS.items() if isinstance(it.type, MinDuration | Size) or n == "partitions"]
)
def test_the_schema_takes_what_the_agent_does(name: str) -> None:
    """A pod that refuses its settings is a pod in a crash loop."""
    schema = Draft202012Validator(chart_schema.schema_of(OPTIONS[name]))
    assert [it for it in _TEXTS if schema.is_valid(it)] == [it for it in _TEXTS if _is_taken(name, it)]


@pytest.mark.parametrize("name", [n for n, it in OPTIONS.items() if isinstance(it.type, click.FloatRange)])
def test_the_schema_takes_the_fractions_that_the_agent_does(name: str) -> None:
    """`helm --set` hands them on as text."""
    schema = Draft202012Validator(chart_schema.schema_of(OPTIONS[name]))
    assert [it for it in _FRACTIONS if schema.is_valid(it)] == [it for it in _FRACTIONS if _is_taken(name, it)]


def _is_taken(name: str, text: str) -> bool:
    try:
        OPTIONS[name].type.convert(text, None, None)
    except click.BadParameter:
        return False
    return True


def test_the_readmes_have_the_values_of_today() -> None:
    for chart in (CHART, LIBRARY):
        assert (chart / "README.md").read_text() == chart_readme.text(chart)


def test_every_value_is_described() -> None:
    for chart in (CHART, LIBRARY):
        assert chart_readme.undescribed(chart_readme.described(chart / "values.yaml")) == []


def test_every_value_is_in_the_schema_and_what_is_not_is_refused() -> None:
    for chart in (CHART, LIBRARY):
        whole = json.loads((chart / "values.schema.json").read_text())
        _same_keys(whole, whole, _values(chart), "")


_MAY_BE_NULL = {
    *("topologySpreadConstraints", "resources", "podSecurityContext", "securityContext", "spark/resources"),
    *(f"spark/operator/executor/{it}" for it in ("instances", "cores", "memory", "memoryOverhead")),
    "kshadow-lib",
}
"""What may be taken away: Kubernetes has a default of its own, or it is left out."""


def test_what_a_chart_cannot_be_without_is_required() -> None:
    """Helm drops a value that is null: a probe of 0 s, or no workload at all, were rendered from what was left."""
    whole = json.loads((CHART / "values.schema.json").read_text())

    def check(node: dict[str, Any], values: dict[str, Any], where: str) -> None:
        if "$ref" in node:
            node = whole["definitions"][node["$ref"].rsplit("/", 1)[1]]
        for name, value in values.items():
            place = f"{where}{name}"
            if place in _MAY_BE_NULL or value in (None, "", {}, []):
                continue
            assert name in node["required"], place
            if isinstance(value, dict):
                check(node["properties"][name], value, f"{place}/")

    check(whole, _values(), "")


def _same_keys(whole: dict[str, Any], node: dict[str, Any], values: Any, where: str) -> None:
    if "$ref" in node:
        node = whole["definitions"][node["$ref"].rsplit("/", 1)[1]]
    if node.get("type") != "object" or where in _FREE:
        return
    assert "additionalProperties" in node, where
    if node["additionalProperties"] is not False:
        return
    if where != "config":
        assert set(values or {}) >= set(node["properties"]) - {"claims", "global", "kshadow-lib"}, where
    assert set(values or {}) <= set(node["properties"]), where
    for key, value in (values or {}).items():
        _same_keys(whole, node["properties"][key], value, f"{where}/{key}".lstrip("/"))


def test_the_chart_refuses_the_options_that_it_sets_itself() -> None:
    text = (CHART / "templates" / "_config.tpl").read_text()
    own = yaml.safe_load(text.split('{{- define "kshadow.ownOptions" -}}')[1].split("{{- end -}}")[0])
    assert set(own) == chart_schema.CHARTS_OWN
    assert set(OPTIONS) >= chart_schema.CHARTS_OWN


def test_doctor_is_told_all_that_it_can_be() -> None:
    """What stands at the top of the file goes to every command; to doctor, cluster means something else."""
    text = (CHART / "templates" / "_config.tpl").read_text()
    shared = set(text.split("$shared := list ")[1].split(" -}}")[0].replace('"', "").split()) - {"clusters"}
    command = cli.get_command(click.Context(cli, **cli.context_settings), "doctor")
    assert command is not None
    doctor = {flag.removeprefix("--") for it in command.params for flag in it.opts}
    assert shared == (doctor & set(OPTIONS)) - chart_schema.CHARTS_OWN - {"cluster"}


def test_versions_are_those_of_the_agent() -> None:
    chart, library = (yaml.safe_load((it / "Chart.yaml").read_text()) for it in (CHART, LIBRARY))
    assert chart["version"] == library["version"] == chart["appVersion"] == __version__
    assert chart["dependencies"] == [{"name": "kshadow-lib", "version": __version__}]
    assert _values(LIBRARY)["image"] == f"kshadow:{__version__}"


def test_the_librarys_defaults_are_those_of_its_values() -> None:
    assert _defined("_settings.tpl", "kshadow-lib.defaults") == _values(LIBRARY)


def test_both_charts_have_the_same_security_context() -> None:
    assert _defined("_parts.tpl", "kshadow-lib.securityContext") == _values()["securityContext"]
