"""What an S3 server's or client's complaint means for us, as one verdict and one line without secrets."""

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
    """retry: it may pass. missing: no such object. exists: create-if-absent lost. refused: it will never work."""

    meaning: Meaning
    line: str


def verdict(error: Exception) -> Verdict:
    """What a botocore exception means. `line` holds codes and names, never what the client signed or sent."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        return _answered(error.response)
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return Verdict("refused", f"no AWS credentials found: {_CREDENTIALS_REMEDY}")
    if isinstance(error, exceptions.CredentialRetrievalError | exceptions.ProfileNotFound):
        return Verdict("refused", f"the AWS credentials cannot be read: {_CREDENTIALS_REMEDY}")
    passing = (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError)
    if isinstance(error, exceptions.BotoCoreError) and not isinstance(error, passing):
        return Verdict("refused", f"the S3 client refuses the call: {error}")
    return Verdict("retry", type(error).__name__)


def answered_status(error: object) -> int:
    """The HTTP status of the answer that a botocore exception stands for; 0 when there was none."""
    response = getattr(error, "response", None)
    return _status(response) if isinstance(response, dict) else 0


def _status(response: Any) -> int:
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _answered(response: Any) -> Verdict:
    """The verdict on an error response of the server."""
    code = str(response.get("Error", {}).get("Code", "Unknown"))
    status = _status(response)
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
        return Verdict("refused", "this machine's clock is too far from the server's: set it right")
    if status == 403:
        return Verdict(
            "refused", f"access denied ({code}): {_CREDENTIALS_REMEDY} that may read, write, list and delete"
        )
    if status == 507:
        return Verdict("refused", "the server has no space left: free some (troupe gc) or choose another store")
    if status >= 500 and status != 501:
        return Verdict("retry", f"{status} {code}")
    return Verdict("refused", f"the server answered {status} {code}")
