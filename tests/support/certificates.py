"""Certificates of an authority of our own, for servers and clients of tests."""

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

__all__ = ["Authority"]

_LOOPBACK = x509.IPAddress(IPv4Address("127.0.0.1"))
_SIGNING = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """Writes its own certificate, and those that it issues for this machine, into ``folder``."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = _builder(self._name, self._name, self._key)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        own = own.add_extension(_SIGNING, critical=True)
        own = own.add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        self.certificate = self._write(f"{name}.pem", own)

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return the files of a certificate and of its key."""
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        key = ec.generate_private_key(ec.SECP256R1())
        issued = _builder(subject, self._name, key)
        issued = issued.add_extension(x509.SubjectAlternativeName([_LOOPBACK]), critical=False)
        # without it, Python refuses a certificate from 3.13 on
        by = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        issued = issued.add_extension(by, critical=False)
        file = self._folder / f"{name}.key"
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return self._write(f"{name}.pem", issued), file

    def _write(self, file: str, builder: x509.CertificateBuilder) -> Path:
        path = self._folder / file
        path.write_bytes(builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM))
        return path


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now, day = datetime.now(UTC), timedelta(days=1)
    number = x509.random_serial_number()
    return x509.CertificateBuilder(issuer, subject, key.public_key(), number, now - day, now + day)
