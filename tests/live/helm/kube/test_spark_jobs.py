"""The chart's Spark jobs: `kshadow spark` and its jobs take what they are started with, and a server takes them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.tools.spark_submit.jobs import Backfill, Report, Rollup, Stream, job_of
from tests.generate import chart_spark_values
from tests.live.helm.kube.api import Manifest
from tests.live.helm.kube.helm import Helm, HelmError, documents
from tests.live.helm.kube.places import CHART
from tests.live.helm.kube.server import Server
from tests.live.helm.kube.test_install import is_admitted, pod
from tests.unit.cli.running import kshadow

VALUES = CHART / "ci" / "spark-values.yaml"
SHOWN = ("--show-only", "templates/spark-cronjob.yaml", "--show-only", "templates/spark-application.yaml")


@pytest.fixture(scope="module")
def manifests(rendering: Helm) -> dict[str, Manifest]:
    """By the job's name."""
    made = documents(rendering.render(CHART, "--values", VALUES, *SHOWN))
    return {it["metadata"]["labels"]["kshadow/job"]: it for it in made}


def job_in(answer: str) -> object:
    """The job in the command that `--dry-run` prints."""
    return job_of(shlex.split(answer)[-1])


def arguments(manifest: Manifest, data: Path) -> list[str]:
    """Of a CronJob's container, with a directory here for the volume."""
    (container,) = manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["kshadow"]
    return [it.replace("=/data", f"={data}") for it in container["args"]]


def test_the_command_takes_what_the_chart_gives_it(manifests: dict[str, Manifest], tmp_path: Path) -> None:
    for folder in ("history", "backfill", "rollups"):
        (tmp_path / folder).mkdir()
    jobs = {}
    for name in ("backfill", "rollup", "report"):
        environment = {"KSHADOW_CACHE": str(tmp_path / "cache"), "KAFKA_PASSWORD": "hunter2"}
        said = kshadow(*arguments(manifests[name], tmp_path), "--dry-run", env=environment)
        assert said.exit_code == 0, said.output
        assert "hunter2" not in said.output
        assert "--master 'local[2]'" in said.stdout
        jobs[name] = job_in(said.stdout)
    assert isinstance(backfill := jobs["backfill"], Backfill)
    assert backfill.overwrite
    assert backfill.kafka is not None
    assert backfill.kafka.properties["sasl.username"] == "kshadow"
    assert isinstance(rollup := jobs["rollup"], Rollup)
    assert rollup.history == (f"{tmp_path}/history", f"{tmp_path}/backfill")
    assert rollup.since is not None
    assert isinstance(report := jobs["report"], Report)
    assert (report.out, report.most_groups) == (f"{tmp_path}/report.html", 50)


def test_an_applications_argument_is_a_job(manifests: dict[str, Manifest]) -> None:
    (text,) = manifests["stream"]["spec"]["arguments"]
    stream = job_of(text)
    assert isinstance(stream, Stream)
    assert (stream.reads, stream.history_topic) == ("history-topic", "kshadow-history")
    (text,) = manifests["again"]["spec"]["template"]["arguments"]
    assert job_of(text) == Rollup(history=("/data/history",), out="/data/rollups")


@pytest.mark.parametrize("command", chart_spark_values.COMMANDS)
def test_every_option_may_be_given(command: str) -> None:
    """Each to the command by its name: the schema knows those that there are."""
    schema = json.loads((CHART / "values.schema.json").read_text())["definitions"][f"spark{command.capitalize()}"]
    assert schema["properties"].keys() == chart_spark_values.options(command).keys()
    assert {"out", "master"} <= schema["properties"].keys()
    assert "dry-run" not in schema["properties"]


ROLLUP = {
    "command": "rollup",
    "schedule": "@daily",
    "options": {"history": ["/data/history"], "out": "/data/rollups"},
}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"cronJobs": {"a": {**ROLLUP, "options": {"out": "/data"}}}}, "missing property 'history'"),
    ({"cronJobs": {"a": {**ROLLUP, "options": {**ROLLUP["options"], "sicne": "2d"}}}}, "'sicne' not allowed"),  # type: ignore[dict-item]
    ({"cronJobs": {"a": {**ROLLUP, "command": "stream"}}}, "value must be one of 'backfill', 'rollup', 'report'"),
    ({"cronJobs": {"A_b": ROLLUP}}, "'A_b' does not match pattern"),
    ({"cronJobs": {"a": {"command": "rollup", "options": {}}}}, "missing property 'schedule'"),
    ({"applications": {"a": {"job": {"type": "rollup", "out": "/data"}}}}, "missing property 'history'"),
    (
        {"applications": {"a": {"job": {"type": "roll"}}}},
        "value must be one of 'backfill', 'stream', 'rollup', 'report'",
    ),
    (
        {"applications": {"a": {"job": {"type": "report", "rollups": "/a", "out": "/b", "top": 5}}}},
        "'top' not allowed",
    ),
    ({"operator": {"driver": {"memory": "2Gi"}}}, "'2Gi' does not match pattern"),
]


@pytest.mark.parametrize(("values", "said"), WRONG, ids=[it[1] for it in WRONG])
def test_wrong_values_are_refused(rendering: Helm, values: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"kafka": {"bootstrapServers": "k:9092"}, "spark": {"image": "it", **values}}))
    with pytest.raises(HelmError, match="values don't meet the specifications of the schema") as refused:
        rendering.render(CHART, "--values", file)
    assert said in str(refused.value)


@pytest.mark.usefixtures("kafka")
def test_a_server_takes_them_and_the_restricted_standard_their_pods(
    server: Server, space: str, rendering: Helm, tmp_path: Path
) -> None:
    helm = Helm(rendering.program, tmp_path / "home", server.kubeconfig)
    helm("install", "kshadow", CHART, "--namespace", space, "--values", VALUES)
    made = server.api.objects(space)
    assert {it for it in made if "-spark-" in it} == {
        *(f"CronJob/kshadow-spark-{it}" for it in ("backfill", "rollup", "report")),
        "SparkApplication/kshadow-spark-stream",
        "ScheduledSparkApplication/kshadow-spark-again",
    }
    selector = server.api.get("v1", "Service", space, "kshadow")["spec"]["selector"].items()
    for name in ("backfill", "rollup", "report"):
        job = server.api.get("batch/v1", "CronJob", space, f"kshadow-spark-{name}")["spec"]["jobTemplate"]
        is_admitted(server.api, space, pod(job, f"kshadow-spark-{name}-0"), "spark")
        assert not selector <= job["spec"]["template"]["metadata"]["labels"].items()
    for role in ("driver", "executor"):
        # What the operator is told of a pod's rights, in a pod as plain as can be.
        app = server.api.get("sparkoperator.k8s.io/v1beta2", "SparkApplication", space, "kshadow-spark-stream")
        told = app["spec"][role]
        container = {"name": "spark", "image": app["spec"]["image"], "securityContext": told["securityContext"]}
        spec = {
            "containers": [container],
            "securityContext": told["podSecurityContext"],
            "serviceAccountName": "kshadow",
            "volumes": app["spec"]["volumes"],
        }
        template = {"metadata": {"labels": told["labels"]}, "spec": spec}
        is_admitted(server.api, space, pod({"spec": {"template": template}}, f"kshadow-spark-{role}"), "spark")
    helm("uninstall", "kshadow", "--namespace", space)
    assert {it for it in server.api.objects(space) if not it.startswith("Pod/")} == set()
