"""Tokens of logins: when one is made, what is said where none is, and how they look."""

from __future__ import annotations

import ast
import base64
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest
from confluent_kafka import KafkaError, KafkaException

from agent.config.logins import LoginMethod, TokenLogin
from agent.kafka.client import new_admin_client, new_consumer, new_producer
from agent.kafka.logins import aws, google, tokens
from agent.kafka.logins.tokens import LoginError, LoginMisconfigured, Token, TokenSource
from agent.tools.doctor.checks import CheckOutcome, DoctorRequest, grant_command, mechanism, protocol
from agent.tools.doctor.token import check_token
from tests import ROOT
from tests.unit.cli.running import kshadow
from tests.unit.kafka.logins.serving import Answers

KEY, SECRET = "AKIDEXAMPLE", "s3cr3t-key"
NOBODY = "127.0.0.1:1"
MSK_IAM = ("-X", "sasl.mechanism=AWS_MSK_IAM", "-X", "security.protocol=SASL_SSL")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials but those that a test gives, and no token of another."""
    tokens.token_source.cache_clear()
    google._credentials.cache_clear()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nowhere")
    monkeypatch.setenv("GCE_METADATA_HOST", NOBODY)
    monkeypatch.setenv("GCE_METADATA_IP", NOBODY)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[str, str], tuple[str, bytes]]], Answers]]:
    servers: list[Answers] = []

    def started(answer: Callable[[str, str], tuple[str, bytes]]) -> Answers:
        servers.append(Answers(answer))
        Thread(target=servers[-1].serve_forever, daemon=True).start()
        return servers[-1]

    yield started
    for it in servers:
        it.shutdown()
        it.server_close()


def with_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def decoded(text: str) -> str:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()


def test_a_token_is_shared_until_half_of_its_life_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, made = 1000.0, iter(range(10))
    monkeypatch.setattr(tokens.time, "time", lambda: now_s)
    source = TokenSource(TokenLogin(LoginMethod.GOOGLE), lambda login: Token(f"t{next(made)}", now_s + 100, "me"))
    seen = []
    for now_s in (1000.0, 1049.0, 1051.0, 1101.0, 1102.0):  # noqa: B007  # the clock
        seen.append(source.token().text)
    assert seen == ["t0", "t0", "t1", "t1", "t2"]
    assert source.on_refresh("") == ("t2", 1202.0, "me")


def test_a_token_of_a_clock_that_was_a_day_ahead_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, as from the future, or is over in an hour: it was handed out for another day."""
    now_s, made = 90_000.0, iter(range(10))
    monkeypatch.setattr(tokens.time, "time", lambda: now_s)
    source = TokenSource(TokenLogin(LoginMethod.GOOGLE), lambda login: Token(f"t{next(made)}", now_s + 3600, "me"))
    assert source.token().text == "t0"
    now_s = 3600.0
    assert [source.token().text for _ in range(2)] == ["t1", "t1"]
    assert "t2" not in repr(source.token())


def test_a_renewal_that_fails_is_told_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    nobody = LoginError("nobody gives one")
    answers: list[Token | LoginError] = [nobody, nobody, Token("t", 9e9)]

    def make(login: TokenLogin) -> Token:
        match answers.pop(0):
            case Token() as token:
                return token
            case error:
                raise error

    source = TokenSource(TokenLogin(LoginMethod.GOOGLE), make)
    with caplog.at_level("INFO", logger="kshadow"):
        for _ in range(2):
            with pytest.raises(LoginError):
                source.on_refresh("")
            assert str(source.failure) == "nobody gives one"
        for _ in range(2):
            assert source.on_refresh("")[0] == "t"
            assert source.failure is None
    assert caplog.messages == [
        "no new token for the login: nobody gives one; it goes on trying",
        "there is a new token for the login again",
    ]


def test_a_token_of_amazon(monkeypatch: pytest.MonkeyPatch) -> None:
    with_keys(monkeypatch)
    made = aws.make_token(TokenLogin(LoginMethod.AWS_MSK_IAM, (("region", "eu-west-3"),)))
    asked = urlsplit(decoded(made.text))
    assert (asked.hostname, parse_qs(asked.query)["Action"]) == (
        "kafka.eu-west-3.amazonaws.com",
        ["kafka-cluster:Connect"],
    )
    assert made.principal == KEY
    assert SECRET not in decoded(made.text)


