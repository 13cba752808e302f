"""Certificates for tests: one for localhost that no authority has signed, and an authority that signs others."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def self_signed(folder: Path) -> ssl.SSLContext:
    """A server's TLS context with a certificate that it made itself; its files are written to `folder`."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate("localhost", "localhost", key.public_key()).sign(key, hashes.SHA256())
    return _context(folder / "localhost.pem", key, certificate)


class Authority:
    """Signs certificates. Whoever trusts `file` trusts them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = self._key.public_key()
        certificate = (
            _certificate("Tests' authority", "Tests' authority", public)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / "authority.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def context(self, host: str) -> ssl.SSLContext:
        """The TLS context of a server for `host`."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            _certificate(host, "Tests' authority", key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return _context(self._folder / f"{host}.pem", key, certificate)


def _certificate(host: str, issuer: str, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
    named = host != issuer or host == "localhost"
    alternative = x509.SubjectAlternativeName([x509.DNSName(host)])
    return builder.add_extension(alternative, critical=False) if named else builder


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _context(file: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> ssl.SSLContext:
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
