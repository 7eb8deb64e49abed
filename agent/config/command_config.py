"""Properties of a Java client, as files of Kafka's tools (`--command-config`) hold them, as librdkafka's.

What librdkafka cannot do is a problem with a way out; what means nothing to it is left out, and what nobody knows is
warned of. Values are never quoted: among them are passwords.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from msgspec import Struct

from agent.config.java_properties import (
    ENCODING,
    KERBEROS,
    KNOWN,
    LIBRDKAFKA_ONLY,
    RENAMED,
    SAME_NAME,
    JaasLogin,
    parse_jaas,
    parse_properties,
)
from agent.config.logins import AWS_MSK_IAM, CONFIG, METHOD, LoginMethod, config_text

MAX_FILE_BYTES = 1_000_000
"""Bytes of a file: what is longer holds something else."""

ReadFirstBytes = Callable[[str], bytes]
"""The first bytes of a file; none of one that cannot be read."""


class Problem(Struct, frozen=True):
    """What cannot be, unless one of these properties of librdkafka is given beside the file."""

    text: str
    solved_by: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CommandConfig:
    """A file of client properties: its path, librdkafka's properties, and what is to be said of it."""

    path: str
    properties: tuple[tuple[str, str], ...] = field(repr=False)
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.path

    def merged_with(self, given: Mapping[str, str]) -> dict[str, str]:
        """librdkafka's configuration of the file and of what is given beside it, which wins over it."""
        over = {
            name
            for alike in (_TRUST_PROPERTIES, _KEY_PROPERTIES | _KEY_DETAIL_PROPERTIES, _MECHANISM_PROPERTIES)
            if alike & given.keys()
            for name in alike
        }
        return {name: value for name, value in self.properties if name not in over} | dict(given)

    def unsolved_problems(self, given: Iterable[str]) -> list[str]:
        """The problems that are left beside properties of these names, a sentence each."""
        names = {*given}
        return [f"{self.path}: {it.text}" for it in self.problems if not it.solved_by & names]


_TRUST_PROPERTIES = frozenset({"ssl.ca.location", "ssl.ca.pem"})
_KEY_PROPERTIES = frozenset({"ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location"})
_KEY_DETAIL_PROPERTIES = frozenset({"ssl.key.location", "ssl.key.pem", "ssl.key.password", "ssl.keystore.password"})
_LOGIN_PROPERTIES = frozenset(
    {"sasl.username", "sasl.password", "sasl.oauthbearer.method", "sasl.oauthbearer.config"}
)
_MECHANISM_PROPERTIES = frozenset({"sasl.mechanism", "sasl.mechanisms"})
_MSK_OPTIONS = {
    "awsProfileName": "profile",
    "awsRoleArn": "role_arn",
    "awsRoleSessionName": "role_session_name",
    "awsRoleExternalId": "external_id",
    "awsStsRegion": "sts_region",
}
"""Options of Amazon's IAMLoginModule, and ours."""
_MSK_RETRIES = {"awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs"}
"""Those that say nothing of who logs in."""
_PEM = re.compile(r"(-----BEGIN ([A-Z0-9 ]+)-----)\s*(.*?)\s*(-----END \2-----)", re.DOTALL)


