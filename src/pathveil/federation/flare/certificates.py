"""Keys made where they are used: a participant asks for a certificate, the authority signs, no private key travels.

    site$       federate request north --out north    north/startup/client.key stays; north/request.csr is handed over
    authority$  federate sign north.csr … --out kits   kits/north: the certificate and all the rest of a kit, no key
    site$       federate accept north kits/north       north is a whole kit

A request shows that its maker has the key (it is signed with it) and names who asks; everything else in a certificate
is the authority's decision. Both ends print a fingerprint of the key, to be compared by telephone: whoever could put
another request in a site's place would be that site.

``KeyCertBuilder`` takes the place of the builder that FLARE has for certificates. FLARE's keeps every participant's
private key in the authority's folder; this one keeps certificates only.
"""

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from nvflare.lighter.constants import CtxKey, ParticipantType, PropKey
from nvflare.lighter.ctx import ProvisionContext
from nvflare.lighter.entity import Participant
from nvflare.lighter.impl.cert import DEFAULT_CERT_VALID_DAYS, CertBuilder
from nvflare.lighter.utils import Identity, generate_cert, serialize_cert, serialize_pri_key

from pathveil.errors import UsageError
from pathveil.federation.flare import policy
from pathveil.federation.flare.signed_kit import check_description, files_of, role_of
from pathveil.federation.identity import UNREADABLE, revoked_serials
from pathveil.files import new_file, read_json, write_json
from pathveil.untrusted import parse_json, read_bytes

Kind = Literal["hub", "site"]  # an administrator's kit has a site's files
KEY = {"hub": "server.key", "site": "client.key"}
REQUEST, NEXT = "request.csr", ".next"  # a key that waits for its certificate while the old one is in use
DAYS = datetime.timedelta(days=DEFAULT_CERT_VALID_DAYS)
MOST_BYTES = 20_000  # of a request or a certificate
BITS = (2048, 8192)  # least and most of a key
ISSUED = "issued.json"  # in the authority's folder: every certificate that was ever signed


@dataclass(frozen=True)
class Request:
    """A participant's request as the authority reads it."""

    name: str
    key: rsa.RSAPublicKey

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.key)


def fingerprint_of(key: Any) -> str:
    """A public key's fingerprint, short enough to be read out: 32 digits in groups of four."""
    shown = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    digits = hashlib.sha256(shown).hexdigest()[:32]
    return " ".join(digits[start : start + 4] for start in range(0, len(digits), 4))


def make_request(name: str, kind: Kind, folder: Path) -> Request:
    """Make a key in a folder and a request for a certificate of it; in a whole kit, a new key beside the one in use."""
    path = folder / "startup" / KEY[kind]
    renewal = path.exists()
    if not renewal and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: is there already, and is not a kit of {name}; choose another folder")
    if renewal and (known := name_in(certificate_of(path.with_suffix(".crt")))) != name:
        raise UsageError(f"{folder}: is the kit of {known}, not of {name}")
    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS[0])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    with new_file(path.with_name(path.name + NEXT) if renewal else path, private=True) as part:
        part.write_bytes(serialize_pri_key(key))
    with new_file(folder / REQUEST) as part:
        part.write_bytes(asked.public_bytes(serialization.Encoding.PEM))
    return Request(name, key.public_key())


def read_request(path: Path) -> Request:
    """A request in a file, if whoever made it has the key: the rest of what it may say is not looked at."""
    content = bytes_of(path, "a request for a certificate")
    if b"PRIVATE KEY" in content:
        raise UsageError(f"{path}: is a private key; give the request ({REQUEST}), and let the key stay where it is")
    try:
        asked = x509.load_pem_x509_csr(content)
        names = asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        sound, key = asked.is_signature_valid, asked.public_key()
    except UNREADABLE:
        sound, names, key = False, [], None
    if not sound or len(names) != 1:
        raise UsageError(f"{path}: is not a request for a certificate, as 'pathveil federate request' makes it")
    if not isinstance(key, rsa.RSAPublicKey) or not BITS[0] <= key.key_size <= BITS[1]:
        raise UsageError(f"{path}: its key is not RSA with {BITS[0]} to {BITS[1]} bits")
    return Request(str(names[0].value), key)


