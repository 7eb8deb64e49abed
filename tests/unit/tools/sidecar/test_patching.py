"""Manifests with the container in them: all that was there stays, as it was written."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.tools.sidecar.container import container, scrape_annotations, volumes
from agent.tools.sidecar.manifests import KINDS, ManifestError
from agent.tools.sidecar.patching import inject
from tests import examples
from tests.unit.cli.running import kshadow
from tests.unit.tools.sidecar.made import FULL_VALUES, PLAIN_VALUES, STYLES, manifest, pods, without, written

LIST = {"apiVersion": "v1", "kind": "List", "items": [manifest("Pod", "one"), manifest("Job", "two")]}
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"on": "off", "n": "0123"}}
DOCUMENTS = [OTHER, *(manifest(kind, kind.lower()) for kind in KINDS), LIST, OTHER]


@pytest.mark.parametrize("values", [PLAIN_VALUES, FULL_VALUES], ids=["plain", "full"])
@pytest.mark.parametrize("native", [True, False], ids=["native", "beside"])
@pytest.mark.parametrize("style", STYLES)
def test_every_pod_template_gets_it_and_nothing_else_changes(style: str, native: bool, values: Any) -> None:
    it = replace(values, native=native)
    text = written(DOCUMENTS, style)
    made = inject(text, it)
    assert len(made.patched) == len(KINDS) + 2
    after = list(yaml.safe_load_all(made.text))
    assert without(after) == DOCUMENTS
    key = "initContainers" if native else "containers"
    for pod in pods(after):
        assert pod[key].count(container(it)) == 1
        assert [volume for volume in pod["volumes"] if volume in volumes(it)] == volumes(it)
    if style in ("block", "indented", "commented"):
        lines = difflib.ndiff(text.splitlines(), made.text.splitlines())
        assert not [line for line in lines if line.startswith("- ")], "lines only came"
    assert inject(made.text, it).text == made.text, "twice is once"
    changed = replace(it, groups=("other",), native=not native, certificates_secret=None)
    assert inject(inject(made.text, changed).text, it).text == made.text, "there and back"


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_out_is_valid_for_kubernetes(kind: str) -> None:
    for native in (True, False):
        made = inject(written([manifest(kind)], "block"), replace(FULL_VALUES, native=native), annotates=True)
        for version in ("1.29", "1.36"):
            kubernetes_validate.validate(yaml.safe_load(made.text), version, strict=True)


KEPT = """\
%YAML 1.1
---
# a comment of its own
---
apiVersion: apps/v1   # odd   spaces
kind:   "Deployment"
metadata: {name: app, labels: {on: on, 'n': 0123}}
numbers: [12345678901234567890123, 1e400, 0o17, 0x1F, 1_000, .5, 1.10, ~, Null, yes, 2001-01-01]
text: |+
  kept

folded: >-
  a
  b
anchored: &anchored {cpu: 1}
spec:
    template:
        spec:
            volumes: []   # none yet
            initContainers:
            # about: the next key
            containers:
            -   name: app
                env: [{name: day, value: 2001-99-99}, {name: tag, value: !odd x}]
                args: [a,
                  b, ]
                command:
                - |
                  exec app

                # within app
            # at the dash
            # and what is behind
            resources: *anchored
