"""Keys stay where they were made: requests, signed kits, renewal, revocation, and what an authority keeps."""

import datetime
import json
import stat
from base64 import encodebytes
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'pathveil[federation]'")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from pathveil.cli import app
from pathveil.errors import UsageError
from pathveil.federation.flare import certificates, revocation
from pathveil.federation.flare.certificates import accept, certificate_of, days_left, key_of, read_request
from pathveil.federation.flare.processes import check_kit
from pathveil.federation.flare.provision import ask, provision, revoke, sign

HUB = "hub.example.org:8443"
NAMES = {"hub": "hub.example.org", "north": "north", "south": "south", "lead": "lead@example.org"}


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Four participants with keys of their own, and an authority that signed for them: their folders."""
    folder = tmp_path_factory.mktemp("federation")
    asked = {place: ask(name, kind=None, out=folder / place) for place, name in NAMES.items()}
    handed = []
    for place, one in asked.items():
        handed.append(folder / f"{place}.csr")
        handed[-1].write_bytes(one.request.read_bytes())
    kits = sign(handed, hub=HUB, out=folder / "kits")
    assert kits.fingerprints == {one.name: one.fingerprint for one in asked.values()}
    for place, name in NAMES.items():
        accept(folder / place, kits.kits["hub" if place == "hub" else name])
    return folder


def private_keys(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]


def test_no_file_of_the_authority_holds_a_participants_key(federation):
    (state,) = private_keys(federation / "kits")
    content = json.loads(state.read_text())
    assert state.read_text().count("PRIVATE KEY") == 2 and "PRIVATE KEY" in content["root_pri_key"]  # begin and end
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    for place in NAMES:
        (key,) = private_keys(federation / place)
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert stat.S_IMODE((federation / place).stat().st_mode) == 0o700


def test_kits_made_in_one_place_leave_no_key_with_the_authority_either(tmp_path):
    kits = provision(sites=["north", "south"], hub=HUB, admin="lead@example.org", out=tmp_path).kits
    assert len(private_keys(tmp_path / "authority")) == 1 and len(private_keys(tmp_path)) == 5
    state = next((tmp_path / "authority").rglob("cert.json"))
    assert state.read_text().count("PRIVATE KEY") == 2
    # A site is added, and one whose kit was handed over and removed does not get another in its name.
    for path in sorted(kits["south"].rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    kits["south"].rmdir()
    more = provision(sites=["north", "south", "west"], hub=HUB, admin="lead@example.org", out=tmp_path).kits
    assert set(more) == {"hub", "north", "west", "lead@example.org"} and not kits["south"].exists()


def test_a_signed_kit_is_whole_and_its_certificate_is_for_the_key(federation):
    for place, name in NAMES.items():
        kit, own = federation / place, "server" if place == "hub" else "client"
        certificate = certificate_of(kit / "startup" / f"{own}.crt")
        assert certificate.public_key() == key_of(kit / "startup" / f"{own}.key")
        (shown,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        assert shown.value == name
        certificate.verify_directly_issued_by(certificate_of(kit / "startup" / "rootCA.pem"))
        assert 355 < days_left(kit) <= 360 and not (kit / "request.csr").exists()
    for place, file in (("hub", "fed_server.json"), ("north", "fed_client.json"), ("lead", "fed_admin.json")):
        check_kit(federation / place, file, kind="participant")
    assert json.loads((federation / "north" / "local" / "resources.json").read_text())["class_allow_list"]
    assert "hub.example.org" in (federation / "north" / "startup" / "fed_client.json").read_text()


def test_a_signed_kit_without_its_key_does_not_start(federation):
    with pytest.raises(UsageError, match="has no key; put it beside the key"):
        check_kit(federation / "kits" / "north", "fed_client.json", kind="site")


def test_a_certificate_is_renewed_with_a_new_key_and_the_old_one_revoked(federation, tmp_path):
    kit = federation / "north"
    old = certificate_of(kit / "startup" / "client.crt")
    asked = ask("north", kind=None, out=kit)
    assert key_of(kit / "startup" / "client.key") == old.public_key()  # in use until the new one is signed
    with pytest.raises(UsageError, match=r"north has a certificate already; .* give --renew north"):
        sign([asked.request], hub=HUB, out=federation / "kits")
    (kit / "local" / "resources.json").write_text("{}")  # the site's own
    signed = sign([asked.request], hub=HUB, out=federation / "kits", renew=["north"]).kits["north"]
    accept(kit, signed)
    new = certificate_of(kit / "startup" / "client.crt")
    assert new.public_key() == key_of(kit / "startup" / "client.key") != old.public_key()
    assert (kit / "local" / "resources.json").read_text() == "{}" and not list(kit.rglob("*.next"))
    # Revoked, the old one is let in no more, the new one is.
    assert revoke("north", kits=federation / "kits", older=True) == "north: 1 certificate revoked"
    hub = federation / "hub"
    assert not revocation.is_revoked(old, hub)
    assert revocation.take_list(hub, federation / "kits" / "revoked.pem") == 1
    assert revocation.is_revoked(old, hub) and not revocation.is_revoked(new, hub)
    # An older list does not take the place of a newer one, nor one of another authority or a damaged one.
    revoke("south", kits=federation / "kits")
    older = (hub / "startup" / "revoked.pem").read_bytes()
    revocation.take_list(hub, federation / "kits" / "revoked.pem")
    assert revocation.is_revoked(certificate_of(federation / "south" / "startup" / "client.crt"), hub)
    (tmp_path / "old.pem").write_bytes(older)
    with pytest.raises(UsageError, match="an older list would let them in again"):
        revocation.take_list(hub, tmp_path / "old.pem")
    for content in (b"", b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n", another_authoritys_list()):
        (tmp_path / "bad.pem").write_bytes(content)
        with pytest.raises(UsageError, match="that this federation's authority signed"):
            revocation.take_list(hub, tmp_path / "bad.pem")
    (hub / "startup" / "revoked.pem").write_bytes(b"damaged")
    assert revocation.is_revoked(new, hub)  # nobody is let in


def another_authoritys_list() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pathveil")])
    builder = x509.CertificateRevocationListBuilder().issuer_name(name).last_update(now).next_update(now)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_the_hub_asks_the_list_wherever_flare_checks_a_certificate(federation, monkeypatch, caplog):
    from nvflare.private.fed.utils.identity_utils import IdentityVerifier, InvalidAsserterCert

    monkeypatch.setattr(IdentityVerifier, "verify_common_name", lambda *given, **options: True)
    revocation.start(federation / "hub")
    verifier = IdentityVerifier(str(federation / "hub" / "startup" / "rootCA.pem"))
    certificate = certificate_of(federation / "lead" / "startup" / "client.crt")
    monkeypatch.setattr(revocation, "is_revoked", lambda shown, kit: shown == certificate)
    with pytest.raises(InvalidAsserterCert):
        verifier.verify_common_name("lead@example.org", "", certificate, b"")
    assert "the certificate of lead@example.org was revoked" in caplog.text
    monkeypatch.setattr(revocation, "is_revoked", lambda shown, kit: False)
    assert verifier.verify_common_name("lead@example.org", "", asserter_cert=certificate, signature=b"")


def request_for(name: str, key, *, tampered: bool = False) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    der = bytearray(made.public_bytes(serialization.Encoding.DER))
    if tampered:
        der[-1] ^= 1
        title = b"CERTIFICATE REQUEST-----\n"
        return b"-----BEGIN " + title + encodebytes(bytes(der)) + b"-----END " + title
    return made.public_bytes(serialization.Encoding.PEM)


def test_requests_that_are_none_are_refused_and_nothing_is_signed(tmp_path):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    bad = {
        "is a private key; give the request": plain,
        "is not a request for a certificate": b"hello",
        "is not a request for a certificate, as": request_for("north", key, tampered=True),
        "its key is not RSA": request_for("north", ec.generate_private_key(ec.SECP256R1())),
        "is larger than a request": b"-" * 30_000,
        "is not a name of at most 40 letters": request_for("../../etc", key),
        "is a word of the system's own": request_for("hub", key),
        "is neither a name nor a mail address": request_for("a b@c", key),
    }
    for sentence, content in bad.items():
        (tmp_path / "x.csr").write_bytes(content)
        with pytest.raises(UsageError, match=sentence):
            sign([tmp_path / "x.csr"], hub=HUB, out=tmp_path / "kits")
    with pytest.raises(UsageError, match="cannot be read"):
        read_request(tmp_path / "none.csr")
    (tmp_path / "x.csr").write_bytes(request_for("north", key))
    with pytest.raises(UsageError, match="two requests are for the same name"):
        sign([tmp_path / "x.csr"] * 2, hub=HUB, out=tmp_path / "kits")
    assert not (tmp_path / "kits").exists()


def test_what_was_signed_for_another_key_or_by_another_authority_is_not_accepted(federation, tmp_path):
    before = {path: path.read_bytes() for path in (federation / "south").rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="its certificate is not for the key in"):
        accept(federation / "south", federation / "kits" / "north")
    with pytest.raises(UsageError, match=r"its authority's fingerprint is .*, not the one given"):
        accept(federation / "south", federation / "kits" / "south", fingerprint="0000")
    other = ask("south", kind=None, out=tmp_path / "south")
    foreign = sign([other.request], hub=HUB, out=tmp_path / "kits").kits["south"]
    with pytest.raises(UsageError, match="comes from another authority"):
        accept(federation / "south", foreign)
    (foreign / "startup" / "rootCA.pem").write_bytes(
        (federation / "kits" / "south" / "startup" / "rootCA.pem").read_bytes()
    )
    with pytest.raises(UsageError, match="is not signed by the authority that comes with it"):
        accept(tmp_path / "south", foreign)
    assert before == {path: path.read_bytes() for path in (federation / "south").rglob("*") if path.is_file()}
    shown = certificates.fingerprint_of(certificate_of(federation / "south" / "startup" / "rootCA.pem").public_key())
    assert accept(federation / "south", federation / "kits" / "south", fingerprint=shown.upper()) == shown


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        ("so uth", None, "is not a name of at most 40 letters"),
        ("hub.example.org:80", "hub", "is not a host name alone"),
        ("lead@", None, "is not a mail address"),
        ("north", "boss", "is not one of site, hub, admin"),
    ],
)
def test_bad_names_are_one_sentence(name, kind, sentence, tmp_path):
    with pytest.raises(UsageError, match=sentence):
        ask(name, kind=kind, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_key_is_never_overwritten(federation, tmp_path):
    with pytest.raises(UsageError, match="is the kit of south, not of north"):
        ask("north", kind=None, out=federation / "south")
    (tmp_path / "file").write_text("something")
    with pytest.raises(UsageError, match="is there already, and is not a kit of west"):
        ask("west", kind=None, out=tmp_path)
    with pytest.raises(UsageError, match="west: has no certificate of this authority to revoke"):
        revoke("west", kits=federation / "kits")
    with pytest.raises(UsageError, match="is not the folder of an authority"):
        revoke("west", kits=tmp_path)


def test_a_certificate_that_has_ended_or_ends_soon_is_said(federation, monkeypatch, caplog):
    for left, sentence in ((-1, "its certificate has ended"), (5, "")):
        monkeypatch.setattr(certificates, "days_left", lambda kit, left=left: left)
        if sentence:
            with pytest.raises(UsageError, match=sentence):
                check_kit(federation / "lead", "fed_admin.json", kind="person")
        else:
            check_kit(federation / "lead", "fed_admin.json", kind="person")
            assert "ends in 5 days" in caplog.text


def test_the_commands_lead_from_a_request_to_a_kit(tmp_path):
    def call(*arguments: object) -> str:
        ended = CliRunner().invoke(app, ["federate", *map(str, arguments)])
        assert ended.exit_code == 0, ended.output
        return ended.output

    asked = call("request", "west", "--out", tmp_path / "west")
    fingerprint = asked.splitlines()[-1].strip()
    signed = call("sign", tmp_path / "west" / "request.csr", "--hub", HUB, "--out", tmp_path / "kits")
    accepted = call("accept", tmp_path / "west", tmp_path / "kits" / "west")
    revoked = call("revoke", "west", "--kits", tmp_path / "kits")
    assert f"west: {fingerprint}" in signed and "is a kit now" in accepted and "1 certificate revoked" in revoked
    assert "PRIVATE KEY" not in signed + asked + accepted


def test_no_more_is_taken_of_a_signed_kit_than_is_needed(tmp_path):
    """Whoever carries it puts in a key and a secret that they know, a policy that lets in programs, a description
    without TLS: nothing of it arrives, and a changed description or another's certificate is refused."""
    asked = {name: ask(name, kind=None, out=tmp_path / name) for name in ("north", "lead@example.org")}
    signed = sign([one.request for one in asked.values()], hub=HUB, out=tmp_path / "kits").kits
    kit, carried = tmp_path / "north", signed["north"]
    known = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    own = (kit / "startup" / "client.key").read_bytes()
    added = {
        "startup/client.key": known,
        "secret": b"00" * 32,
        "runs/x/agreed.json": b"{}",
        "startup/sub_start.sh": b"",
    }
    for name, content in added.items():
        (carried / name).parent.mkdir(parents=True, exist_ok=True)
        (carried / name).write_bytes(content)
    (carried / "local" / "authorization.json").write_text('{"permissions": {"project_admin": {"byoc": "any"}}}')
    described = carried / "startup" / "fed_client.json"
    honest = described.read_text()
    for other in (
        honest.replace('"mtls"', '"clear"'),
        honest.replace('"is_leaf": true', '"is_leaf": true, "components": []'),
        honest.replace("client.key", "/etc/ssl/other.key"),
        honest.replace(":8443", ""),
        "[]",
    ):
        described.write_text(other)
        with pytest.raises(UsageError, match=r"is not the description of north|expected a JSON object"):
            accept(kit, carried)
        assert not (kit / "startup" / "client.crt").exists()
    described.write_text(honest)
    accept(kit, carried)
    assert (kit / "startup" / "client.key").read_bytes() == own and not (kit / "secret").exists()
    assert not (kit / "runs").exists() and not list(kit.rglob("*.sh"))
    rights = json.loads((kit / "local" / "authorization.json").read_text())
    assert rights["permissions"]["project_admin"]["byoc"] == "none"
    accept(tmp_path / "lead@example.org", signed["lead@example.org"])
    # The authority, or a mix-up, signed this key for another's name.
    again = ask("west", kind=None, out=tmp_path / "west")
    wrong = tmp_path / "wrong.csr"
    key = serialization.load_pem_private_key((tmp_path / "west" / "startup" / "client.key").read_bytes(), password=None)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "east")])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    wrong.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    east = sign([wrong], hub=HUB, out=tmp_path / "kits").kits["east"]
    with pytest.raises(UsageError, match=r"is signed for east, and .* asked for another name"):
        accept(tmp_path / "west", east)
    (east / "startup" / "fed_client.json").unlink()
    (east / "startup" / "fed_client.json").symlink_to(again.request)
    with pytest.raises(UsageError, match="is missing, or is a link"):
        accept(tmp_path / "west", east)
