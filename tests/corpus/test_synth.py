"""The synthetic corpus: repeatable, consistent, with its truth exact."""

import hashlib
import subprocess
import sys
from random import Random

import polars as pl
import pytest

from pathveil.corpus.synth import KINDS, SynthSettings, synthesise, write_corpus
from pathveil.corpus.synth.cases import draw_case
from pathveil.corpus.synth.codes import LATERALITIES, chapters, code_lists, families, looks, select_classes
from pathveil.corpus.synth.facts import report_facts
from pathveil.corpus.synth.grammar import Deck, compile_rules, expand
from pathveil.corpus.synth.houses import Mix, clashes
from pathveil.corpus.synth.people import CLOSE, OPEN, mark, reveal
from pathveil.errors import UsageError

REPORTS = 1_500


@pytest.fixture(scope="module")
def made() -> tuple[pl.DataFrame, pl.DataFrame]:
    return next(iter(synthesise(SynthSettings(reports=REPORTS, seed=7))))


def frames(chunk: int, **options) -> tuple[pl.DataFrame, pl.DataFrame]:
    pairs = list(synthesise(SynthSettings(**options), chunk=chunk))
    return pl.concat(reports for reports, _ in pairs), pl.concat(truth for _, truth in pairs)


def test_a_seed_repeats_whatever_the_chunks_and_a_shorter_corpus_is_its_beginning(made):
    reports, truth = frames(64, reports=REPORTS, seed=7)
    assert reports.equals(made[0]) and truth.equals(made[1])
    assert frames(50, reports=120, seed=7)[0].equals(reports.head(120))


def test_every_machine_makes_this():
    """A digest recorded once: it changes when the generator is meant to change, never with machine or version."""
    reports, truth = frames(100, reports=200, seed=1)
    lines = [*map(str, reports.drop("text").rows()), *reports["text"], *map(str, truth.rows())]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert digest[:16] == "fd9cc9b65c89b498"


def test_another_seed_differs(made):
    other, _ = frames(500, reports=200, seed=8)
    assert not set(other["text"]) & set(made[0]["text"])


