"""A site: what it sends, what it believes, what it keeps; and the whole sequence against plain counting."""

import json
import random

import pytest
import rbcl
from hypothesis import given, settings
from hypothesis import strategies as st

from agreement.parties import key_holder, make_counts, plain_intersection, terms
from pathveil.agreement import oprf
from pathveil.agreement.hub import HEADER, NOT_PASSED, TAG, Hub
from pathveil.agreement.keyholder import split
from pathveil.agreement.simulate import simulate, submit
from pathveil.agreement.site import Site, eligible, publish
from pathveil.errors import AgreementError, UsageError, VocabularyError
from pathveil.vocabulary import UNKNOWN, Vocabulary

COUNTS = {"carcinoma": 40, "left": 12, "lobe": 5, "smith": 4, "mrn123": 1}


def tagged(site: Site, holders) -> Site:
    for number in site.pending():
        points = site.points(number)
        for holder in holders:
            points = site.check(holder.name, number, points, holder.answer(site.name, number, points))
        site.finish(number, points)
    return site


def test_only_words_of_enough_cases_go_and_the_cap_takes_the_commonest():
    assert eligible(COUNTS, terms()) == ["carcinoma", "left", "lobe"]
    assert eligible(COUNTS, terms(min_cases=1, cap=2)) == ["carcinoma", "left"]
    assert eligible({"left": 9, "": 9, "\udc80": 9, "x" * 70_000: 9}, terms()) == ["left"]
    site = Site(terms(min_cases=1, cap=2), "R1", COUNTS)
    assert (site.words, site.left_out) == (2, 3)


def test_tags_are_those_of_the_product_key_and_dummies_look_alike():
    agreement = terms()
    holders = [key_holder(agreement, name) for name in agreement.holders]
    site = tagged(Site(agreement, "R1", COUNTS), holders)
    tags = site.tags()
    assert len(tags) == 8 * TAG
    key = rbcl.crypto_core_ristretto255_scalar_mul(*(holder._secret for holder in holders))
    expected = {oprf.evaluate(key, word.encode())[:TAG] for word in ("carcinoma", "left", "lobe")}
    got = [tags[at : at + TAG] for at in range(0, len(tags), TAG)]
    assert expected < set(got) and got == sorted(got)


def test_sizes_and_points_tell_little():
    agreement = terms()
    one, many = Site(agreement, "R1", {"left": 9}), Site(agreement, "R2", {f"w{n}": 9 for n in range(8)})
    assert len(one.points(0)) == len(many.points(0)) == 8 * oprf.POINT
    assert all(map(oprf.is_element, split(one.points(0)) + split(many.points(0))))
    assert Site(agreement, "R1", {f"w{n}": 9 for n in range(33)}).batches == 6  # 5 would do


def test_order_and_blinds_differ_every_time():
    agreement = terms(batch=64)
    words = {f"w{n}": 9 for n in range(64)}
    orders = [Site(agreement, "R1", words).store.rows("SELECT word FROM entry ORDER BY place") for _ in range(2)]
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])
    first, second = (set(split(Site(agreement, "R1", words).points(0))) for _ in range(2))
    assert not first & second


def test_an_interrupted_site_goes_on_with_the_same_points(tmp_path):
    agreement = terms()
    counts = {f"w{n}": 9 for n in range(20)}
    holders = [key_holder(agreement, name) for name in agreement.holders]
    site = Site(agreement, "R1", counts, folder=tmp_path)
    points = site.points(0)
    answer = holders[0].answer("R1", 0, points)  # and here it is killed
    site.store.close()
    site = Site(agreement, "R1", dict(reversed(counts.items())), folder=tmp_path)
    assert site.points(0) == points and site.pending() == [0, 1, 2]
    assert site.check("north", 0, points, answer)
    tagged(site, holders)
    tags = site.tags()
    site.store.close()
    site = Site(agreement, "R1", counts, folder=tmp_path)
    assert site.pending() == [] and site.tags() == tags
    site.erase()
    assert list(tmp_path.iterdir()) == []


def test_a_site_cannot_change_its_words_underway(tmp_path):
    agreement = terms()
    Site(agreement, "R1", COUNTS, folder=tmp_path).store.close()
    with pytest.raises(UsageError, match="another set of words"):
        Site(agreement, "R1", COUNTS | {"smith": 5}, folder=tmp_path)
    Site(agreement, "R1", COUNTS | {"smith": 3}, folder=tmp_path)  # not submitted either way


