"""Logins by a token that kshadow makes, as properties say them: Amazon MSK's IAM, Google's managed Kafka. Pure.

librdkafka knows OAUTHBEARER, and nothing of whose token it sends. So these are properties of its names with values
of ours, which `agent.kafka.logins` turns into a callback: `sasl.mechanism=AWS_MSK_IAM`, as Amazon's library for Java
has it, or `sasl.oauthbearer.method=aws_msk_iam` or `google`, where librdkafka has `default` and `oidc`. What more
there is to say stands in `sasl.oauthbearer.config`, in librdkafka's form of it: blanks between names with values.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

MECHANISM, METHOD, CONFIG = "sasl.mechanism", "sasl.oauthbearer.method", "sasl.oauthbearer.config"
AWS_MSK_IAM = "AWS_MSK_IAM"


class LoginMethod(StrEnum):
    """Who makes the token: the value of `sasl.oauthbearer.method`."""

    AWS_MSK_IAM = "aws_msk_iam"
    GOOGLE = "google"


OPTIONS: Mapping[LoginMethod, frozenset[str]] = {
    LoginMethod.AWS_MSK_IAM: frozenset(
        {"region", "profile", "role_arn", "role_session_name", "external_id", "sts_region"}
    ),
    LoginMethod.GOOGLE: frozenset(),
}
"""What `sasl.oauthbearer.config` may say to each."""
_REGION_OF_BROKER = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.(?:amazonaws|api\.amazonwebservices)\.")


class TokenLogin(Struct, frozen=True):
    """How to come by a token: by which method, and with which of its options. Holds no secret."""

    method: LoginMethod
    options: tuple[tuple[str, str], ...] = ()

    def option(self, name: str) -> str | None:
        """One option; None if it is not given."""
        return dict(self.options).get(name)


def login_of(conf: Mapping[str, Any]) -> TokenLogin | None:
    """The login that a client's properties ask for; None where librdkafka has all that it takes.

    Raises `ValueError` for an option that the method does not have.
    """
    method = _method(conf)
    if method is None:
        return None
    options = _options(method, str(conf.get(CONFIG) or ""))
    if method is LoginMethod.AWS_MSK_IAM and "region" not in options:
        servers = str(conf.get("bootstrap.servers") or conf.get("metadata.broker.list") or "")
        if found := _REGION_OF_BROKER.search(servers):
            options["region"] = found[1]
    return TokenLogin(method, tuple(sorted(options.items())))


def librdkafka_properties(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The properties as librdkafka takes them beside an `oauth_cb`; unchanged where no login of ours is asked for.
    These clouds let nobody in without TLS, so that is the default."""
    if _method(conf) is None:
        return dict(conf)
    ours = {MECHANISM, "sasl.mechanisms", METHOD, CONFIG}
    left = {name: value for name, value in conf.items() if name not in ours}
    return {"security.protocol": "SASL_SSL", **left, MECHANISM: "OAUTHBEARER"}


def _method(conf: Mapping[str, Any]) -> LoginMethod | None:
    if AWS_MSK_IAM in (str(conf.get(name, "")).upper() for name in (MECHANISM, "sasl.mechanisms")):
        return LoginMethod.AWS_MSK_IAM
    named = str(conf.get(METHOD, "")).lower()
    return LoginMethod(named) if named in {*LoginMethod} else None


def _options(method: LoginMethod, text: str) -> dict[str, str]:
    """Texts are never quoted in errors: who errs may have put a secret there."""
    try:
        words = shlex.split(text)
    except ValueError:
        raise ValueError(f"property {CONFIG}: a quote is not closed") from None
    pairs = [word.partition("=") for word in words]
    known = OPTIONS[method]
    expected = f"NAME=VALUE of {', '.join(sorted(known))}" if known else "nothing"
    if any(not equals or name not in known or not value for name, equals, value in pairs):
        raise ValueError(f"property {CONFIG}: expected {expected} with {METHOD}={method}, got something else")
    return {name: value for name, _, value in pairs}


def config_text(options: Mapping[str, str]) -> str:
    """Options as `sasl.oauthbearer.config` has them."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in options.items())