def test_another_process_makes_the_same_bytes(tmp_path, pathveil):
    write_corpus(SynthSettings(reports=300, seed=3), out=tmp_path / "a.parquet", truth=tmp_path / "a-truth.parquet")
    done = pathveil(
        "corpus", "synth", "--reports", 300, "--seed", 3,
        "--out", tmp_path / "b.parquet", "--truth", tmp_path / "b-truth.parquet",
        env={"PYTHONHASHSEED": "12345", "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in ("", "-truth"):
        assert (tmp_path / f"a{name}.parquet").read_bytes() == (tmp_path / f"b{name}.parquet").read_bytes()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_labels_agree_with_each_other(made):
    _, names, terms, paired, plausible = code_lists()
    for row in made[0].select("site", "subsite", "histology", "behavior", "laterality").iter_rows(named=True):
        if row["subsite"]:
            assert row["subsite"] in names and row["site"] in (None, row["subsite"][:3])
        if row["histology"] and row["behavior"]:
            assert f"{row['histology']}/{row['behavior']}" in terms
            if row["subsite"]:
                assert f"{row['histology']}/{row['behavior']}" in plausible[row["subsite"]]
        if row["subsite"] and row["laterality"]:
            assert row["laterality"] in LATERALITIES
            assert (row["laterality"] == "not_paired") == (row["subsite"] not in paired)
        if row["subsite"] == "C34.2":
            assert row["laterality"] in (None, "right")


def test_a_case_keeps_its_registry_and_labels_and_comes_in_several_reports(made):
    reports = made[0]
    by_case = reports.group_by("case_id").agg(pl.col("registry", "site", "histology").n_unique(), pl.len())
    assert by_case["registry"].max() == by_case["site"].max() == by_case["histology"].max() == 1
    assert by_case["len"].max() > 2 and by_case["len"].min() == 1
    assert reports["report_id"].is_unique().all() and reports["registry"].n_unique() == 7
    assert reports["text"].null_count() == 0 and reports["text"].str.len_chars().min() > 100
    days = reports.with_columns(days=(pl.col("date") - pl.col("diagnosis_date")).dt.total_days())
    assert days["days"].min() >= 0 and (days["days"] > 10).any() and reports["date"].dt.year().n_unique() > 10
    for task in ("subsite", "laterality", "histology", "behavior"):
        assert 0 < reports[task].null_count() < 0.06 * reports.height


def test_planted_spans_are_exact_do_not_overlap_and_every_kind_is_there(made):
    texts = dict(made[0].select("report_id", "text").iter_rows())
    truth = made[1]
    last = ("", 0)
    for report_id, _, _, start, end, text in truth.iter_rows():
        assert texts[report_id][start:end] == text != ""
        assert last[0] != report_id or start >= last[1]
        last = (report_id, end)
    assert set(truth["kind"]) == set(KINDS)
    assert not any(sign in text for text in texts.values() for sign in (OPEN, CLOSE, "{", "}", "[", "]", "|]", ">"))


def test_marks_come_out_where_they_stood():
    text, spans = reveal(f"a {mark('phone', '555')}{mark('email', 'x@y')} b {mark('detail', '')}c")
    assert text == "a 555x@y b c"
    assert spans == [("phone", 2, 5), ("email", 5, 8), ("detail", 11, 11)]


def test_class_counts_are_the_papers_and_every_class_can_be_drawn():
    classes = select_classes()
    assert (len(classes.sites), len(classes.subsites), len(classes.histologies)) == (70, 326, 639)
    drawn = {code[:4] for mix in classes.morphology_weights.values() for code, weight in mix.items() if weight > 0}
    assert drawn == set(classes.histologies)
    assert {sub for mix in classes.subsite_weights.values() for sub in mix} == set(classes.subsites)
    assert {code[-1] for mix in classes.morphology_weights.values() for code in mix} == set("0123")
    mixes = [Mix(classes, number, seed=1, rarity=1) for number in range(7)]
    cases = [
        draw_case(number, classes=classes, mixes=mixes, shares=[1 / 7] * 7, seed=1).labels for number in range(12_000)
    ]
    seen = {task: {labels[task] for labels in cases} - {None} for task in cases[0]}
    assert seen["laterality"] == set(LATERALITIES) and seen["behavior"] == set("0123")
    assert len(seen["site"]) > 66 and len(seen["subsite"]) > 240 and len(seen["histology"]) > 300


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"sites": 5, "subsites": 12, "histologies": 20, "lateralities": 4, "behaviors": 2}, (5, 12, 20, 4, 2)),
        ({"sites": 1, "subsites": 1, "histologies": 1, "lateralities": 3, "behaviors": 1}, (1, 1, 1, 3, 1)),
        ({"sites": 70, "subsites": 330, "histologies": 639}, (70, 330, 639, 7, 4)),
    ],
)
def test_fewer_classes(counts, expected):
    classes = SynthSettings(reports=1, **counts).classes()
    found = (classes.sites, classes.subsites, classes.histologies, classes.lateralities, classes.behaviors)
    assert tuple(map(len, found)) == expected
    reports, _ = frames(200, reports=200, **counts)
    for task, most in zip(("site", "subsite", "histology", "laterality", "behavior"), expected, strict=True):
        assert reports[task].drop_nulls().n_unique() <= most


def test_rarity_bends_the_tail():
    def share_of_commonest(rarity: float) -> float:
        counts = frames(600, reports=600, rarity=rarity)[0]["site"].value_counts(sort=True)["count"]
        return counts[0] / counts.sum()

    assert share_of_commonest(0) < 0.08 < share_of_commonest(1) < share_of_commonest(2)


def test_word_lists_fit_together():
    sites, names, terms, _, plausible = code_lists()
    assert set(plausible) == set(names) and set(families()) == set(terms)
    assert {site.chapter for site in sites.values()} == set(chapters())
    keys = {key for body in chapters().values() for key in body if "." not in key}
    assert all(keys <= set(body) for body in chapters().values())
    assert len({frozenset(body) for body in looks().values()}) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--classes", "sites=2,subsites=1"], "'subsites' must be from 2 to"),
        (["--classes", "sites=80"], "'sites'"),
        (["--classes", "sites=3,histologies=400"], "'histologies' must be from"),
        (["--classes", "organs=3"], "expected name=number"),
        (["--out", "x.csv"], "ends in .parquet"),
        (["--out", "."], "ends in .parquet"),
        (["--out", "/dev/null/x.parquet"], "cannot be written"),
        (["--truth", "x.parquet"], "two different files"),
        (["--registries", "0"], "registries"),
        (["--reports", "0"], "reports"),
    ],
)
def test_bad_options_are_one_sentence(tmp_path, pathveil, options, sentence):
    given = ["--reports", 10, "--out", "x.parquet", *options]
    done = pathveil("corpus", "synth", *given, cwd=tmp_path)
    assert done.returncode == 2 and sentence in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_bad_counts_in_the_library():
    with pytest.raises(UsageError, match="'lateralities' must be from 1 to 7"):
        select_classes(lateralities=9)


