"""Classifies errors of S3 servers and clients, with a one-line message without secrets."""

from dataclasses import dataclass
from typing import Any, Literal

Meaning = Literal["retry", "missing", "exists", "refused"]

_RETRY_CODES = {
    "SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "TooManyRequests", "ThrottlingException",
    "IncompleteBody", "BadDigest", "XAmzContentChecksumMismatch", "NoSuchUpload", "InvalidPart", "OperationAborted",
    "ConditionalRequestConflict",
}  # fmt: skip
"""NoSuchUpload and InvalidPart: a server that restarted forgot a multipart upload, which then begins again."""

_CREDENTIAL_CODES = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "401"}
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
        return _answered(error.response, answered_status(error))
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return Verdict("refused", f"no AWS credentials found: {_CREDENTIALS_REMEDY}")
    if isinstance(error, exceptions.CredentialRetrievalError | exceptions.ProfileNotFound):
        return Verdict("refused", f"the AWS credentials cannot be read: {_CREDENTIALS_REMEDY}")
    passing = (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError)
    if isinstance(error, exceptions.BotoCoreError) and not isinstance(error, passing):
        return Verdict("refused", f"the S3 client refuses the call: {error}")
    return Verdict("retry", type(error).__name__)


def answered_status(error: object) -> int:
    """The HTTP status of the response behind a botocore exception; 0 if there was none."""
    response = getattr(error, "response", None)
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)) if isinstance(response, dict) else 0


def _answered(response: Any, status: int) -> Verdict:
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
    if code in _CREDENTIAL_CODES:
        return Verdict("refused", f"the server does not accept the credentials ({code}): {_CREDENTIALS_REMEDY}")
    if code == "RequestTimeTooSkewed":
        return Verdict("refused", "this machine's clock is too far from the server's: correct it")
    if status == 403:
        return Verdict(
            "refused", f"access denied ({code}): {_CREDENTIALS_REMEDY} that may read, write, list and delete"
        )
    if status == 507:
        return Verdict("refused", "the server has no space left: free some (troupe gc) or choose another store")
    if status >= 500 and status != 501:
        return Verdict("retry", f"{status} {code}")
    return Verdict("refused", f"the server answered {status} {code}")
