"""The terms: what they allow, how they are kept, and the tokens."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agreement.parties import HUB_OFFER, NORTH, SOUTH, terms
from pathveil.agreement.agreement import Agreement, load_digests, new_tokens, padded_batches, site_of_token
from pathveil.agreement.offer import Offer, made_up_offers, make_offer
from pathveil.errors import AgreementError, UsageError
from pathveil.signatures import new_key, read_private_key


def changed(offer: Offer, **change) -> Offer:
    return offer.model_copy(update=change)


def top_bit(digits: str) -> str:
    return digits[:-2] + f"{int(digits[-2:], 16) | 0x80:02x}"


@given(st.integers(1, 10_000))
def test_the_ladder_pads_by_half_at_most(batches):
    size = padded_batches(batches)
    assert batches <= size <= max(batches, 1.5 * batches)
    assert padded_batches(size) == size
    assert bin(size).count("1") <= 2 and bin(size).rstrip("0").endswith(("b1", "b11"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"threshold": 1}, "at least 2 sites"),
        ({"threshold": 2}, "below 3"),
        ({"threshold": 4}, "above the number of sites, 3"),
        ({"holders": [NORTH]}, "at least 2 are needed"),
        ({"holders": [NORTH, NORTH]}, "same name"),
        ({"holders": [NORTH, SOUTH], "sites": ("R1", "R2", "north")}, "same name"),
        ({"hub": NORTH}, "the hub offers under the name"),
        ({"hub": changed(HUB_OFFER, public_key=NORTH.public_key)}, "the hub has no public key"),
        ({"holders": [NORTH, changed(SOUTH, certificate=NORTH.certificate)]}, "the same certificate"),
        ({"holders": [NORTH, changed(SOUTH, certificate=NORTH.certificate * 2)]}, "not one certificate"),
        ({"holders": [NORTH, changed(SOUTH, certificate="")]}, "not one certificate"),
        ({"holders": [NORTH, changed(SOUTH, public_key=NORTH.public_key)]}, "the same public key"),
        ({"holders": [NORTH, changed(SOUTH, public_key=None)]}, "no element"),
        ({"holders": [NORTH, changed(SOUTH, public_key="00" * 32)]}, "no element"),
        ({"holders": [NORTH, changed(SOUTH, public_key=top_bit(SOUTH.public_key))]}, "no element"),
        ({"sites": ("R1", "R1", "R2", "R3")}, "same name"),
        ({"sites": ("R1", "R2", "../R3")}, "cannot name"),
        ({"sites": ("R1", "R2", "hub")}, "cannot name"),
        ({"hub": changed(HUB_OFFER, address="http://hub.example")}, "https://host:port"),
        ({"hub": changed(HUB_OFFER, address="https://hub.example/path")}, "https://host:port"),
        ({"hub": changed(HUB_OFFER, address=NORTH.address)}, "different servers"),
        ({"days": 91}, "is good until"),
        ({"min_cases": 0}, "at least 1"),
        ({"batch": 0}, "out of range"),
        ({"batch": 65_536}, "out of range"),
        ({"cap": 0}, "lets nothing through"),
        ({"days": 0}, "out of range"),
    ],
)
def test_bad_terms_are_one_sentence(change, sentence):
    with pytest.raises(UsageError, match=sentence):
        terms(**change)


def test_a_small_threshold_must_be_asked_for():
    assert terms(threshold=2, allow_small_threshold=True).threshold == 2


def test_terms_survive_the_file(tmp_path):
    agreement = terms(cap=100)
    agreement.save(tmp_path / "agreement.json")
    again = Agreement.load(tmp_path / "agreement.json")
    assert again == agreement and again.sha256 == agreement.sha256
    assert terms(cap=100).sha256 != agreement.sha256  # a new agreement is another one


@pytest.mark.parametrize(
    "change", [{"threshold": "many"}, {"extra": 1}, {"expires": "2030-01-01T00:00:00"}, {"cap": 0}]
)
def test_a_bad_file_is_one_sentence(tmp_path, change):
    path = tmp_path / "agreement.json"
    path.write_text(json.dumps(terms().model_dump(mode="json") | change))
    with pytest.raises(UsageError) as error:
        Agreement.load(path)
    assert "\n" not in str(error.value)
    for text in ("", "[]", "not json", "[" * 100_000, '{"a":' * 50_000):
        path.write_text(text)
        with pytest.raises(UsageError, match="is not an agreement"):
            Agreement.load(path)
    with pytest.raises(UsageError, match="cannot be read"):
        Agreement.load(tmp_path / "none.json")


def test_an_old_file_is_refused_with_a_sentence(tmp_path):
    """As the version before wrote it: addresses, and nothing that says who answers there."""
    path = tmp_path / "agreement.json"
    old = {"format": "pathveil-agreement/1", "id": "ab", "sites": ["R1", "R2", "R3"], "hub": "https://h.example"}
    path.write_text(json.dumps(old | {"holders": {"a": "https://a.example"}, "expires": "2030-01-01T00:00:00Z"}))
    with pytest.raises(UsageError, match=r"of an older version, which pins no server .* proposed anew"):
        Agreement.load(path)
    path.write_bytes(b" " * 1_000_001)
    with pytest.raises(UsageError, match="larger than the 1,000,000 bytes"):
        Agreement.load(path)


@pytest.fixture(scope="module")
def signers(tmp_path_factory):
    """Two who sign, each with a key of another kind."""
    folder = tmp_path_factory.mktemp("signers")
    for name, kind in (("one", "ed25519"), ("two", "p256")):
        new_key(folder / f"{name}.pem", kind=kind)
    return [read_private_key(folder / f"{name}.pem") for name in ("one", "two")]


def test_signed_terms_are_known_by_their_signers(tmp_path, signers):
    first, second = signers
    one, two = first.public, second.public
    agreement = terms()
    signed = agreement.signed(by="R1", key=first).signed(by="R1", key=first)
    assert len(signed.signatures) == 1 and signed.sha256 == agreement.sha256
    signed.save(tmp_path / "agreement.json")
    again = Agreement.load(tmp_path / "agreement.json")
    again.expect(signers=[one])
    again.expect(sha256=agreement.sha256.upper())
    for options in ({}, {"signers": [two]}, {"signers": [one, two]}, {"sha256": "0" * 64}):
        with pytest.raises(UsageError):
            again.expect(**options)
    again.signed(by="R2", key=second).expect(signers=[one, two], sha256=agreement.sha256)


def test_whoever_changes_signed_terms_is_found_out(signers):
    """The hub's operator puts servers of its own in the key holders' places, under the signature that was there."""
    first, second = signers
    one, two = first.public, second.public
    signed = terms().signed(by="R1", key=first)
    (_, *own), _ = made_up_offers("hub", "north", "south")
    forged = signed.model_copy(update={"holders": {offer.name: offer.pinned() for offer in own}})
    forged.check()  # sound terms, but for the signature
    with pytest.raises(UsageError, match=r"not signed with the key .* do not use it"):
        forged.expect(signers=[one])
    lying = forged.signed(by="R1", key=second)  # and signs in another's name
    with pytest.raises(UsageError, match="not signed with the key"):
        lying.expect(signers=[one])
    moved = signed.signatures[0].model_copy(update={"public_key": two.digits})
    moved = forged.model_copy(update={"signatures": (moved,)})
    with pytest.raises(UsageError, match="not signed with the key"):
        moved.expect(signers=[two])


def test_offers(tmp_path):
    paths = make_offer(tmp_path / "north", "north", address="https://localhost:8441")
    offer = Offer.load(paths[-1])
    assert (offer.name, len(offer.fingerprint)) == ("north", 64)
    assert all((tmp_path / "north" / name).stat().st_mode & 0o077 == 0 for name in ("key", "north.key"))
    assert (tmp_path / "north" / "key").read_bytes().hex() not in paths[-1].read_text()
    own = make_offer(tmp_path / "hub", "hub", address="https://h.example", certificate=tmp_path / "north" / "north.pem")
    assert [path.name for path in own] == ["hub.offer.json"] and Offer.load(own[0]).certificate == offer.certificate
    with pytest.raises(UsageError, match="is there already"):
        make_offer(tmp_path / "north", "north", address="https://localhost:8441")
    with pytest.raises(UsageError, match="not a certificate"):
        make_offer(tmp_path / "x", "hub", address="https://h.example", certificate=tmp_path / "north" / "north.key")
    for wrong in ("", "localhost"):
        with pytest.raises(UsageError, match="https://host:port"):
            make_offer(tmp_path / "y", "south", address=wrong)
    paths[-1].write_text("{}")
    with pytest.raises(UsageError, match="is not an offer of a server"):
        Offer.load(paths[-1])


def test_a_token_names_its_site_and_nobody_else(tmp_path):
    agreement = terms()
    tokens, digests = new_tokens(agreement.sites)
    assert [site_of_token(tokens[site], digests) for site in agreement.sites] == list(agreement.sites)
    assert len(set(tokens.values())) == 3 and not set(tokens.values()) & set(digests.values())
    for wrong in ("", "x", digests["R1"], tokens["R1"] + "x"):
        with pytest.raises(AgreementError) as error:
            site_of_token(wrong, digests)
        assert error.value.status == 401 and (not wrong or wrong not in str(error.value))
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps(digests))
    assert load_digests(path, agreement) == digests
    for content in ("", "{}", json.dumps(dict.fromkeys(agreement.sites, "plain"))):
        path.write_text(content)
        with pytest.raises(UsageError, match="digest"):
            load_digests(path, agreement)
