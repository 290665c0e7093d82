"""Certificates and signed tokens that protect SeaweedFS's internal ports.

Only its S3 port checks credentials by default. The others require a certificate whose private key only this user can read;
requests through local sockets carry a signed token.
"""

import ipaddress
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from infra.services.secrets import ensure_secret, write_private

_CERTIFICATE, _KEY = "certificate.pem", "key.pem"
_VALID = (datetime(2000, 1, 1), datetime(9999, 12, 31, 23, 59, 59))
"""Independent of this machine's clock; X.509 writes "forever" as 9999."""
_TOKENS = ("jwt.signing", "jwt.signing.read", "jwt.filer_signing", "jwt.filer_signing.read")
_GRPC = ("volume", "master", "filer", "s3", "client")
_HTTPS = ("volume", "master", "filer", "client")
_TOKEN_SECONDS = 3600
"""Tokens never leave the process; the default of 10 s expires if the machine sleeps before one is used."""


def write_security(folder: Path) -> Path:
    """The folder for `weed -config_dir`, inside `folder`. Keys are created once, and survive a move of `folder`."""
    own = folder / "security"
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (own / _CERTIFICATE).exists():
        key, certificate = new_certificate()
        write_private(own / _KEY, key)
        write_private(own / _CERTIFICATE, certificate)
    sections: dict[str, Mapping[str, object]] = {
        name: {"key": ensure_secret(own / name), "expires_after_seconds": _TOKEN_SECONDS} for name in _TOKENS
    }
    certificate_path, key_path = str(own / _CERTIFICATE), str(own / _KEY)
    shown = {"cert": certificate_path, "key": key_path}
    sections["grpc"] = {"ca": certificate_path}
    sections |= {f"grpc.{name}": shown for name in _GRPC}
    sections |= {f"https.{name}": {**shown, "ca": certificate_path} for name in _HTTPS}
    sections["https.client"] = {**sections["https.client"], "enabled": True}
    write_private(own / "security.toml", _toml(sections).encode())
    return own


def new_certificate() -> tuple[bytes, bytes]:
    """(key, certificate) as PEM: a new self-signed key for this machine's loopback address."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "troupe")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), *_VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding, no_password = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, no_password)
    return private, certificate.public_bytes(encoding)


def _toml(sections: Mapping[str, Mapping[str, object]]) -> str:
    # JSON writes strings, integers and booleans as TOML does, except for one control character.
    lines = []
    for name, values in sections.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return "\n".join([*lines, ""]).replace("\x7f", "\\u007f")
