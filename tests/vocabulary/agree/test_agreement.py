"""The terms: what they allow, how they are kept, and the tokens."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.errors import AgreementError, UsageError
from pathveil.vocabulary.agree.agreement import Agreement, load_digests, new_tokens, padded_batches, site_of_token
from vocabulary.agree.parties import HOLDERS, terms


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
        ({"holders": {"north": "https://north.example"}}, "at least 2 are needed"),
        ({"holders": {**HOLDERS, "R1": "https://x.example"}}, "same name"),
        ({"sites": ("R1", "R1", "R2", "R3")}, "same name"),
        ({"sites": ("R1", "R2", "../R3")}, "cannot name"),
        ({"sites": ("R1", "R2", "hub")}, "cannot name"),
        ({"hub": "http://hub.example"}, "https://host:port"),
        ({"hub": "https://hub.example/path"}, "https://host:port"),
        ({"hub": "https://north.example"}, "different servers"),
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
    for text in ("", "[]", "not json"):
        path.write_text(text)
        with pytest.raises(UsageError, match="is not an agreement"):
            Agreement.load(path)
    with pytest.raises(UsageError, match="cannot be read"):
        Agreement.load(tmp_path / "none.json")


def test_expiry():
    agreement = terms(days=2)
    assert not agreement.expired()
    assert agreement.expired(datetime.now(UTC) + timedelta(days=3))


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