...
"""


def test_what_people_write_stays() -> None:
    for it in (replace(FULL_VALUES, broker_log=None, broker_log_volume=None), replace(PLAIN_VALUES, native=False)):
        made = inject(KEPT, it, annotates=True)
        kept = iter(made.text.splitlines())
        for line in KEPT.splitlines():
            if line.strip() not in ("volumes: []   # none yet",):
                assert any(line == of for of in kept), line
        assert inject(made.text, it, annotates=True).text == made.text
        assert inject(made.text, it).text == made.text
    assert "                # within app\n            - name: kshadow" in made.text


def test_line_ends_and_a_last_line_without_one() -> None:
    text = written([manifest("Pod")], "block")
    crlf = inject(text.replace("\n", "\r\n"), PLAIN_VALUES).text
    assert crlf == inject(text, PLAIN_VALUES).text.replace("\n", "\r\n")
    short = "kind: Pod\nspec:\n  containers:\n  - name: app\n    image: a"
    for native in (True, False):
        made = inject(short, replace(PLAIN_VALUES, native=native)).text
        assert made.startswith(short + "\n")
        assert not made.endswith("\n")
        assert inject("\ufeff" + short, replace(PLAIN_VALUES, native=native)).text == "\ufeff" + made


def test_annotations_for_prometheus() -> None:
    plain = manifest("Deployment")
    bare = manifest("Deployment")
    del bare["spec"]["template"]["metadata"]
    empty = manifest("Deployment")
    empty["spec"]["template"]["metadata"]["annotations"] = {}
    there = manifest("Deployment")
    there["spec"]["template"]["metadata"]["annotations"] = {"prometheus.io/port": "80", "other": "on"}
    for style in STYLES:
        made = inject(written([plain, bare, empty, there], style), PLAIN_VALUES, annotates=True)
        found = [it["spec"]["template"]["metadata"]["annotations"] for it in yaml.safe_load_all(made.text)]
        wanted = scrape_annotations(PLAIN_VALUES)
        assert found == [wanted, wanted, wanted, {"other": "on", **wanted}]
        assert inject(made.text, PLAIN_VALUES, annotates=True).text == made.text


def test_some_are_chosen() -> None:
    text = written([manifest("Pod", "a"), manifest("Job", "a"), manifest("Job", "b")], "block")
    assert inject(text, PLAIN_VALUES, kinds=["Job"]).patched == ("Job 'a'", "Job 'b'")
    assert inject(text, PLAIN_VALUES, names=["a"]).patched == ("Pod 'a'", "Job 'a'")
    with pytest.raises(ManifestError, match=r"nothing of that kind and name .* there is Pod 'a', Job 'a', Job 'b'"):
        inject(text, PLAIN_VALUES, kinds=["Pod"], names=["b"])


def test_a_plain_container_keeps_a_job_from_being_done() -> None:
    for kind in KINDS:
        text = written([manifest(kind)], "block")
        warnings = inject(text, replace(PLAIN_VALUES, native=False)).warnings
        assert bool(warnings) == (kind in ("Job", "CronJob"))
        assert not inject(text, PLAIN_VALUES).warnings


@pytest.mark.parametrize("native", [True, False])
def test_a_port_that_another_container_has_is_told(native: bool) -> None:
    """kafka_exporter's is the same: one of the two could not listen, and the pod would not be ready."""
    pod = manifest("Pod", "p")
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 8080}, {"containerPort": 9308}]
    name = pod["spec"]["containers"][0]["name"]
    it = replace(PLAIN_VALUES, native=native)
    made = inject(written([pod], "block"), it)
    said = f"Pod 'p': its container {name!r} has port 9308 too, and a pod's containers share ports: --port"
    assert made.warnings == (said,)
    assert inject(made.text, it).warnings == (said,), "not its own"
    assert inject(made.text, replace(it, port=9309)).warnings == ()


