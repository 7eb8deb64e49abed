"""Values that cannot be, and what people are told about them: by the schema, or by the templates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.live.helm.chart.rendering import CHART, Refused, rendered


class Wrong(NamedTuple):
    """Values, and what must be said of them."""

    values: dict[str, Any]
    said: str


_BY_SCHEMA = [
    Wrong({"mode": "daemonset"}, "at '/mode': value must be one of 'deployment', 'statefulset'"),
    Wrong({"mode": None}, "missing property 'mode'"),
    Wrong({"terminationGracePeriodSeconds": None}, "missing property 'terminationGracePeriodSeconds'"),
    Wrong(
        {"probes": {"liveness": {"periodSeconds": None}}}, "at '/probes/liveness': missing property 'periodSeconds'"
    ),
    Wrong({"shards": 0}, "at '/shards': minimum: got 0, want 1"),
    Wrong({"shards": "three"}, "at '/shards': got string, want integer"),
    Wrong({"replicaCount": 3}, "additional properties 'replicaCount' not allowed"),
    Wrong({"kafka": {"brokers": "x"}}, "at '/kafka': additional properties 'brokers' not allowed"),
    Wrong({"kafka": {"bootstrapServers": ["a:1"]}}, "at '/kafka/bootstrapServers': got array, want string"),
    Wrong({"kafka": {"secretEnv": {"A": {"name": "s"}}}}, "at '/kafka/secretEnv/A': missing property 'key'"),
    Wrong({"kafka": {"secretEnv": {"A": {"value": "x"}}}}, "additional properties 'value' not allowed"),
    Wrong({"kafka": {"secretEnv": {"a-b": {"name": "s", "key": "k"}}}}, "invalid propertyName 'a-b'"),
    Wrong({"config": {"lag-intervall": "1m"}}, "at '/config': additional properties 'lag-intervall' not allowed"),
    Wrong({"config": {"lag_interval": "1m"}}, "at '/config': additional properties 'lag_interval' not allowed"),
    Wrong({"config": {"lag": "no"}}, "at '/config/lag': got string, want boolean"),
    Wrong({"config": {"lag-interval": 60}}, "at '/config/lag-interval': got number, want string"),
    Wrong({"config": {"lag-interval": "1 minute"}}, "at '/config/lag-interval': '1 minute' does not match pattern"),
    Wrong({"config": {"history-samples": "5s"}}, "at '/config/history-samples': '5s' does not match pattern"),
    Wrong({"config": {"spool-size": "1GB or so"}}, "at '/config/spool-size': '1GB or so' does not match pattern"),
    Wrong({"config": {"admin-rate": 5000}}, "at '/config/admin-rate': maximum: got 5,000, want 1,000"),
    Wrong({"config": {"granularity": "member"}}, "value must be one of 'group', 'topic', 'partition'"),
    Wrong({"config": {"deny-group": "tmp"}}, "at '/config/deny-group': got string, want array"),
    Wrong({"config": {"clusters": {"eu": {"listen": ":1"}}}}, "at '/config/clusters/eu': additional properties 'li"),
    Wrong({"config": {"clusters": {"-": {}}}}, "invalid propertyName '-'"),
    Wrong({"image": {"digest": "latest"}}, "at '/image/digest': 'latest' does not match pattern"),
    Wrong({"image": {"pullPolicy": "always"}}, "value must be one of 'Always', 'IfNotPresent', 'Never'"),
    Wrong({"persistence": {"enabled": True}}, "at '/persistence': additional properties 'enabled' not allowed"),
    Wrong({"persistence": {"size": "big"}}, "at '/persistence/size': 'big' does not match pattern"),
    Wrong({"terminationGracePeriodSeconds": 5}, "at '/terminationGracePeriodSeconds': minimum: got 5, want 25"),
    Wrong({"service": {"port": 99999}}, "at '/service/port': maximum: got 99,999, want 65,535"),
    Wrong(
        {"serviceMonitor": {"enabled": "yes"}}, "at '/serviceMonitor/enabled': value must be one of true, false, 'a"
    ),
    Wrong({"serviceMonitor": {"interval": "fast"}}, "at '/serviceMonitor/interval': 'fast' does not match pattern"),
    Wrong({"podLabels": {"a": 1}}, "at '/podLabels/a': got number, want string"),
    Wrong({"extraEnv": [{"name": "A", "value": 1}]}, "at '/extraEnv/0/value': got number, want null or string"),
    Wrong({"spark": {"extraEnv": [{"value": "a"}]}}, "at '/spark/extraEnv/0': missing property 'name'"),
    Wrong({"podDisruptionBudget": {"maxUnavailable": None}}, "missing property 'maxUnavailable'"),
    Wrong({"sidecarMonitor": {"selector": None}}, "at '/sidecarMonitor': missing property 'selector'"),
    Wrong({"spark": {"operator": {"executor": None}}}, "at '/spark/operator': missing property 'executor'"),
    Wrong({"topologySpreadConstraints": [{"maxSkew": 1}]}, "missing properties 'topologyKey', 'whenUnsatisfiable'"),
    Wrong({"resources": {"request": {}}}, "at '/resources': additional properties 'request' not allowed"),
]

_PASSWORD = "is a secret and stands there in plain text (not shown): write ${NAME} there"

_NAME = "expected a letter first, then letters, digits and - (no dots), as a Service's name must be"

_BY_TEMPLATES = [
    Wrong({"fullnameOverride": "kafka.shadow"}, 'objects would be called "kafka.shadow": ' + _NAME),
    Wrong({"fullnameOverride": "9shadow"}, 'objects would be called "9shadow": ' + _NAME),
    Wrong({"kafka": {"bootstrapServers": ""}}, "kafka.bootstrapServers is needed: the Kafka brokers to start from"),
    Wrong({"kafka": {"bootstrapServers": "kafka"}}, 'expected host:port, with commas between, got "kafka"'),
    Wrong({"kafka": {"bootstrapServers": "a:1,b"}}, 'expected host:port, with commas between, got "b"'),
    Wrong({"kafka": {"bootstrapServers": "a:99999"}}, 'expected host:port, with commas between, got "a:99999"'),
    Wrong(
        {"kafka": {"bootstrapServers": ""}, "config": {"clusters": {"eu": {"bootstrap-server": "a:1,b"}}},
         "networkPolicy": {"enabled": True}},
        'config.clusters.eu.bootstrap-server: expected host:port, with commas between, got "b"',
    ),
    Wrong({"kafka": {"properties": {"sasl.password": "hunter2"}}}, "kafka.properties: sasl.password " + _PASSWORD),
    Wrong({"kafka": {"properties": {"ssl.key.pem": "hunter2"}}}, "kafka.properties: ssl.key.pem " + _PASSWORD),
    Wrong(
        {"kafka": {"bootstrapServers": ""}, "config": {"clusters": {"eu": {
            "bootstrap-server": "eu:1", "property": {"sasl.password": "hunter2"}}}}},
        "config.clusters.eu.property: sasl.password " + _PASSWORD,
    ),
    Wrong(
        {"kafka": {"bootstrapServers": ""}, "config": {"clusters": {"eu": {}}}},
        "config.clusters.eu: bootstrap-server is needed",
    ),
    Wrong(
        {"kafka": {"bootstrapServers": ""},
         "config": {"clusters": {"eu": {"bootstrap-server": "eu:1", "kubernetes": True}}}},
        "config.clusters.eu.kubernetes goes with kubernetes.enabled, which mounts the token that it takes",
    ),
    Wrong({"config": {"clusters": {"eu": {"bootstrap-server": "eu:1"}}}}, "are both given"),
    Wrong({"config": {"listen": ":1"}}, "config.listen: the chart sets that option; say it by the value serv"),
    Wrong({"config": {"shard": "0/2"}}, "config.shard: the chart sets that option; say it by the value shards"),
    Wrong({"shards": 3}, "shards: 3 goes with mode: statefulset; a deployment is one agent"),
    Wrong({"mode": "statefulset", "config": {"group": ["a"]}}, "config.group goes with mode: deployment"),
    Wrong({"mode": "statefulset", "config": {"partitions": "0-3"}}, "config.partitions goes with mode: deployment"),
    Wrong({"mode": "statefulset", "config": {"share-group": "a"}}, "config.share-group goes with mode: deployment"),
    Wrong({"mode": "statefulset", "config": {"source": "admin"}}, "config.source: admin goes with mode: deployment"),
    *(
        Wrong(
            {"mode": "statefulset", "kafka": {"bootstrapServers": ""},
             "config": {"clusters": {"eu": {"bootstrap-server": "eu:1", **option}}}},
            f"config.clusters.eu.{said} goes with mode: deployment",
        )
        for option, said in (({"group": ["a"]}, "group"), ({"source": "admin"}, "source: admin"))
    ),
    Wrong({"mode": "statefulset", "persistence": {"existingClaim": "a"}}, "each shard of a statefulset has"),
    Wrong({"persistence": {"existingClaim": "a", "type": "emptyDir"}}, "and emptyDir was given"),
    Wrong({"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}, "would be scraped twice"),
    Wrong(
        {"kafka": {"secretEnv": {"KSHADOW_CONFIG": {"name": "s", "key": "k"}}}},
        "kafka.secretEnv and extraEnv: KSHADOW_CONFIG is given twice, or is one that the chart sets",
    ),
    Wrong(
        {"kafka": {"secretEnv": {"A": {"name": "s", "key": "k"}}}, "extraEnv": [{"name": "A", "value": "b"}]},
        "kafka.secretEnv and extraEnv: A is given twice",
    ),
    Wrong({"spark": {"extraEnv": [{"name": "HOME"}]}}, "spark.secretEnv and spark.extraEnv: HOME is given twice"),
    Wrong({"webConfig": {"tls": True}}, "webConfig.secretName is needed, the Secret that holds it"),
    Wrong(
        {"webConfig": {"secretName": "a", "clientCertificates": True}},
        "webConfig.clientCertificates goes with webConfig.tls",
    ),
]  # fmt: skip


@pytest.mark.parametrize("wrong", [*_BY_SCHEMA, *_BY_TEMPLATES], ids=lambda it: it.said[:60])
def test_wrong_values_are_refused_with_a_reason(helm4: Path, wrong: Wrong) -> None:
    kafka = {"bootstrapServers": "kafka:9092", **wrong.values.get("kafka", {})}
    with pytest.raises(Refused, match=re.escape(wrong.said)) as refused:
        rendered(helm4, CHART, {**wrong.values, "kafka": kafka})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["sasl.password", "ssl.key.password", "sasl.oauthbearer.client.secret", "ssl.key.pem"]
)
def test_a_secret_may_be_referred_to(helm4: Path, name: str) -> None:
    for reference in ("${KAFKA}", {"file": "/run/secrets/it"}):
        properties = {name: reference, "ssl.key.location": "/etc/key", "ssl.keystore.location": "/etc/store"}
        assert rendered(helm4, CHART, {"kafka": {"bootstrapServers": "kafka:9092", "properties": properties}})


def test_a_cluster_that_watches_kubernetes_takes_the_token_or_a_kubeconfig(helm4: Path) -> None:
    clusters = {"eu": {"bootstrap-server": "eu:1", "kubernetes": True}}
    values = {"kafka": {"bootstrapServers": ""}, "config": {"clusters": clusters}}
    env = [{"name": "KUBECONFIG", "value": "/etc/kubeconfig"}]
    for more in ({"kubernetes": {"enabled": True}}, {"extraEnv": env}):
        assert rendered(helm4, CHART, {**values, **more})


@pytest.mark.parametrize(
    "name",
    [
        *("config", "commonLabels", "podLabels", "podAnnotations"),
        *("serviceMonitor.labels", "prometheusRule.labels", "prometheusRule.ruleLabels"),
    ],
)
def test_a_value_with_nothing_but_comments_in_it(helm4: Path, name: str) -> None:
    """YAML's null, which Helm drops."""
    values = {
        "kafka": {"bootstrapServers": "kafka:9092", "secretEnv": None},
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
    }
    made = [rendered(helm4, CHART, values, [f"--set-json={name}={it}"]) for it in ("null", "{}")]
    assert made[0] == made[1]