def look_up(text: str, names: dict[str, list[str]]) -> str:
    """The class whose name fills most of the text: what a simple rule would answer."""
    text = text.lower()
    return max(names, key=lambda code: max(len(name) * text.count(name.lower()) for name in names[code]))


def test_labels_cannot_simply_be_read_off(made):
    _, names, terms, _, _ = code_lists()
    histologies: dict[str, list[str]] = {}
    for code, said in terms.items():
        histologies.setdefault(code[:4], []).extend(said)
    reports = made[0].head(250)
    for task, classes in (("subsite", names), ("histology", histologies)):
        rows = reports.drop_nulls(task).select("text", task).rows()
        right = sum(look_up(text, classes) == label for text, label in rows) / len(rows)
        assert 0.3 < right < 0.75, (task, right)
    coded = made[0]["text"].str.contains(r"\bC\d\d\.\d\b|\bM-\d{5}\b").mean()
    assert 0 < coded < 0.1


def test_a_name_belongs_to_few_and_a_physician_to_many(made):
    truth = made[1].with_columns(pl.col("text").str.to_lowercase())
    cases = truth.group_by("kind", "text").agg(pl.col("case_id").n_unique().alias("cases"))
    of = {kind: group["cases"] for (kind,), group in cases.group_by("kind")}
    assert (of["patient_name"] == 1).mean() > 0.8
    assert (of["detail"] == 1).mean() > 0.95
    assert of["record_number"].max() <= 2 and of["physician_name"].max() > 20 and of["laboratory"].max() > 50


def test_a_probe_tells_registries_apart_but_not_always(made):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    reports = made[0]
    even = reports["case_id"].str.slice(-1).is_in(list("02468"))
    train, test = reports.filter(even), reports.filter(~even)
    words = TfidfVectorizer(min_df=3, max_features=1_500)
    probe = LogisticRegression(max_iter=200, C=1).fit(words.fit_transform(train["text"]), train["registry"].to_list())
    right = probe.score(words.transform(test["text"]), test["registry"].to_list())
    assert 2 * test["registry"].value_counts()["count"].max() / test.height < right < 0.97, right


def test_a_marker_is_not_both_positive_and_negative():
    assert clashes(("CD5", ["ER, ", "5%"]), ("ER (weak)", "CD3")) == [(1, 0)]
    classes = select_classes(sites=1, histologies=1, subsites=1)
    mixes = [Mix(classes, 0, seed=4, rarity=1)]
    for number in range(40):
        case = draw_case(number, classes=classes, mixes=mixes, shares=[1.0], seed=4)
        facts = report_facts(
            case, "biopsy", case.diagnosed, Random(number).random, names=classes.names, terms=classes.terms
        )
        pos, neg = facts["pos"].options, facts["neg"].options
        assert pos and neg and not clashes(tuple(pos), tuple(neg))


def test_rules_expand():
    draw = Random(2).random
    rules = compile_rules({"a": ["[x|[y|{b}]] {B}."], "b": ["one"], "c": ["{deck}{deck}{deck}"]}, spell=str.lower)
    said: list[str] = []
    for _ in range(50):
        expand(rules["a"], rules, draw, said.append)
        said.append("\n")
    assert set("".join(said).split("\n")) == {"x One.", "y One.", "one One.", ""}
    dealt: list[str] = []
    expand(rules["c"], {"deck": Deck(("p", "q", "r"), 1)}, draw, dealt.append)
    assert "".join(dealt) == "rpq"
    with pytest.raises(ValueError, match="unbalanced"):
        compile_rules({"bad": ["a ] b"]})


def test_pathveil_corpus_stays_light():
    code = "import sys, pathveil.corpus; print([m for m in ('polars', 'pydantic', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
