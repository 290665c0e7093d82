"""Classifies errors of S3 servers and clients, with a one-line message without secrets."""

import re
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal

Meaning = Literal["retry", "missing", "exists", "refused"]

_RETRY_CODES = {
    "SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "TooManyRequests", "ThrottlingException",
    "IncompleteBody", "BadDigest", "XAmzContentChecksumMismatch", "NoSuchUpload", "InvalidPart", "OperationAborted",
    "ConditionalRequestConflict",
}  # fmt: skip
"""NoSuchUpload and InvalidPart: a server that restarted forgot a multipart upload, which then begins again."""

_CREDENTIAL_CODES = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "401"}
_EXPIRED_CODES = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
_CLOCK_CODES = {"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"}
_REGION_CODES = {
    "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "InvalidRegion", "PermanentRedirect",
    "InvalidLocationConstraint",
}  # fmt: skip
_HOST_CODES = {
    "SecondLevelDomainForbidden",
    "PathStyleDomainForbidden",
    "VirtualHostDomainRequired",
    "InvalidPathAccess",
}
"""Of Alibaba's, Tencent's, Huawei's and Volcengine's stores."""
_WANTED_REGION = re.compile(r"expecting '([a-z0-9-]{1,40})'|expected:? \d{8}/([a-z0-9-]{1,40})/s3")
_CLOCK_TOLERANCE_SECONDS = 600.0
"""AWS refuses a request whose time differs by 15 minutes."""
_CREDENTIALS_REMEDY = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws/credentials"


@dataclass(frozen=True, slots=True)
class Verdict:
    """retry: may succeed later. missing: no such object. exists: create-if-absent lost. refused: will fail again."""

    meaning: Meaning
    line: str


def verdict_on(error: Exception) -> Verdict:
    """The classification of a botocore exception. `line` holds codes and names, never what the client signed or sent."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        return _answer(error.response, read_status(error))
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return Verdict("refused", f"no AWS credentials found: {_CREDENTIALS_REMEDY}")
    if isinstance(error, exceptions.CredentialRetrievalError | exceptions.ProfileNotFound):
        return Verdict("refused", f"the AWS credentials cannot be read: {_CREDENTIALS_REMEDY}")
    passing = (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError)
    if isinstance(error, exceptions.BotoCoreError) and not isinstance(error, passing):
        return Verdict("refused", f"the S3 client refuses the call: {error}")
    return Verdict("retry", type(error).__name__)


def read_status(error: object) -> int:
    """The HTTP status of the response behind a botocore exception; 0 if there was none."""
    response = getattr(error, "response", None)
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)) if isinstance(response, dict) else 0


def _answer(response: Any, status: int) -> Verdict:
    """The verdict on an error response."""
    code = str(response.get("Error", {}).get("Code", "Unknown"))
    if code == "NoSuchBucket":
        return Verdict("refused", "the bucket does not exist: create it, or name another one in store.bucket")
    if code in _RETRY_CODES or status in (409, 429):
        return Verdict("retry", f"{status} {code}")
    if status == 412:
        return Verdict("exists", code)
    if status == 404:
        return Verdict("missing", code)
    if reason := _find_cause(code, response):
        return Verdict("refused", reason)
    if code in _CREDENTIAL_CODES:
        return Verdict("refused", f"the server does not accept the credentials ({code}): {_CREDENTIALS_REMEDY}")
    if status == 403:
        return Verdict(
            "refused", f"access denied ({code}): {_CREDENTIALS_REMEDY} that may read, write, list and delete"
        )
    if status == 507:
        return Verdict("refused", "the server has no space left: free some (troupe gc) or choose another store")
    if status >= 500 and status != 501:
        return Verdict("retry", f"{status} {code}")
    return Verdict("refused", f"the server answered {status} {code}".removesuffix(f" {status}"))


def _find_cause(code: str, response: Any) -> str | None:
    """What else than missing rights is behind a refusal, and its remedy."""
    if code in _EXPIRED_CODES:
        return f"the session token has expired ({code}): get new credentials, as by `aws sso login`, or set AWS_SESSION_TOKEN"
    if code in _REGION_CODES:
        found = _WANTED_REGION.search(str(response["Error"].get("Message", "")))
        wanted = response["Error"].get("Region") or (found and (found[1] or found[2]))
        return f"the region is wrong ({code}): set store.region{f' to {wanted}' if wanted else ''}, or AWS_REGION"
    if code in _HOST_CODES:
        return f"the server wants the bucket in its host's name ({code}): set store.addressing to virtual"
    metadata = response.get("ResponseMetadata", {})
    if code in _CLOCK_CODES or (metadata.get("HTTPStatusCode") in (400, 401, 403) and _is_clock_off(metadata)):
        return "this machine's clock is too far from the server's: correct it"
    return None


def _is_clock_off(metadata: Any) -> bool:
    """Whether the time in an answer's header differs from this machine's."""
    try:
        theirs = parsedate_to_datetime(metadata.get("HTTPHeaders", {})["date"])
    except (KeyError, ValueError, TypeError):
        return False
    return theirs.tzinfo is not None and abs(theirs.timestamp() - time.time()) > _CLOCK_TOLERANCE_SECONDS
