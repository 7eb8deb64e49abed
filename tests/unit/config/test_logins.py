"""Which login properties ask for."""

from __future__ import annotations

import pytest

from agent.config.logins import LoginMethod, TokenLogin, config_text, login_of

AWS, GOOGLE = LoginMethod.AWS_MSK_IAM, LoginMethod.GOOGLE
MSK = "b-1.name.abc123.c2.kafka.eu-central-1.amazonaws.com:9098"

# 1-10: properties, and the login; None where librdkafka has all that it takes.
LOGINS = [
    ({}, None),  # 1
    ({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}, None),  # 2
    ({"sasl.mechanism": "PLAIN", "sasl.oauthbearer.config": "not ours"}, None),  # 3
    ({"sasl.mechanism": "aws_msk_iam"}, TokenLogin(AWS)),  # 4
    ({"sasl.mechanisms": "AWS_MSK_IAM"}, TokenLogin(AWS)),  # 5
    ({"sasl.oauthbearer.method": "google"}, TokenLogin(GOOGLE)),  # 6
    (
        {"sasl.mechanism": "AWS_MSK_IAM", "bootstrap.servers": f"{MSK},{MSK}"},
        TokenLogin(AWS, (("region", "eu-central-1"),)),
    ),  # 7: by the brokers' name
    (
        {
            "sasl.mechanism": "AWS_MSK_IAM",
            "metadata.broker.list": "boot-x.c1.kafka-serverless.us-gov-west-1.amazonaws.com:9098",
        },
        TokenLogin(AWS, (("region", "us-gov-west-1"),)),
    ),  # 8
    (
        {"sasl.oauthbearer.method": "AWS_MSK_IAM", "bootstrap.servers": "b.kafka.cn-north-1.amazonaws.com.cn:9098"},
        TokenLogin(AWS, (("region", "cn-north-1"),)),
    ),  # 9
    (
        {
            "sasl.mechanism": "AWS_MSK_IAM",
            "bootstrap.servers": MSK,
            "sasl.oauthbearer.config": "region=eu-west-1 profile='a b' ",
        },
        TokenLogin(AWS, (("profile", "a b"), ("region", "eu-west-1"))),
    ),  # 10: what is stated wins
]


@pytest.mark.parametrize(("conf", "expected"), LOGINS)
def test_the_login_of_properties(conf: dict[str, str], expected: TokenLogin | None) -> None:
    assert login_of(conf) == expected


@pytest.mark.parametrize("text", ["hunter2", "hunter2=x", "region=", "region='hunter2", "region=a hunter2=b"])
@pytest.mark.parametrize("method", [*LoginMethod])
def test_options_that_are_none(text: str, method: LoginMethod) -> None:
    with pytest.raises(ValueError, match=r"property sasl\.oauthbearer\.config") as raised:
        login_of({"sasl.oauthbearer.method": method, "sasl.oauthbearer.config": text})
    assert "hunter2" not in str(raised.value)


def test_options_as_text() -> None:
    options = {"profile": "a b'c", "region": "x"}
    made = login_of({"sasl.mechanism": "AWS_MSK_IAM", "sasl.oauthbearer.config": config_text(options)})
    assert made == TokenLogin(AWS, tuple(options.items()))