def test_a_token_of_a_role(monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Answers]) -> None:
    with_keys(monkeypatch)
    answer = (
        '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
        "<AccessKeyId>ASIDROLE</AccessKeyId><SecretAccessKey>r0le</SecretAccessKey><SessionToken>s/t</SessionToken>"
        "<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
    )
    sts = serve(lambda path, body: ("text/xml", answer.encode()))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://{sts.address}")
    options = {"region": "eu-west-3", "role_arn": "arn:aws:iam::1:role/r", "external_id": "partner"}
    made = aws.make_token(TokenLogin(LoginMethod.AWS_MSK_IAM, tuple(options.items())))
    query = parse_qs(urlsplit(decoded(made.text)).query)
    assert (query["X-Amz-Security-Token"], query["X-Amz-Credential"][0].split("/")[0]) == (["s/t"], "ASIDROLE")
    asked = parse_qs(sts.asked[0][1])
    assert (asked["RoleArn"], asked["RoleSessionName"], asked["ExternalId"]) == (
        ["arn:aws:iam::1:role/r"],
        ["kshadow"],
        ["partner"],
    )


REGIONS = [
    ((("region", "a"),), "c", {"AWS_REGION": "b"}, "a"),  # 1: stated, or of the brokers' names
    ((), "c", {"AWS_REGION": "b", "AWS_DEFAULT_REGION": "d"}, "b"),  # 2
    ((), "c", {"AWS_DEFAULT_REGION": "d"}, "d"),  # 3
    ((), "c", {}, "c"),  # 4: the profile's
]


@pytest.mark.parametrize(("options", "configured", "environment", "expected"), REGIONS)
def test_regions(
    options: tuple[tuple[str, str], ...], configured: str, environment: dict[str, str], expected: str
) -> None:
    login = TokenLogin(LoginMethod.AWS_MSK_IAM, options)
    assert aws.region_of(login, configured, environment) == expected
    with pytest.raises(LoginMisconfigured, match="set AWS_REGION"):
        aws.region_of(TokenLogin(LoginMethod.AWS_MSK_IAM), None, {})