@pytest.mark.parametrize(
    "wrong", ["key", "order", "one point", "identity", "top bit", "short", "long", "nothing", "other proof"]
)
def test_a_key_holder_that_answers_wrongly_is_caught(wrong):
    agreement = terms()
    holder = key_holder(agreement)
    site = Site(agreement, "R1", COUNTS)
    sent = site.points(0)
    good = holder.answer("R1", 0, sent)
    proof, points = good[: oprf.PROOF], split(good[oprf.PROOF :])
    other = key_holder(agreement, "south")  # or north with a key that the agreement does not pin
    answers = {
        "key": other.answer("R1", 0, sent),
        "order": proof + b"".join([points[1], points[0], *points[2:]]),
        "one point": good[:-32] + oprf.random_point(),
        "identity": good[:-32] + bytes(32),
        "top bit": good[:-1] + bytes([good[-1] | 0x80]),
        "short": good[:-32],
        "long": good + oprf.random_point(),
        "nothing": b"",
        "other proof": other.answer("R1", 0, sent)[: oprf.PROOF] + good[oprf.PROOF :],
    }
    with pytest.raises(AgreementError, match="north answered batch 0 wrongly"):
        site.check("north", 0, sent, answers[wrong])
    assert site.check("north", 0, sent, good) and site.pending() == [0]


def test_a_wrong_answer_of_the_hub_is_caught():
    agreement = terms()
    holders = [key_holder(agreement, name) for name in agreement.holders]
    site = tagged(Site(agreement, "R1", COUNTS), holders)
    none = NOT_PASSED.to_bytes(4, "little")
    head = (1).to_bytes(4, "little") + bytes(32)
    for wrong in (b"", head, head + none * 7, head + none * 9):
        with pytest.raises(AgreementError, match="wrong length"):
            site.vocabulary_from(wrong)
    for wrong in (head + bytes(4) * 8, head + b"\x05\0\0\0" * 8):  # all pass, the dummies too; a sixth of one word
        with pytest.raises(AgreementError, match="passes a dummy, or a place"):
            site.vocabulary_from(wrong)
    assert site.vocabulary_from(head + none * 8).words == ("agreed word 0",)


def test_nothing_to_agree_on():
    with pytest.raises(VocabularyError, match="held by 5 cases"):
        Site(terms(), "R1", {"smith": 1})
    with pytest.raises(UsageError, match="not one of the agreement's sites"):
        Site(terms(), "R9", COUNTS)
    with pytest.raises(AgreementError, match="no tags yet"):
        Site(terms(), "R1", COUNTS).tags()


@settings(max_examples=8, deadline=None)
@given(sites=st.integers(2, 6), threshold=st.integers(2, 6), min_cases=st.integers(1, 8), seed=st.integers(0, 1_000))
def test_the_agreement_is_the_plain_intersection(sites, threshold, min_cases, seed):
    threshold = min(threshold, sites)
    counts = make_counts(sites, 18, seed)
    if not all(any(cases >= min_cases for cases in site.values()) for site in counts.values()):
        return
    outcome = simulate(counts, threshold=threshold, min_cases=min_cases, batch=4, cap=64, allow_small_threshold=True)
    expected = plain_intersection(counts, threshold=threshold, min_cases=min_cases)
    assert set(outcome.vocabulary.words) == expected
    assert outcome.hub.passed == len(expected)
    for name, vocabulary in outcome.sites.items():
        own = {word for word, cases in counts[name].items() if cases >= min_cases}
        named = {word for place, word in enumerate(vocabulary.words) if word != f"agreed word {place}"}
        assert named == expected & own  # its own words that passed: no more, no less
        assert vocabulary.source["named"] == len(named)


def test_sites_share_ids_without_sharing_words():
    counts = make_counts(4, 40, 3)
    outcome = simulate(counts, threshold=3, min_cases=3, batch=8)
    sizes = {vocabulary.size for vocabulary in outcome.sites.values()}
    spaces = {vocabulary.id_space for vocabulary in outcome.sites.values()}
    assert sizes == {outcome.vocabulary.size} and spaces == {outcome.vocabulary.id_space}
    unnamed = 0
    for name, vocabulary in outcome.sites.items():
        for word in outcome.vocabulary.words:
            if counts[name].get(word, 0) >= 3:
                assert vocabulary.id_of(word) == outcome.vocabulary.id_of(word)
            else:
                assert vocabulary.id_of(word) == UNKNOWN
                unnamed += 1
    assert unnamed


