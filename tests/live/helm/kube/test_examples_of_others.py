"""The examples for Argo Rollouts, Flagger and KEDA: by their makers' schemas, and what a real Prometheus answers to
the queries."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from agent.core.diagnosis.cluster import NO_ANALYZERS
from agent.serving.metrics.group_metrics import RolloutReading
from agent.serving.metrics.readings import Readings
from agent.tools.demo.monitoring import Monitoring, Programs
from tests.harness.kube_definitions import need_definitions, schemas
from tests.harness.tools import need
from tests.live.helm.kube.places import EXAMPLES
from tests.unit.cli.running import SEGMENTS
from tests.unit.serving.routes.replayed import Replayed, of_path, served
from tests.waiting import until

FOLDER = EXAMPLES / "rollouts"
GROUPS = ("fraud-848", "ads-eos")
RECENT_S, LONG_AGO_S = 60, 3_600


def documents(file: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / file).read_text(encoding="utf-8")))


ARGO, FLAGGER = documents("argo-analysis-template.yaml"), documents("flagger-metric-template.yaml")


KEDA = list(yaml.safe_load_all((EXAMPLES / "keda" / "scaledobject.yaml").read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("definitions", "manifests"), [("argo-rollouts", ARGO), ("flagger", FLAGGER), ("keda", KEDA)]
)
def test_by_their_makers_schemas(definitions: str, manifests: list[dict[str, Any]]) -> None:
    known = {kind: schema for it in need_definitions(definitions) for kind, schema in schemas(it)}
    for manifest in manifests:
        kind = f"{manifest['kind'].lower()}_{manifest['apiVersion'].rpartition('/')[2]}"
        schema = known[kind]
        # What Kubernetes adds to every object, and its definitions do not spell out.
        schema["properties"]["metadata"] = {"type": "object"}
        jsonschema.validate(manifest, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**manifest, "spec": {**manifest["spec"], "metricz": []}}, schema)


@dataclass
class Judged:
    """An agent with verdicts, and a Prometheus that scrapes it."""

    monitoring: Monitoring
    verdicts: dict[str, RolloutReading]

    def tell(self, group: str, verdict: str | None, ago_s: float = RECENT_S) -> None:
        """Let the agent say it, and wait until Prometheus has it, and it alone."""
        self.verdicts.pop(group, None)
        if verdict is not None:
            self.verdicts[group] = RolloutReading(verdict, round(1000 * (time.time() - ago_s)))
        expected = [] if verdict is None else [verdict]
        query = f'kshadow_group_rollout_verdict{{group="{group}"}}'
        until(lambda: [it["metric"]["verdict"] for it in self.monitoring.query(query)] == expected)

    def ask(self, query: str, group: str, within_s: int = 900) -> float | None:
        for name, value in (("group", group), ("within", str(within_s))):
            query = query.replace(f"{{{{args.{name}}}}}", value).replace(f"{{{{ variables.{name} }}}}", value)
        assert "{{" not in query
        answers = self.monitoring.query(query)
        assert len(answers) < 2, "one number, whatever is there"
        return float(answers[0]["value"][1]) if answers else None


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    replayed = Replayed(of_path(SEGMENTS), chosen=NO_ANALYZERS)
    verdicts: dict[str, RolloutReading] = {}
    plain = replayed.readings

    def readings() -> Readings:
        it = plain()
        it.groups = [group._replace(rollout=verdicts.get(group.shape.group)) for group in it.groups]
        return it

    replayed.readings = readings  # type: ignore[method-assign]
    directory: Path = tmp_path_factory.mktemp("prometheus")
    with (
        served(replayed) as url,
        Monitoring(Programs(need("prometheus")), directory, [url.removeprefix("http://")]) as monitoring,
    ):
        yield Judged(monitoring, verdicts)


def queries() -> tuple[str, str, str]:
    verdict, harm = (it["spec"]["metrics"][0]["provider"]["prometheus"]["query"] for it in ARGO)
    return verdict, harm, FLAGGER[0]["spec"]["query"]


@pytest.mark.usefixtures("kafka")
def test_what_prometheus_answers(judged: Judged) -> None:
    verdict, harm, flagger = queries()
    group, other = GROUPS
    for word, expected in {
        "better": (0, None, 0),
        "same": (0, None, 0),
        "worse": (1, None, 1),
        "harmful": (2, 1, 2),
        "pending": (None, None, 0),
        None: (None, None, 0),
    }.items():
        judged.tell(group, word)
        judged.tell(other, "harmful" if word == "same" else None)
        assert tuple(judged.ask(it, group) for it in (verdict, harm, flagger)) == expected, word
    judged.tell(group, "harmful", LONG_AGO_S)
    assert [judged.ask(it, group) for it in (verdict, harm, flagger)] == [None, None, 0], "another rollout's"
    assert judged.ask(verdict, group, 2 * LONG_AGO_S) == 2
    assert [judged.ask(it, "nobody") for it in (verdict, harm, flagger)] == [None] * 3