def test_a_token_of_google(monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Answers]) -> None:
    """By the metadata server, as on GKE."""
    account = {"email": "k@p.iam.gserviceaccount.com", "aliases": ["default"], "scopes": []}

    def answer(path: str, _: str) -> tuple[str, bytes]:
        kind = "application/json"
        if "token" in path:
            return kind, json.dumps({"access_token": "ya29.x", "expires_in": 3599, "token_type": "Bearer"}).encode()
        if "service-accounts" in path:
            return kind, json.dumps(account).encode()
        return "text/plain", b"project"

    server = serve(answer)
    monkeypatch.setenv("GCE_METADATA_HOST", server.address)
    monkeypatch.setenv("GCE_METADATA_IP", server.address)
    # It reads them as it is imported: tests before this one may have done so.
    importlib.reload(importlib.import_module("google.auth.compute_engine._metadata"))
    made = google.make_token(TokenLogin(LoginMethod.GOOGLE))
    header, claims, access_token = map(decoded, made.text.split("."))
    assert (json.loads(header), access_token) == ({"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}, "ya29.x")
    told = json.loads(claims)
    assert (told["sub"], told["iss"], told["scope"], told["exp"]) == (
        account["email"], "Google", "kafka", made.expires_at_s,
    )  # fmt: skip
    assert made.principal == account["email"]


# 1-9: options, what of the libraries is missing, the exit code, and what is said.
FAILURES = [
    (
        MSK_IAM,
        {"AWS_REGION": "x"},
        None,
        3,
        "AWS gives no credentials for MSK IAM: none found in the environment",
    ),  # 1
    (MSK_IAM, {}, None, 2, "the brokers' names tell no AWS region; set AWS_REGION"),  # 2
    (MSK_IAM, {"AWS_REGION": "x"}, "aws_msk_iam_sasl_signer", 2, "pip install 'kshadow[aws]'"),  # 3
    (
        (*MSK_IAM, "-X", "sasl.oauthbearer.config=profile=nobody"),
        {"AWS_REGION": "x"},
        None,
        3,
        "The config profile (nobody) could not be found",
    ),  # 4
    (
        (*MSK_IAM, "-X", "sasl.oauthbearer.config=hunter2"),
        {},
        None,
        2,
        "sasl.oauthbearer.config: expected NAME=VALUE of",
    ),  # 5
    (("-X", "sasl.oauthbearer.method=google"), {}, "google.auth", 2, "pip install 'kshadow[gcp]'"),  # 6
    (
        ("-X", "sasl.oauthbearer.method=google"),
        {"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere.json"},
        None,
        3,
        "Google gives no credentials: File /nowhere.json was not found",
    ),  # 7
    (("-X", "sasl.oauthbearer.method=google"), {}, None, 3, "Your default credentials were not found"),  # 8
    (
        ("-X", "security.protocol=SASL_SSL", "-X", "sasl.mechanism=GSSAPI"),
        {},
        None,
        2,
        "this librdkafka is built without Kerberos",
    ),  # 9
]


@pytest.mark.parametrize(("options", "environment", "missing", "code", "said"), FAILURES)
@pytest.mark.parametrize("command", ["groups", "run"])
def test_what_is_wrong_is_one_line(
    command: str,
    options: tuple[str, ...],
    environment: dict[str, str],
    missing: str | None,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if missing is not None:
        monkeypatch.setitem(sys.modules, missing, None)
    env = {**environment, "KSHADOW_LISTEN": "127.0.0.1:0"}  # others may be at the usual port
    result = kshadow(command, "--bootstrap-server", NOBODY, *options, env=env)
    message = [line for line in result.stderr.splitlines() if not line.startswith(("Usage:", "Try '"))]
    text = " ".join(result.stderr.split())
    assert (result.exit_code, result.stdout) == (code, ""), result.stderr
    assert " ".join(said.split()) in text
    assert "Traceback" not in text
    assert "hunter2" not in text
    assert len([line for line in message if line.strip()]) == 1, message


@pytest.mark.parametrize(("options", "environment", "missing", "code", "said"), [*FAILURES[:4], *FAILURES[5:8]])
def test_doctor_says_what_is_missing_and_looks_on(
    options: tuple[str, ...],
    environment: dict[str, str],
    missing: str | None,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if missing is not None:
        monkeypatch.setitem(sys.modules, missing, None)
    result = kshadow("doctor", "--bootstrap-server", NOBODY, *options, "-o", "json", env=environment)
    checks = {it["check"]: it for it in json.loads(result.stdout)}
    assert (result.exit_code, checks["token"]["outcome"]) == (3, "failed")
    assert said in checks["token"]["found"]
    assert ("connection" in checks, checks["login"]["outcome"], len(checks["token"]["fix"])) == (
        True, "skipped", 2 if code == 3 else 0,
    )  # fmt: skip


def test_doctor_knows_whose_token_it_is(monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Answers]) -> None:
    with_keys(monkeypatch)
    arn = "arn:aws:iam::1:user/kshadow"
    answer = (
        '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
        f"<Arn>{arn}</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>"
    )
    sts = serve(lambda path, body: ("text/xml", answer.encode()))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://{sts.address}")
    login = TokenLogin(LoginMethod.AWS_MSK_IAM, (("region", "eu-west-3"),))
    check = check_token(login)
    assert check.outcome is CheckOutcome.OK
    assert check.found.startswith(f"access key {KEY}: {arn}; it holds until 2")
    assert SECRET not in check.found


def test_rights_by_the_names_of_aws() -> None:
    request = DoctorRequest({"bootstrap.servers": NOBODY, "sasl.mechanism": "AWS_MSK_IAM"})
    told = grant_command(request, ["Read"], "--topic", "__consumer_offsets")
    assert "kafka-cluster:Connect, kafka-cluster:DescribeTopic, kafka-cluster:ReadData" in told
    assert "topic/CLUSTER/*/__consumer_offsets" in told
    assert "kafka-cluster:AlterGroup" in grant_command(request, ["Read"], "--group", "g")
    assert (protocol(request.conf), mechanism(request.conf)) == ("SASL_SSL", "OAUTHBEARER")


@pytest.mark.parametrize("new_client", [new_consumer, new_producer, new_admin_client])
def test_each_kind_of_client_says_why(new_client: Callable[[dict[str, str]], object]) -> None:
    with pytest.raises(KafkaException) as raised:
        new_client({"bootstrap.servers": NOBODY, "sasl.mechanism": "AWS_MSK_IAM"})
    assert raised.value.args[0].code() == KafkaError._NOT_CONFIGURED


def test_no_client_is_made_elsewhere() -> None:
    """A client that is made of the properties as they are would know nothing of logins."""
    kinds = {"Consumer", "Producer", "AdminClient"}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in ("agent", "analyzers", "spark_jobs")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.is_relative_to(ROOT / "agent" / "tools" / "demo")  # which plays with a broker of its own
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds
    ]
    # The fourth there is refused, always: it asks which properties librdkafka takes.
    own = {"agent/kafka/client.py": 4, "agent/tools/embedded/node.py": 1}
    counted = {name: sum(it.startswith(f"{name}:") for it in found) for name in own}
    assert (counted, len(found)) == (own, sum(own.values())), found
