"""The token of a login that a cloud's own library makes: whose it is, until when it holds, and what is missing."""

from __future__ import annotations

from datetime import UTC, datetime

from agent.config.logins import CONFIG, LoginMethod, TokenLogin
from agent.kafka.logins import aws
from agent.kafka.logins.tokens import LoginError, LoginMisconfigured, token_source
from agent.tools.doctor.checks import Check, Trial

_FIXES = {
    LoginMethod.AWS_MSK_IAM: (
        "give credentials as the AWS CLI finds them: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, a "
        "role for the pod's service account (IRSA, EKS Pod Identity) or for the instance",
        f"another profile, or a role to take on: -X {CONFIG}='profile=NAME role_arn=ARN'",
    ),
    LoginMethod.GOOGLE: (
        "give application default credentials of a service account: GOOGLE_APPLICATION_CREDENTIALS, workload "
        "identity, or gcloud auth application-default login --impersonate-service-account=ADDRESS",
        "grant it roles/managedkafka.client",
    ),
}
"""What to do where there are no credentials."""


def check_token(login: TokenLogin) -> Check:
    """Have one made, as each client does."""
    trial = Trial("token", str(login.method), "had a token made for the login")
    try:
        token = token_source(login).token()
    except LoginMisconfigured as error:
        return trial.failed(str(error))
    except LoginError as error:
        return trial.failed(str(error), *_FIXES[login.method])
    until = datetime.fromtimestamp(token.expires_at_s, UTC)
    return trial.ok(f"{_who(login, token.principal)}; it holds until {until:%Y-%m-%d %H:%M:%S} UTC")


def _who(login: TokenLogin, principal: str) -> str:
    if login.method is not LoginMethod.AWS_MSK_IAM:
        return principal
    arn = aws.identity(login) or "AWS STS does not say whose it is"
    return f"access key {principal}: {arn}"
