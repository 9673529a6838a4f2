"""A session's key is believed only with its site's own signature, for this run, under this federation's authority."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from pathveil.errors import FederationError, UsageError
from pathveil.federation.identity import REVOKED, Identity, Trust, verified

NOW = datetime.datetime.now(datetime.UTC)
KEY = bytes(range(32))


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def certificate(name: str, public, issuer: str, signer, *, days: int = 30) -> x509.Certificate:
    start = NOW - datetime.timedelta(days=60)
    builder = x509.CertificateBuilder().subject_name(named(name)).issuer_name(named(issuer)).public_key(public)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(start)
    return builder.not_valid_after(NOW + datetime.timedelta(days=days)).sign(signer, hashes.SHA256())


def identities(*names: str, days: int = 30, authority: ec.EllipticCurvePrivateKey | None = None) -> dict[str, Identity]:
    """Identities under one authority of their own; the first has an RSA key, as FLARE's kits have."""
    authority = authority or ec.generate_private_key(ec.SECP256R1())
    root = certificate("authority", authority.public_key(), "authority", authority)
    made = {}
    for number, name in enumerate(names):
        key = ec.generate_private_key(ec.SECP256R1()) if number else rsa.generate_private_key(65537, 2048)
        own = certificate(name, key.public_key(), "authority", authority, days=days)
        made[name] = Identity(key, own, Trust(root))
    return made


@pytest.fixture(scope="module")
def known() -> dict[str, Identity]:
    return identities("north", "south")


def test_a_signed_key_is_believed_and_one_that_was_changed_in_any_part_is_not(known):
    trust = known["north"].trust
    for name, identity in known.items():
        offer = {"session": "ab12"} | identity.signed(KEY, run="r1", session="ab12", name=name)
        assert verified(offer, run="r1", name=name, trust=trust) == KEY
        others = {
            "key": bytes(32).hex(),  # the hub's own
            "session": "cd34",  # replayed from another process
            "signature": offer["signature"][:-2] + ("00" if offer["signature"][-2:] != "00" else "01"),
        }
        for part, value in others.items():
            with pytest.raises(FederationError, match=f"{name}: the signature of its key does not hold; refused"):
                verified(offer | {part: value}, run="r1", name=name, trust=trust)
        with pytest.raises(FederationError, match="the signature of its key does not hold"):  # of another run
            verified(offer, run="r2", name=name, trust=trust)


def test_another_participant_cannot_sign_for_a_site(known):
    offer = {"session": "ab"} | known["south"].signed(KEY, run="r1", session="ab", name="north")
    with pytest.raises(FederationError, match="north: its key is signed by another participant; refused"):
        verified(offer, run="r1", name="north", trust=known["north"].trust)


def test_a_certificate_of_another_authority_or_another_time_is_refused(known):
    stranger = identities("north")["north"]
    offer = {"session": "ab"} | stranger.signed(KEY, run="r1", session="ab", name="north")
    with pytest.raises(FederationError, match="the signature of its key does not hold"):
        verified(offer, run="r1", name="north", trust=known["north"].trust)
    old = identities("first", "north", days=-1)["north"]
    offer = {"session": "ab"} | old.signed(KEY, run="r1", session="ab", name="north")
    with pytest.raises(FederationError, match="north: its certificate is not valid now"):
        verified(offer, run="r1", name="north", trust=old.trust)


def test_what_is_no_offer_gets_a_sentence(known, tmp_path):
    trust = known["north"].trust
    offer = {"session": "ab"} | known["south"].signed(KEY, run="r1", session="ab", name="south")
    for part, value in (("certificate", "00ff"), ("signature", "smith"), ("key", None)):
        with pytest.raises(FederationError, match="south: its key does not come with a signature and a certificate"):
            verified(offer | {part: value}, run="r1", name="south", trust=trust)
    short = {"session": "ab"} | known["south"].signed(KEY[:5], run="r1", session="ab", name="south")
    with pytest.raises(FederationError, match="is not one of 32 bytes"):
        verified(short, run="r1", name="south", trust=trust)
    with pytest.raises(FederationError, match="has no key and certificate to sign with"):
        Identity.of_kit(tmp_path)


def revoked_list(*serials: int, signer, issuer: str = "authority") -> bytes:
    """A list of revoked certificates as an authority signs it."""
    made = x509.CertificateRevocationListBuilder().issuer_name(named(issuer)).last_update(NOW)
    made = made.next_update(NOW + datetime.timedelta(days=9))
    for serial in serials:
        one = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(NOW).build()
        made = made.add_revoked_certificate(one)
    return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_a_revoked_certificate_is_not_believed(tmp_path):
    """A site goes by the list in its own kit: the hub's word does not count. A list that is not the authority's stops
    everything, so that nobody gets past it by damaging it."""
    authority = ec.generate_private_key(ec.SECP256R1())
    known = identities("north", "south", authority=authority)
    offers = {
        name: {"session": "ab12"} | one.signed(KEY, run="r1", session="ab12", name=name) for name, one in known.items()
    }
    startup = tmp_path / "startup"
    startup.mkdir()
    (startup / "rootCA.pem").write_bytes(known["north"].trust.root.public_bytes(serialization.Encoding.PEM))
    assert Trust.of_kit(tmp_path) == known["north"].trust
    stolen = known["south"].certificate.serial_number
    (startup / REVOKED).write_bytes(revoked_list(stolen, signer=authority))
    trust = Trust.of_kit(tmp_path)
    assert trust is not None and trust.revoked == {stolen}
    assert verified(offers["north"], run="r1", name="north", trust=trust) == KEY
    with pytest.raises(FederationError, match="south: its certificate was revoked; refused"):
        verified(offers["south"], run="r1", name="south", trust=trust)
    stranger = ec.generate_private_key(ec.SECP256R1())
    others = [revoked_list(signer=stranger), revoked_list(signer=authority, issuer="another"), b"", b"\xff" * 9]
    for content in others:
        (startup / REVOKED).write_bytes(content)
        with pytest.raises(UsageError, match="is not a list of revoked certificates that this federation's authority"):
            Trust.of_kit(tmp_path)