def accept(folder: Path, signed: Path, *, fingerprint: str | None = None) -> str:
    """Put what the authority signed beside the key it was signed for; the fingerprint of the authority's own key.

    Nothing is changed where the certificate is of another key or another name, is not the authority's, or the authority
    is another than the kit had before or than ``fingerprint`` says. Of what is in ``signed`` no more is taken than
    ``signed_kit`` names; the policy of a new kit is made here.
    """
    role = role_of(signed)
    files = files_of(signed, role)
    kind: Kind = "hub" if role == "hub" else "site"
    path = folder / "startup" / KEY[kind]
    root = certificate_of(signed / "startup" / "rootCA.pem")
    certificate = certificate_of((signed / "startup" / KEY[kind]).with_suffix(".crt"))
    shown = fingerprint_of(root.public_key())
    if fingerprint is not None and "".join(fingerprint.split()).lower() != shown.replace(" ", ""):
        raise UsageError(f"{signed}: its authority's fingerprint is {shown}, not the one given")
    try:
        certificate.verify_directly_issued_by(root)
    except UNREADABLE:
        raise UsageError(f"{signed}: its certificate is not signed by the authority that comes with it") from None
    known = folder / "startup" / "rootCA.pem"
    if known.exists() and certificate_of(known) != root:
        raise UsageError(f"{signed}: comes from another authority than the kit {folder}; begin a new folder")
    waiting = path.with_name(path.name + NEXT)
    mine = next((one for one in (waiting, path) if one.exists() and key_of(one) == certificate.public_key()), None)
    if mine is None:
        raise UsageError(f"{signed}: its certificate is not for the key in {folder}; was it made for another request?")
    name = name_in(certificate)
    wanted = folder / REQUEST
    if wanted.exists() and read_request(wanted).name != name:
        raise UsageError(f"{signed}: is signed for {name}, and {folder} asked for another name")
    check_description(signed, role, name)
    for place, found in files.items():
        with new_file(folder / place) as part:
            part.write_bytes(bytes_of(found, "a file of a signed kit"))
    if role != "admin" and not (folder / "local").exists():  # once it is there it is the participant's own
        policy.write(folder / "local", policy.hub(folder.resolve()) if role == "hub" else policy.site())
    if mine == waiting:
        with new_file(path, private=True) as part:
            part.write_bytes(waiting.read_bytes())
        waiting.unlink()
    (folder / REQUEST).unlink(missing_ok=True)
    return shown


class KeyCertBuilder(CertBuilder):
    """FLARE's certificates, signed for keys that participants asked with, or for new ones that only the kit gets."""

    def __init__(self, root_valid_days: int, requests: Mapping[str, str] | None = None):
        super().__init__(root_valid_days=root_valid_days)
        self.requests = dict(requests or {})  # name: the file of its request

    def _validate_existing_root_validity(self) -> None:
        """An authority stays as it was made."""

    def _build_write_cert_pair(self, participant: Participant, base_name: str, ctx: ProvisionContext) -> None:
        subject, folder = participant.subject, Path(ctx.get_kit_dir(participant))
        (folder / "rootCA.pem").write_bytes(serialize_cert(self.authority))
        asked = self.requests.get(participant.name)
        if asked is None and (self.requests or self.state.has_subject(subject)):
            return  # did not ask, or has its kit already
        if asked is None:
            key, certificate = self.get_pri_key_cert(participant)
            with new_file(folder / f"{base_name}.key", private=True) as part:
                part.write_bytes(serialize_pri_key(key))
        else:
            certificate = self.signed_for(participant, read_request(Path(asked)).key)
        self.state.add_subject_cert(subject, serialize_cert(certificate).decode("ascii"))
        (folder / f"{base_name}.crt").write_bytes(serialize_cert(certificate))

    def signed_for(self, participant: Participant, key: rsa.RSAPublicKey) -> x509.Certificate:
        """A certificate as FLARE makes it, of another's key."""
        now = datetime.datetime.now(datetime.UTC)
        server = participant.type == ParticipantType.SERVER
        return generate_cert(
            subject=Identity(participant.subject, participant.org, participant.get_prop(PropKey.ROLE)),
            issuer=Identity(str(self.issuer)),
            signing_pri_key=self.pri_key,
            subject_pub_key=key,
            server_default_host=participant.get_default_host() if server else None,
            server_additional_hosts=participant.get_prop(PropKey.HOST_NAMES) if server else None,
            not_valid_before=now,
            not_valid_after=min(self.authority.not_valid_after_utc, now + DAYS),
        )

    @property
    def state(self) -> Any:
        """What FLARE keeps between two calls: the authority's key and the certificates."""
        return self.persistent_state

    @property
    def authority(self) -> x509.Certificate:
        assert self.root_cert is not None  # made or read before any other
        return self.root_cert

    def finalize(self, project: Any, ctx: ProvisionContext) -> None:
        """Keep the authority's state, readable by its owner alone."""
        with new_file(Path(self.state.state_dir) / self.state.CERT_STATE_FILE, private=True) as part:
            part.write_text(json.dumps(self.state.content), encoding="utf-8")


