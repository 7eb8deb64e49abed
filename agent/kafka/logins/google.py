"""Tokens for Google Cloud's Managed Service for Apache Kafka: an access token in the form that its brokers take.

That form, of Google's own clients (googleapis/managedkafka): three parts in base64, a header that names the
algorithm GOOG_OAUTH2_TOKEN, claims with who and until when, and the access token. Nothing is signed: the broker asks
Google about the access token. Credentials are the application default ones: GOOGLE_APPLICATION_CREDENTIALS, gcloud's,
or the metadata server's, as with GKE's workload identity.
"""

from __future__ import annotations

import base64
import json
import logging
import time
from datetime import UTC
from functools import cache
from typing import Any

from agent.config.logins import METHOD, TokenLogin
from agent.kafka.logins.tokens import LoginError, LoginMisconfigured, Token, one_line

INSTALL = "pip install 'kshadow[gcp]'"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_HEADER = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}


def make_token(login: TokenLogin) -> Token:
    """A token of the application default credentials. Raises `LoginError`, `LoginMisconfigured`."""
    try:
        import google.auth
        import google.auth.exceptions
        import google.auth.transport.requests
    except ImportError:
        raise LoginMisconfigured(f"{METHOD}=google needs Google's library: {INSTALL}") from None
    try:
        credentials = _credentials()
        credentials.refresh(google.auth.transport.requests.Request())
    except google.auth.exceptions.GoogleAuthError as error:
        raise LoginError(f"Google gives no credentials: {one_line(error)}") from None
    return _wrapped(credentials.token, credentials.expiry.replace(tzinfo=UTC).timestamp(), _who(credentials))


@cache
def _credentials() -> Any:
    import google.auth

    # It warns of each place that has none, before it says that there are none.
    logging.getLogger("google.auth").setLevel(logging.ERROR)
    return google.auth.default(scopes=[SCOPE])[0]


def _who(credentials: Any) -> str:
    """The account's address, which the broker takes for the principal."""
    for name in ("service_account_email", "signer_email", "account"):
        found = getattr(credentials, name, None)
        if found and found != "default":
            return str(found)
    raise LoginError(
        "these Google credentials name no account: use a service account, workload identity, or gcloud auth "
        "application-default login --impersonate-service-account=ADDRESS"
    )


def _wrapped(access_token: str, expires_at_s: float, who: str) -> Token:
    claims = {"exp": expires_at_s, "iss": "Google", "iat": time.time(), "scope": "kafka", "sub": who}
    parts = (json.dumps(_HEADER), json.dumps(claims), access_token)
    text = ".".join(base64.urlsafe_b64encode(it.encode()).decode().rstrip("=") for it in parts)
    return Token(text, expires_at_s, who)
