"""Tokens for Amazon MSK: a request that AWS' own library signs, as its IAM login for OAUTHBEARER wants it.

Credentials by the usual chain (environment, files, web identity as on EKS, container, instance), or of a profile, and
with a role's ARN by way of that role, as Amazon's library for Java does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from agent.config.logins import CONFIG, TokenLogin
from agent.kafka.logins.tokens import LoginError, LoginMisconfigured, Token, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

INSTALL = "pip install 'kshadow[aws]'"
_SESSION_NAME = "kshadow"


def make_token(login: TokenLogin) -> Token:
    """A signed token. Raises `LoginError`, `LoginMisconfigured`."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as signer
        from botocore.credentials import CredentialProvider
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.session import Session
    except ImportError:
        raise LoginMisconfigured(f"sasl.mechanism=AWS_MSK_IAM needs AWS' library: {INSTALL}") from None

    class Given(CredentialProvider):  # type: ignore[misc]  # botocore has no types
        """What was found, in the form that the signer takes."""

        METHOD = "kshadow"

        def load(self) -> Any:
            return credentials

    try:
        session = Session(profile=login.option("profile"))
        region = region_of(login, session.get_config_variable("region"))
        credentials = _credentials(session, login, region)
        text, expires_at_ms = signer.generate_auth_token_from_credentials_provider(region, Given())
    except (BotoCoreError, ClientError, ValueError) as error:
        raise LoginError(f"AWS gives no credentials for MSK IAM: {one_line(error)}") from None
    return Token(text, expires_at_ms / 1000, credentials.access_key)


def region_of(login: TokenLogin, configured: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """As stated, or by the brokers' names, the environment, the profile. Raises `LoginMisconfigured`."""
    found = (
        login.option("region") or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or configured
    )
    if not found:
        raise LoginMisconfigured(
            "sasl.mechanism=AWS_MSK_IAM: the brokers' names tell no AWS region; set AWS_REGION, or give -X "
            f"{CONFIG}=region=NAME"
        )
    return found


def _credentials(session: Any, login: TokenLogin, region: str) -> Any:
    """Frozen credentials of the chain or of the role. Raises what botocore raises."""
    found = session.get_credentials()
    if found is None:
        raise ValueError("none found in the environment, ~/.aws, a web identity, the container or the instance")
    role = login.option("role_arn")
    if role is None:
        return found.get_frozen_credentials()
    from botocore.credentials import Credentials

    sts = session.create_client("sts", region_name=login.option("sts_region") or region)
    asked = {"RoleArn": role, "RoleSessionName": login.option("role_session_name") or _SESSION_NAME}
    if external := login.option("external_id"):
        asked["ExternalId"] = external
    got = sts.assume_role(**asked)["Credentials"]
    return Credentials(got["AccessKeyId"], got["SecretAccessKey"], got["SessionToken"]).get_frozen_credentials()


def identity(login: TokenLogin) -> str | None:
    """The ARN that AWS knows us by, which needs no right; None where AWS does not answer."""
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.session import Session

    try:
        session = Session(profile=login.option("profile"))
        region = region_of(login, session.get_config_variable("region"))
        credentials = _credentials(session, login, region)
        sts = session.create_client(
            "sts",
            region_name=login.option("sts_region") or region,
            aws_access_key_id=credentials.access_key,
            aws_secret_access_key=credentials.secret_key,
            aws_session_token=credentials.token,
            config=Config(connect_timeout=2, read_timeout=2, retries={"max_attempts": 0}),
        )
        return str(sts.get_caller_identity()["Arn"])
    except (BotoCoreError, ClientError, ValueError, LoginError):
        return None