def read_command_config(path: str) -> CommandConfig:
    """Read a file, and translate it for librdkafka. Raises `ValueError` for what is no file of properties."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ValueError(error.strerror) from None
    if len(content) > MAX_FILE_BYTES or b"\0" in content:
        raise ValueError("expected a text file of NAME=VALUE lines")
    made = translate(path, parse_properties(content.decode(ENCODING)), _first_bytes)
    return replace(made, warnings=(*made.warnings, *_encoding_warnings(path, content)))


def _encoding_warnings(path: str, content: bytes) -> Iterator[str]:
    """Java takes the two bytes that UTF-8 makes of ü for two letters: of a password, another one."""
    if not content.isascii():
        with suppress(UnicodeDecodeError):
            content.decode()
            yield f"{path}: is UTF-8, and read as Latin-1, as Java does; write letters beyond ASCII as \\uXXXX"


def _first_bytes(path: str) -> bytes:
    with suppress(OSError), Path(path).open("rb") as file:
        return file.read(4096)
    return b""


def translate(path: str, java: Mapping[str, str], peek: ReadFirstBytes) -> CommandConfig:
    """A file's properties, by Java's names, for librdkafka."""
    made = _Translation({name.strip(): value.strip() for name, value in java.items()}, peek)
    made.translate()
    return CommandConfig(
        path, tuple(made.out.items()), tuple(made.problems), tuple(f"{path}: {it}" for it in made.warnings)
    )


class _Translation:
    def __init__(self, java: Mapping[str, str], peek: ReadFirstBytes) -> None:
        self.java, self._peek = java, peek
        self.out: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.warnings: list[str] = []

    def translate(self) -> None:
        """Everything, in the order of the file where that can be."""
        for name, value in self.java.items():
            if name in SAME_NAME | LIBRDKAFKA_ONLY and value:
                self.out[name] = value
            elif name in RENAMED and value:
                self.out[RENAMED[name]] = value
            elif name not in KNOWN:
                self._unknown(name)
        # Java's word for "as the system has it".
        self.out = {
            name: "0" if value == "-1" and name.endswith("buffer.bytes") else value
            for name, value in self.out.items()
        }
        algorithm = self.java.get("ssl.endpoint.identification.algorithm")
        if algorithm is not None:
            self.out["ssl.endpoint.identification.algorithm"] = algorithm.lower() or "none"
        if "config.providers" in self.java:
            self._problem(
                "config.providers: only Java has those; give the values themselves, secrets by -X NAME='${VARIABLE}'"
            )
        if self.java.get("ssl.engine.factory.class"):
            self._problem(
                "ssl.engine.factory.class: a class of Java; name PEM files instead (ssl.truststore.type=PEM)",
                *_TRUST_PROPERTIES,
            )
        self._truststore()
        self._keystore()
        if self.java.get("security.protocol", "").upper().startswith("SASL_") or "sasl.jaas.config" in self.java:
            self._login()

    def _unknown(self, name: str) -> None:
        near = get_close_matches(name, KNOWN, n=1, cutoff=0.8)
        self.warnings.append(
            f"unknown property {name[:100]!r} is left out" + (f"; did you mean {near[0]!r}?" if near else "")
        )

    def _problem(self, text: str, *mended_by: str) -> None:
        self.problems.append(Problem(text, frozenset(mended_by)))

    def _truststore(self) -> None:
        if certificates := self.java.get("ssl.truststore.certificates"):
            self.out["ssl.ca.pem"] = _pem_wrapped(certificates)
        location = self.java.get("ssl.truststore.location")
        if not location:
            return
        match self._kind("truststore", location):
            case "PEM":
                self.out["ssl.ca.location"] = location
            case kind:
                tool = (
                    f"openssl pkcs12 -in {location} -nokeys -out ca.pem"
                    if kind == "PKCS12"
                    else f"keytool -list -rfc -keystore {location} > ca.pem"
                )
                self._problem(
                    f"ssl.truststore.location: librdkafka takes PEM, {location} is {kind}; make it so: {tool}, and "
                    "give -X ssl.ca.location=ca.pem",
                    *_TRUST_PROPERTIES,
                )

    def _keystore(self) -> None:
        if chain := self.java.get("ssl.keystore.certificate.chain"):
            self.out["ssl.certificate.pem"] = _pem_wrapped(chain)
        if key := self.java.get("ssl.keystore.key"):
            self.out["ssl.key.pem"] = _pem_wrapped(key)
        location = self.java.get("ssl.keystore.location")
        if not location:
            return
        match self._kind("keystore", location):
            case "PEM":
                self.out["ssl.certificate.location"] = self.out["ssl.key.location"] = location
            case "PKCS12":
                self.out["ssl.keystore.location"] = location
                self.out["ssl.keystore.password"] = self.java.get("ssl.keystore.password", "")
                # Java wants the key's password too, even where it is the store's.
                self.out.pop("ssl.key.password", None)
            case kind:
                self._problem(
                    f"ssl.keystore.location: librdkafka takes PKCS12 and PEM, {location} is {kind}; make it so: "
                    f"keytool -importkeystore -srckeystore {location} -destkeystore client.p12 -deststoretype PKCS12"
                    ", and give -X ssl.keystore.location=client.p12 with -X ssl.keystore.password='${VARIABLE}'",
                    *_KEY_PROPERTIES,
                )

    def _kind(self, store: str, location: str) -> str:
        """By what the file is: Java reads PKCS12 where JKS is said, which is the default."""
        head = self._peek(location)
        if head.startswith((b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")):
            return "JKS"
        if head.startswith(b"\x30"):
            return "PKCS12"
        return "PEM" if b"-----BEGIN" in head else self.java.get(f"ssl.{store}.type", "JKS").upper()

    def _login(self) -> None:
        mechanism = (self.java.get("sasl.mechanism") or self.java.get("sasl.mechanisms") or "GSSAPI").upper()
        login = None
        if text := self.java.get("sasl.jaas.config"):
            try:
                login = parse_jaas(text)
            except ValueError as error:
                self._problem(str(error), *_LOGIN_PROPERTIES)
                return
        options = {} if login is None else login.options
        match mechanism:
            case "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512":
                self._password(mechanism, login)
            case "OAUTHBEARER":
                self._token(options)
            case "AWS_MSK_IAM":
                self._msk_iam(options)
            case "GSSAPI":
                self._kerberos(login)
            case _:
                self._problem(
                    "sasl.mechanism: expected PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM or "
                    "GSSAPI",
                    *_MECHANISM_PROPERTIES,
                )

    def _password(self, mechanism: str, login: JaasLogin | None) -> None:
        if login is None:
            if "sasl.username" not in self.out:
                self._problem(
                    "expected sasl.jaas.config (a JVM's java.security.auth.login.config is not read), or -X "
                    "sasl.username and -X sasl.password='${KAFKA_PASSWORD}'",
                    "sasl.username",
                )
            return
        wanted = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
        if login.class_name != wanted:
            self._problem(f"sasl.jaas.config: expected {wanted} for sasl.mechanism={mechanism}", *_LOGIN_PROPERTIES)
        elif login.options.get("tokenauth", "").lower() == "true":
            self._problem(
                "sasl.jaas.config: librdkafka has no delegation tokens (tokenauth); give a user's password",
                *_LOGIN_PROPERTIES,
            )
        elif missing := [name for name in ("username", "password") if name not in login.options]:
            self._problem(f"sasl.jaas.config: expected {' and '.join(missing)}", *_LOGIN_PROPERTIES)
        else:
            self.out["sasl.username"], self.out["sasl.password"] = (
                login.options["username"],
                login.options["password"],
            )

    def _msk_iam(self, options: Mapping[str, str]) -> None:
        """Amazon's login module for Java, and what its options are called here."""
        self.out["sasl.mechanism"] = AWS_MSK_IAM
        ours = {ours: options[theirs] for theirs, ours in _MSK_OPTIONS.items() if options.get(theirs)}
        if ours:
            self.out[CONFIG] = config_text(ours)
        if left_out := sorted(options.keys() - _MSK_OPTIONS.keys() - _MSK_RETRIES):
            self.warnings.append(f"sasl.jaas.config: unknown options are left out: {', '.join(left_out)[:200]}")

    def _kerberos(self, login: JaasLogin | None) -> None:
        """Whether librdkafka was built with it is seen when a client is made."""
        self.out["sasl.mechanism"] = "GSSAPI"
        options = {} if login is None else login.options
        names = {"keyTab": "sasl.kerberos.keytab", "principal": "sasl.kerberos.principal"}
        for name in KERBEROS & self.java.keys():
            self.out[name] = self.java[name]
        self.out |= {ours: options[theirs] for theirs, ours in names.items() if options.get(theirs)}
        self.out.setdefault("sasl.kerberos.service.name", options.get("serviceName") or "kafka")

    def _token(self, options: Mapping[str, str]) -> None:
        handler = self.java.get("sasl.login.callback.handler.class", "").rpartition(".")[2]
        subject = options.get("unsecuredLoginStringClaim_sub")
        if handler == "IAMOAuthBearerLoginCallbackHandler":
            self._msk_iam(options)
        elif handler == "GcpLoginCallbackHandler":
            self.out[METHOD] = LoginMethod.GOOGLE
        elif handler and handler != "OAuthBearerLoginCallbackHandler":
            self._problem(
                "sasl.login.callback.handler.class: a class of Java; librdkafka fetches tokens itself with "
                "sasl.oauthbearer.token.endpoint.url, a client id and secret",
                "sasl.oauthbearer.method",
            )
        elif subject is not None:
            self.out |= {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={subject}",
            }
        elif "sasl.oauthbearer.token.endpoint.url" in self.out:
            self.out.setdefault("sasl.oauthbearer.method", "oidc")
            for option, name in (("clientId", "client.id"), ("clientSecret", "client.secret"), ("scope", "scope")):
                if option in options:
                    self.out.setdefault(f"sasl.oauthbearer.{name}", options[option])
            extensions = {k[len("extension_") :]: v for k, v in options.items() if k.startswith("extension_")}
            if extensions:
                self.out["sasl.oauthbearer.extensions"] = ",".join(f"{k}={v}" for k, v in extensions.items())
        elif not self.out.keys() & _LOGIN_PROPERTIES:
            self._problem(
                "expected sasl.oauthbearer.token.endpoint.url: where tokens are fetched", "sasl.oauthbearer.method"
            )


def _pem_wrapped(text: str) -> str:
    """PEM as OpenSSL wants it: Java takes it on one line, too."""

    def block(match: re.Match[str]) -> str:
        body = "".join(match[3].split())
        return "\n".join([match[1], *(body[at : at + 64] for at in range(0, len(body), 64)), match[4]])

    found = [block(it) for it in _PEM.finditer(text)]
    return "\n".join(found) + "\n" if found else text
