"""New reports beside those of training: nothing where nothing changed, a finding where something did, no word told."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from bundle.conftest import KINDS, people, reports
from pathveil.bundle.drift import Before, Seen, compare_task, known_before, mix_by_chance
from pathveil.corpus.mapping import read_mapping
from pathveil.errors import CorpusError, UsageError
from pathveil.training.scores import Threshold


@pytest.fixture(scope="module")
def same():
    return reports(160, seed=31)


@pytest.fixture(scope="module")
def changed(same):
    """Another template, and prostates only."""
    words = " ".join(f"Formular{number} Eingang" for number in range(6))
    text = pl.format("{} {}. {}", pl.lit(words), pl.lit(f"Final diagnosis: {KINDS[3][4]}"), pl.col("text").str.head(30))
    return same.with_columns(text=text)


def test_reports_of_the_same_kind_are_nothing_to_look_at(bundle, same):
    result = bundle.drift(same)
    assert result.findings == [] and "Nothing differs" in repr(result) and result.reference == "training"
    assert (result.documents, result.cases) == (160, 80)
    site = result.tasks["site"]
    assert site.mix_distance < site.mix_expected and site.abstained.reference is not None
    assert result.unknown_words.new == pytest.approx(result.unknown_words.reference, abs=0.02)
    codes = [codes["site"].code for codes in (one.codes for one in bundle.predict(same).results)]
    told = {one.code: one.new for one in site.codes}
    assert told["C50"] == pytest.approx(np.mean([code == "C50" for code in codes]), abs=5e-4)
    assert result.to_frame().height == len(bundle.tasks)


def test_what_changed_is_found_and_no_word_is_told(bundle, changed, same):
    for options in ({}, {"reference": same}):
        result = bundle.drift(changed, **options)
        kinds = {(one.kind, one.task) for one in result.findings}
        assert ("words", None) in kinds and ("mix", "site") in kinds
        told = result.to_json() + repr(result) + result.page()
        names = [name for number in range(160) for name in people(number)]
        assert not [word for word in (*names, "formular", "eingang") if word.lower() in told.lower()]
        assert "most of all C61 (prostate gland), " in told


def test_codes_of_few_cases_are_not_told(bundle, same):
    """Of 80 cases nine get their own site: it is in no output, nor what the others leave of the whole."""

    def sites(number: int) -> list[str]:
        few = same.with_columns(
            text=pl.when(pl.int_range(pl.len()) < number)
            .then(pl.lit(f"Final diagnosis: {KINDS[2][4]}. {KINDS[2][4]}"))
            .otherwise(pl.lit(f"Final diagnosis: {KINDS[0][4]}. {KINDS[0][4]}"))
        )
        told = bundle.drift(few, reference=few)
        assert ("C18" in told.page()) == (number == 20) and ("No mix to compare" in told.page()) == (number == 18)
        return sorted(one.code for one in told.tasks["site"].codes)

    assert (sites(18), sites(20), sites(0)) == ([], ["C18", "C50"], ["C50"])
    with pytest.raises(UsageError, match="fewer than 10 cases; give more"):
        bundle.drift(same[:18])


def test_shares_of_few_cases_are_not_told(bundle, same):
    """Two reports of one case without a known word: neither how many they are, nor how many were left to people."""
    threshold = next(iter(bundle.thresholds.values())).model_copy(update={"probability": 0.0})
    sure = replace(bundle, thresholds=dict.fromkeys(bundle.tasks, threshold))  # but of what it knows no word of

    def silent(number: int) -> pl.DataFrame:
        return same.with_columns(text=pl.when(pl.int_range(pl.len()) < number).then(pl.lit("zzyzx")).otherwise("text"))

    few, some, none = (sure.drift(silent(number), reference=silent(2)) for number in (2, 20, 0))
    assert few.without_known_word is None and few.tasks["site"].abstained.new is None
    assert few.tasks["site"].abstained_interval is None and few.tasks["site"].abstained.reference is None
    told = repr(few) + few.page() + few.to_json()
    assert "1.2 %" not in told and "1.2\u00a0%" not in told and "0.0125" not in told
    assert "nothing it can read         fewer than 10 cases" in repr(few)
    assert '<tr><td>reports of which it can read nothing</td><td class="n">fewer than 10 cases</td>' in few.page()
    assert some.without_known_word == some.tasks["site"].abstained.new == 0.125 and "12\u00a0%" in some.page()
    assert "nothing it can read" not in repr(none) and none.tasks["site"].abstained.new == 0
    said = "! 12 % of the reports hold nothing the model can read (no word it knows, or too few)"
    assert said in repr(some) and said not in repr(sure.drift(silent(20), reference=silent(20)))  # as many as before
    rest = sure.drift(silent(18)[:24], reference=same)  # nine of twelve cases: worth a look, and not told
    assert "site: fewer than 10 cases are left to people, 0.0 % were expected" in repr(rest)


def test_a_bundle_that_says_nothing_needs_a_reference(bundle, same):
    silent = {name: value for name, value in bundle.provenance.items() if name != "profile"}
    older = replace(bundle, provenance=silent)
    with pytest.raises(UsageError, match="give reports of an earlier time with --reference"):
        older.drift(same)
    assert older.drift(same, reference=same).findings == []
    profile = bundle.provenance["profile"]
    assert set(profile["mix"]) == set(bundle.tasks) and 0 < profile["unknown_words"] < 0.5
    assert json.dumps(profile).count("Quillfeather") == 0


def test_a_distance_by_chance_shrinks_with_the_number_of_cases():
    mix = np.array([0.5, 0.3, 0.2])
    few, many = mix_by_chance(mix, 50, 50), mix_by_chance(mix, 5000, 5000)
    assert 0.1 < few < 0.35 and many < few / 5 and mix_by_chance(mix, 50, 50) == few


def test_the_page_fetches_nothing(bundle, changed):
    page = bundle.drift(changed).page()
    assert "Worth a look." in page and "<svg" in page and "prostate gland" in page
    assert "http://" not in page and "https://" not in page and "<script" not in page


def test_codes_that_were_not_there_before_are_a_difference(bundle):
    """All new reports have a code that training hardly knew: nothing can be compared code by code, all differs."""
    before = Before(300.0, 0.1, {"site": {"C50": 0.6, "C18": 0.38}}, {"site": 0.1}, {}, 500, {"site": 0.1})
    place = bundle.labels["site"].index("C61")
    codes = np.zeros(len(bundle.labels["site"]), int)
    codes[place] = 200
    seen = Seen(documents=200, cases=set(range(200)), abstained={"site": 0}, probability={"site": 180.0})
    seen.codes["site"], seen.holders["site", place] = codes, set(range(10))
    assert compare_task(bundle, "site", seen, before).mix_distance == pytest.approx(0.98)


def test_little_is_said_of_few_cases(bundle, same):
    result = bundle.drift(same[:24])  # 12 cases
    assert result.tasks["subsite"].mix_distance is None
    told = "Among 12 cases only large differences"
    assert result.findings == [] and told in repr(result) and told in result.page()
    assert "only large" not in bundle.drift(same).model_copy(update={"cases": 100}).page()


def test_rows_that_cannot_be_read_are_counted(bundle, same, tmp_path):
    lines = same.write_csv().splitlines()
    lines[9] += ",Quillfeather"
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    result = bundle.drift(tmp_path / "new.csv", reference=tmp_path / "new.csv")
    assert result.documents == 159 and result.skipped == result.reference_skipped
    assert result.skipped.tables.skipped[0].row == 10 and "160 read, 1 skipped" in repr(result)
    assert "1 row could not be read and is left out" in result.page() and "new.csv" not in result.page()
    with pytest.raises(CorpusError, match="record at line 10"):
        bundle.drift(tmp_path / "new.csv", strict=True)
    assert bundle.drift(same).skipped.sentence == ""


def test_a_mapping_is_a_file_or_its_content_for_tables_and_frames(bundle, same, tmp_path):
    theirs = same.rename({"text": "Befund", "case_id": "Fall"})
    theirs.write_csv(tmp_path / "lab.csv")
    (tmp_path / "map.toml").write_text('[columns]\ntext = "Befund"\ncase_id = "Fall"\n')
    expected = bundle.drift(same)
    for mapping in (str(tmp_path / "map.toml"), read_mapping(tmp_path / "map.toml")):
        for source in (theirs, tmp_path / "lab.csv"):
            result = bundle.drift(source, mapping=mapping)
            assert (result.documents, result.cases) == (160, 80) and result.unknown_words == expected.unknown_words
    bundle.predict_to_file(tmp_path / "lab.csv", tmp_path / "codes.csv", mapping=str(tmp_path / "map.toml"))
    assert pl.read_csv(tmp_path / "codes.csv").height == 160


def test_what_is_left_to_people_goes_by_the_model_s_own_threshold(bundle):
    """Those of folds, by which accuracy is stated, leave more where cases are few; older bundles tell those alone."""
    told = {"probability": 0.9, "wanted": 0.97, "accuracy": 0.98, "low": 0.9, "documents": 90, "abstained": 0.93}
    for left, expected in ((0.7, 0.7), (None, 0.93)):
        model = replace(bundle, thresholds={task: Threshold(**told, left=left) for task in bundle.tasks})
        assert set(known_before(model).abstained.values()) == {expected}
