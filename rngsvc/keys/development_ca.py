"""A certificate authority of one's own, to try out mutual TLS. In production the room's own authority issues.

A folder holds `ca.pem` and `ca.key`, and for each certificate issued `NAME.pem` and `NAME.key`. All keys are ECDSA
P-256, because the TLS library inside gRPC does not take Ed25519 certificates unless told to.
"""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rngsvc.keys.identity import Identity
from rngsvc.keys.location import KeyUnavailable, read_secret
from rngsvc.keys.making import write_new, write_secret

CA_DAYS: Final = 365
CERTIFICATE_DAYS: Final = 90

# A clock that is a little behind must not refuse a certificate that has just been issued.
_BACKDATED: Final = timedelta(minutes=5)


def make_ca(folder: Path, now: datetime) -> None:
    """Write `ca.pem` and `ca.key` into `folder`, which is made if it is not there.

    Raises:
        KeyUnavailable: there is one already, or it cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise KeyUnavailable(f"{folder}: {error.strerror}") from None
    key = generate_private_key(SECP256R1())
    name = _name("rngsvc development CA")
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _builder(name, name, key, now, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(folder, "ca", key, certificate)


def issue_server(folder: Path, name: str, hosts: Sequence[str], now: datetime) -> None:
    """Write `NAME.pem` and `NAME.key` for a server that is reached under `hosts`, DNS names and IP addresses.

    Raises:
        KeyUnavailable: the folder has no authority, or the files exist or cannot be written.
    """
    alternative_names = [_host(host) for host in hosts]
    _issue(folder, name, alternative_names, ExtendedKeyUsageOID.SERVER_AUTH, now)


def issue_client(folder: Path, identity: Identity, now: datetime) -> str:
    """Write a certificate for `identity`; return NAME of its files, the role and the name joined by a hyphen.

    Raises:
        KeyUnavailable: the folder has no authority, or the files exist or cannot be written.
    """
    name = f"{identity.role}-{identity.name}"
    _issue(folder, name, [x509.UniformResourceIdentifier(identity.uri)], ExtendedKeyUsageOID.CLIENT_AUTH, now)
    return name


def _issue(
    folder: Path, name: str, names: Sequence[x509.GeneralName], usage: x509.ObjectIdentifier, now: datetime
) -> None:
    ca_key, ca = _load_ca(folder)
    key = generate_private_key(SECP256R1())
    certificate = (
        _builder(_name(name), ca.subject, key, now, CERTIFICATE_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    _write(folder, name, key, certificate)


def _load_ca(folder: Path) -> tuple[EllipticCurvePrivateKey, x509.Certificate]:
    try:
        certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
        key = load_pem_private_key(read_secret(f"file:{folder / 'ca.key'}"), password=None)
    except (OSError, ValueError, TypeError):
        raise KeyUnavailable(f"{folder}: holds no readable ca.pem and ca.key; make the authority first") from None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise KeyUnavailable(f"{folder / 'ca.key'}: must be an ECDSA key")
    return key, certificate


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=days))
    )


def _write(folder: Path, name: str, key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_secret(folder / f"{name}.key", pem)
    write_new(folder / f"{name}.pem", certificate.public_bytes(Encoding.PEM), 0o644)


def _name(common_name: str) -> x509.Name:
    # X.509 allows 64 characters; what counts is the alternative name.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