def test_a_seed_repeats_the_order_and_no_seed_does_not():
    counts = make_counts(3, 60, 1)
    options = {"threshold": 3, "min_cases": 1, "batch": 16}
    one, two = (simulate(counts, seed=b"a", **options).vocabulary for _ in range(2))
    assert one.words == two.words and one.sha256 == two.sha256
    other, free = simulate(counts, seed=b"b", **options).vocabulary, simulate(counts, **options).vocabulary
    assert set(other.words) == set(free.words) == set(one.words)
    assert len({one.words, other.words, free.words}) == 3


def test_the_vocabulary_is_a_normal_one(tmp_path):
    outcome = simulate(make_counts(3), threshold=3, min_cases=2, batch=16)
    for vocabulary in (outcome.vocabulary, *outcome.sites.values()):
        vocabulary.save(tmp_path / "v.json")
        again = Vocabulary.load(tmp_path / "v.json")
        assert again == vocabulary and again.sha256 == vocabulary.sha256
        assert again.id_space == vocabulary.id_space
    assert json.loads((tmp_path / "v.json").read_text())["parameters"] == {
        "threshold": 3,
        "min_cases": 2,
        "cap": 65_536,
    }


def test_publishing_checks_what_it_is_given():
    counts = {"R1": {"a": 9, "b": 9}, "R2": {"a": 9, "c": 9}, "R3": {"b": 9, "c": 9}}
    options = {"threshold": 2, "batch": 4, "allow_small_threshold": True}
    files = list(simulate(counts, seed=b"x", **options).sites.values())
    assert sorted(publish(files[:2]).words) == ["a", "b", "c"] and publish(files[:2]).source["published_by"] == [
        "R1",
        "R2",
    ]
    with pytest.raises(VocabularyError, match="1 of 3 agreed words are named by none"):
        publish(files[:1])
    with pytest.raises(VocabularyError, match="not of one agreement"):
        publish([files[0], simulate(counts, seed=b"y", **options).sites["R2"]])
    with pytest.raises(VocabularyError, match="not of one agreement"):
        publish([Vocabulary(words=("a",), method="baseline")])
    with pytest.raises(UsageError):
        publish([])

    def with_words(vocabulary, words):
        return Vocabulary(words=words, method="", parameters=vocabulary.parameters, source=vocabulary.source)

    place = files[1].words.index("a")
    lying = [*files[1].words]
    lying[place] = "smith"
    with pytest.raises(VocabularyError, match=f"different words at place {place}"):
        publish([files[0], with_words(files[1], tuple(lying))])
    lying[place] = f"agreed word {place}"
    with pytest.raises(VocabularyError, match="fewer sites than agreed"):
        publish([files[0], with_words(files[1], tuple(lying)), files[2]])


def test_submitting_again_is_harmless_and_another_set_is_not():
    agreement = terms()
    holders = [key_holder(agreement, name) for name in agreement.holders]
    hub = Hub(agreement)
    site = tagged(Site(agreement, "R1", COUNTS), holders)
    submit(site, hub)
    submit(site, hub)
    with pytest.raises(AgreementError, match="sent another batch 0"):  # the same site, begun twice
        tagged(Site(agreement, "R1", COUNTS), holders)


def test_a_lying_site_learns_no_more_than_its_quota_allows():
    """It may try a dictionary, but only as many words as the cap, and only once."""
    agreement = terms(cap=8, threshold=3)
    holders = [key_holder(agreement, name) for name in agreement.holders]
    dictionary = {f"name{n}": 99 for n in range(1_000)}
    site = tagged(Site(agreement, "R1", dictionary), holders)
    assert site.words == 8 and site.left_out == 992
    greedy = Site(agreement.model_copy(update={"cap": 1_000}), "R1", dictionary)
    with pytest.raises(AgreementError, match="quota is 1 batches of 8"):
        holders[0].answer("R1", 1, greedy.points(1))
    assert len(result_of(agreement, holders, site)) == HEADER + 4 * 8


def result_of(agreement, holders, site) -> bytes:
    hub = Hub(agreement)
    submit(site, hub)
    draw = random.Random(0)
    for name in agreement.sites[1:]:
        submit(tagged(Site(agreement, name, {f"name{draw.randrange(99)}": 9}), holders), hub)
    result = hub.result(site.name)
    assert result is not None
    return result