def test_kinds_that_are_not_known_are_told() -> None:
    rollout = {**manifest("Deployment", "r"), "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    documents = [{"apiVersion": "v1", "kind": "List", "items": [rollout]}, OTHER, manifest("Job", "j")]
    made = inject(written(documents, "block"), PLAIN_VALUES)
    assert made.patched == ("Job 'j'",)
    said = f"Rollout 'r' has a pod's spec and is left as it is: known are {', '.join(KINDS)}"
    assert made.warnings == (said,)
    assert not inject(written(documents, "block"), PLAIN_VALUES, kinds=["Job"]).warnings
    assert not inject(written(documents, "block"), PLAIN_VALUES, names=["j"]).warnings


POD = "kind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no pod template found: expected one of Pod, Deployment"),  # 1
        ("kind: ConfigMap", "no pod template found"),  # 2
        ("[1, 2]", "no pod template found"),  # 3
        ("a: [1\nb: 2", "line 2, column 2: expected YAML"),  # 4
        ("{{- if .Values.x }}\na: b", "line 1, column "),  # 5
        ("a: \x00", "expected YAML"),  # 6
        ("[" * 400, "expected YAML"),  # 7
        ("kind: Deployment\nmetadata: {name: d}", "line 1: Deployment 'd': expected spec.template.spec"),  # 8
        ("kind: Pod\nspec: {}", "line 2: Pod '' has no containers"),  # 9
        ("kind: Pod\nspec: {containers: []}", "has no containers"),  # 10
        (POD + "  - {name: a}\n  initContainers: {a: b}", "line 6: initContainers: expected a list"),  # 11
        (
            POD + "  - {name: a}\n  - {name: kshadow, image: x/o:1}",
            "line 6: Pod 'p' has a container 'kshadow'",
        ),  # 12
        (POD + "  - {name: kshadow, image: x/kshadow}", "is kshadow itself"),  # 13
        ("c: &c [{name: i}]\n" + POD + "  - name: a\n  initContainers: *c", "line 7: initContainers: an alias"),  # 14
        ("c: &c {name: i}\n" + POD + "  - name: a\n  initContainers:\n  - *c", "initContainers: an alias"),  # 15
        ("c: &c [{name: i}]\nkind: Pod\nspec: {containers: *c}", "containers: an alias"),  # 16
        ("r: &r {}\n" + POD + "  - name: a\n    resources:\n      *r\n", "cannot be patched"),  # 17
    ],
)
def test_what_cannot_be_patched_is_told(text: str, said: str) -> None:
    with pytest.raises(ManifestError) as raised:
        inject(text, PLAIN_VALUES)
    assert said in str(raised.value)


def test_the_volume_of_the_brokers_log_must_be_there() -> None:
    text = written([manifest("StatefulSet", "kafka")], "block")
    it = replace(PLAIN_VALUES, broker_log="/logs", broker_log_volume="data")
    with pytest.raises(ManifestError, match="StatefulSet 'kafka' has no volume 'data'; it has 'logs'"):
        inject(text, it)
    claims = manifest("StatefulSet", "kafka")
    claims["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}}]
    del claims["spec"]["template"]["spec"]["volumes"]
    assert inject(written([claims], "flow"), it).patched
    with pytest.raises(ManifestError, match="it has 'data'"):
        inject(written([claims], "flow"), replace(it, broker_log_volume="logs"))


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
SCALARS = st.one_of(
    TEXTS, st.integers(), st.booleans(), st.none(), st.sampled_from(["on", "0123", "~", "a: b", "- x"])
)
VALUES = st.recursive(
    SCALARS, lambda it: st.one_of(st.lists(it, max_size=3), st.dictionaries(TEXTS, it, max_size=3)), max_leaves=6
)


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from(["env", "args", "x", "y"]), VALUES), min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(["a", "b", "zz"]), VALUES),
    st.lists(TEXTS, max_size=2),
    st.sampled_from(STYLES),
    st.booleans(),
)
def test_whatever_is_in_a_manifest(
    containers: list[dict[str, Any]], more: dict[str, Any], groups: list[str], style: str, native: bool
) -> None:
    pod = {"containers": [{"name": f"c{at}", **it} for at, it in enumerate(containers)], **more}
    document = {"kind": "Pod", "metadata": {"name": "p"}, "spec": pod}
    if style == "commented" and "\n\n" in yaml.safe_dump(document):
        style = "indented"  # a text of several lines would have its comments within
    text = written([document], style)
    it = replace(PLAIN_VALUES, native=native, groups=tuple(groups), certificates_secret="ca")
    before = list(yaml.safe_load_all(text))
    made = inject(text, it).text
    (after,) = yaml.safe_load_all(made)
    assert container(it) in after["spec"]["initContainers" if native else "containers"]
    assert without([after]) == before
    assert inject(made, it).text == made