class Authority:
    """The authority's folder: its key, and what it has signed."""

    def __init__(self, folder: Path):
        self.folder = folder
        found = sorted(folder.rglob("cert.json"))
        if len(found) != 1:
            raise UsageError(f"{folder}: is not the folder of an authority, as 'federate provision' or 'sign' makes it")
        try:
            state = parse_json(read_bytes(found[0]))
            self.state: dict[str, Any] = state
            self.root = x509.load_pem_x509_certificate(state[CtxKey.ROOT_CERT].encode())
            key = serialization.load_pem_private_key(state[CtxKey.ROOT_PRI_KEY].encode(), password=None)
        except (OSError, KeyError, AttributeError, *UNREADABLE):
            raise UsageError(
                f"{found[0]}: is not the state of an authority; restore it from where it is kept"
            ) from None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise UsageError(f"{found[0]}: its key is not RSA")
        self.key = key

    def issued(self) -> list[dict[str, Any]]:
        """Every certificate that was signed: name, serial number, last day."""
        path = self.folder / ISSUED
        return list(read_json(path).get("certificates", [])) if path.exists() else []

    def note(self) -> None:
        """Write down the certificates that are new."""
        known = self.issued()
        serials = {one["serial"] for one in known}
        for subject, content in self.state.items():
            if isinstance(content, dict) and "cert" in content:
                certificate = x509.load_pem_x509_certificate(content["cert"].encode())
                if str(certificate.serial_number) not in serials:
                    ends = certificate.not_valid_after_utc.date().isoformat()
                    known.append({"name": subject, "serial": str(certificate.serial_number), "ends": ends})
        write_json(self.folder / ISSUED, {"certificates": known}, private=True)

    def revoke(self, name: str, *, keep: str = "", out: Path) -> list[str]:
        """Add all certificates of a participant, but for the serial number to keep, to the signed list; those added."""
        serials = [one["serial"] for one in self.issued() if one["name"] == name and one["serial"] != keep]
        if not serials:
            names = sorted({one["name"] for one in self.issued()})
            raise UsageError(
                f"{name}: has no certificate of this authority to revoke; it signed for {', '.join(names)}"
            )
        before = revoked_serials(out, self.root) if out.exists() else frozenset()
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.root.subject).last_update(now)
        builder = builder.next_update(self.root.not_valid_after_utc)
        for serial in sorted(before | {int(serial) for serial in serials}):
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
            builder = builder.add_revoked_certificate(entry)
        with new_file(out) as part:
            part.write_bytes(builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return [serial for serial in serials if int(serial) not in before]


def days_left(kit: Path, *, now: datetime.datetime | None = None) -> int:
    """Whole days until a kit's certificate ends; below 0 where it has ended."""
    paths = [kit / "startup" / name for name in ("server.crt", "client.crt")]
    found = next((path for path in paths if path.is_file()), paths[1])
    return (certificate_of(found).not_valid_after_utc - (now or datetime.datetime.now(datetime.UTC))).days


def certificate_of(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(bytes_of(path, "a certificate"))
    except UNREADABLE:
        raise UsageError(f"{path}: is not a certificate") from None


def key_of(path: Path) -> Any:
    """The public half of a private key in a file."""
    try:
        return serialization.load_pem_private_key(bytes_of(path, "a key"), password=None).public_key()
    except UNREADABLE:
        raise UsageError(f"{path}: is not a key as 'pathveil federate request' makes it") from None


def name_in(certificate: x509.Certificate) -> str:
    names: Sequence[x509.NameAttribute] = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def bytes_of(path: Path, what: str, *, most: int = MOST_BYTES) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as fault:
        raise UsageError(
            f"{path}: cannot be read ({fault.strerror or type(fault).__name__}); expected {what}"
        ) from None
    if len(content) > most:
        raise UsageError(f"{path}: is larger than {what} can be")
    return content