# The command.

BROKER = ("--bootstrap-server", "kafka:9092")


def test_the_command_patches_what_comes_in(tmp_path: Path) -> None:
    text = written([OTHER, manifest("Job")], "block")
    told = kshadow("sidecar", "inject", "-", *BROKER, "--group", "it's $(x)", "--no-native", stdin=text)
    assert told.exit_code == 0
    assert "- --group=it's $$(x)\n" in told.stdout
    assert told.stderr.splitlines()[0] == "patched Job 'app'"
    assert "Warning: Job 'app'" in told.stderr
    file = tmp_path / "job.yaml"
    file.write_text(text)
    again = kshadow("sidecar", "inject", file, *BROKER, "--group", "it's $(x)", "--no-native")
    assert again.stdout == told.stdout


def test_exit_codes(tmp_path: Path) -> None:
    def code(*arguments: object, stdin: str | bytes = "kind: ConfigMap") -> tuple[int, str]:
        it = kshadow("sidecar", "inject", "-", *arguments, stdin=stdin)
        assert it.stdout == ""
        return it.exit_code, it.stderr

    assert code(*BROKER)[0] == 1
    assert code(*BROKER, stdin=b"a: \xff") == (1, "Error: standard input: line 1: expected text in UTF-8\n")
    assert code()[0] == 2
    assert code(*BROKER, "-X", "sasl.password=hunter2")[0] == 2
    assert "hunter2" not in code(*BROKER, "-X", "sasl.password=hunter2")[1]
    assert code(*BROKER, "--secret-env", "A=b")[0] == 2
    assert "No such option" in code(*BROKER, "--", "--nonsense")[1]
    assert "expected only options of kshadow run after --, got 'word'" in code(*BROKER, "--", "word")[1]
    assert "-X goes before --" in code(*BROKER, "--", "-X", "sasl.password=x")[1]
    assert kshadow("sidecar", "inject", tmp_path / "none", *BROKER).exit_code == 2


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_the_command_prints_a_container(output: str) -> None:
    arguments = ("--group", "grüße $(x)", "-X", "sasl.password=${P}", "--secret-env", "P=kafka/password")
    more = ("--certificates-secret", "ca", "-o", output, "--", "--lag-interval=1m")
    it = kshadow("sidecar", "render", *BROKER, *arguments, *more)
    assert it.exit_code == 0, it.stderr
    made = yaml.safe_load(it.stdout)
    assert made["args"] == [
        "run",
        "--bootstrap-server=kafka:9092",
        "--property=sasl.password=${P}",
        "--group=grüße $$(x)",
        "--no-admin",
        "--keep-trying",
        "--listen=[::]:9308",
        "--lag-interval=1m",
    ]
    assert it.stderr == "The pod needs a volume 'kshadow-certificates' of the Secret 'ca'.\n"


def test_a_port_that_not_every_node_leaves_to_users_is_told() -> None:
    for port, told in ((1023, True), (1024, False)):
        said = kshadow("sidecar", "render", "--bootstrap-server", "kafka:9092", "--port", str(port))
        assert (said.exit_code, f"--port {port}: below 1024 only root may listen" in said.stderr) == (0, told)


@pytest.mark.parametrize("native", [True, False])
def test_anchors_in_the_line_before_what_they_name(native: bool) -> None:
    """What was put in stood as far from the left as the anchor, and was refused for aliases that were not there."""
    text = "kind: Pod\nspec: &pod\n  containers: &all\n    - &app\n      name: app\n      image: app\n"
    made = inject(text, replace(PLAIN_VALUES, native=native)).text
    begins = "  initContainers:\n  - name: kshadow\n" if native else "    - name: kshadow\n"
    assert made.startswith(text + begins)
