"""Other people's models: scikit-learn's, and anything with fit and predict_proba."""

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import pathveil
from pathveil.auditing.attack_names import LIRA_OFFLINE, LIRA_ONLINE, RMIA_OFFLINE, RMIA_ONLINE
from pathveil.auditing.estimator_audit import audit_estimator, take_rows, unfitted_copy
from pathveil.auditing.settings import AuditSettings
from pathveil.errors import UsageError

SITES = {"C18": "colon", "C34": "lung", "C50": "breast"}
QUICK = AuditSettings(shadows=6, edges=(50,), attack_model="logistic")


@pytest.fixture(scope="module")
def reports():
    """Texts that name their site beside many words that do not; every sixth label is wrong, to be memorised."""
    rng = np.random.default_rng(0)
    site = rng.choice(list(SITES), 800, p=[0.5, 0.3, 0.2])
    texts = [" ".join(["MARIGOLD", SITES[one], *(f"w{word}" for word in rng.integers(0, 400, 12))]) for one in site]
    labels = np.where(rng.random(800) < 1 / 6, rng.choice(list(SITES), 800), site)
    return texts, labels, np.arange(800) // 2  # two reports a case


def pipeline(c: float, fewest: int = 1):
    return make_pipeline(TfidfVectorizer(min_df=fewest), LogisticRegression(C=c, max_iter=300))


def areas(audit):
    wide = [row for row in audit.measured if row.bucket == "all" and row.unit == "report"]
    return {row.attack: row.auc for row in sorted(wide, key=lambda row: row.shadows)}


@pytest.fixture(scope="module")
def overfit(reports, tmp_path_factory):
    texts, labels, cases = reports
    out = tmp_path_factory.mktemp("audits") / "overfit"
    return audit_estimator(pipeline(1e6), texts, labels, cases=cases, settings=QUICK, out=out), out


def test_a_pipeline_that_overfits_is_found_out(overfit):
    audit, out = overfit
    found = areas(audit)
    assert audit.kind == "estimator" and audit.verdict.answer == "fail"
    assert found[RMIA_ONLINE].low > 0.65 and found["loss"].low > 0.6
    assert {"label only", "shadow classifiers", LIRA_ONLINE, LIRA_OFFLINE, RMIA_OFFLINE} < found.keys()
    assert [(control.kind, control.holds) for control in audit.controls] == [("null", True), ("planted", True)]
    assert list(audit.protocols) == ["matched"] and {row.unit for row in audit.measured} == {"report", "case"}
    assert "a foreign model" in (out / "audit.html").read_text()
    assert audit.provenance == {"estimator": "Pipeline"}


def test_nothing_of_a_record_is_in_the_artefacts(overfit):
    for path in overfit[1].iterdir():
        assert "MARIGOLD" not in path.read_text()


def test_one_that_hardly_learns_gives_nothing_away(reports):
    texts, labels, cases = reports
    only_sites = pipeline(0.1, fewest=60)  # of all words those that name a site are the only ones so frequent
    audit = audit_estimator(only_sites, texts, labels, cases=cases, settings=QUICK)
    for attack, area in areas(audit).items():
        assert area.low < 0.53 and area.value == pytest.approx(0.5, abs=0.06), attack
    assert audit.verdict.answer != "fail" and all(control.holds for control in audit.controls)


def test_a_fitted_estimator_is_attacked_as_it_is(reports):
    """The mask that is right finds members, one dealt out at random finds nothing."""
    texts, labels, _ = reports
    x = TfidfVectorizer().fit_transform(texts)
    rng = np.random.default_rng(1)
    member = rng.random(800) < 0.5
    forest = RandomForestClassifier(30, random_state=0).fit(x[member], labels[member])
    before = forest.predict_proba(x)
    told = audit_estimator(forest, x, labels, members=member, settings=QUICK)
    assert areas(told)["loss"].low > 0.8 and list(told.protocols) == ["given"]
    np.testing.assert_array_equal(forest.predict_proba(x), before)
    elsewhere = rng.permutation(member)
    wrong = audit_estimator(forest, x, labels, members=elsewhere, settings=QUICK)
    assert areas(wrong)["loss"].low < 0.5 < areas(wrong)["loss"].high


class Memory:
    """Knows by heart what it has seen, and else guesses; tells no classes, has no parameters."""

    def fit(self, records, labels):
        self.names = np.unique(labels)
        self.known = {tuple(np.ravel(record)): label for record, label in zip(records, labels, strict=True)}
        return self

    def predict_proba(self, records):
        found = np.array([self.known.get(tuple(np.ravel(record)), "") for record in records])
        seen = np.where(self.names == found[:, None], 0.98, 0.02 / max(len(self.names) - 1, 1))
        return np.where(found[:, None] == "", 1 / len(self.names), seen)


class Told(Memory):
    """Fitted elsewhere, to labels that are words."""

    classes_ = np.array(["a", "b"])


class Broken(Memory):
    def predict_proba(self, records):
        return super().predict_proba(records) * np.nan


def test_anything_that_fits_and_predicts_and_classes_that_a_half_lacks():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    labels = rng.choice(["a", "b"], 200)
    labels[[3, 50]] = "rare"  # in some halves, not in others
    audit = audit_estimator(Memory(), x, labels, settings=QUICK)
    assert audit.data.tasks == {"the label": 3} and areas(audit)["loss"].low > 0.95


def test_several_tasks_with_labels_missing(reports):
    texts, labels, cases = reports
    side = np.where(np.arange(800) % 2, "left", "right").astype(object)
    side[::7] = None
    told = {"site": labels, "laterality": side}
    audit = audit_estimator(pipeline(1e6), texts, told, cases=cases, settings=QUICK)
    assert {row.task for row in audit.measured} == {"site", "laterality", "all tasks"}
    by_task = {(row.attack, row.task): row.n_members for row in audit.measured if row.bucket == "all"}
    assert by_task["loss", "laterality"] < by_task["loss", "site"]


def test_an_attack_of_ones_own_stands_beside_ours(reports, tmp_path):
    texts, labels, cases = reports
    seen = []

    def gap(given):
        """How much surer the model is than its shadows that never saw the record."""
        seen.append((given.task, given.inside.shape))
        outside = np.where(given.inside, np.nan, given.shadow_margin)
        return given.margin - np.nanmean(outside, axis=0)

    audit = audit_estimator(
        pipeline(1e6), texts, labels, cases=cases, settings=QUICK, attacks={"gap <&>": gap}, out=tmp_path / "audit"
    )
    assert seen[0] == ("the label", (6, 800))
    assert areas(audit)["gap <&>"].low > 0.65
    assert audit.attacks["gap <&>"] == gap.__doc__
    assert all("gap <&>" in {one.attack for one in control.attacks} for control in audit.controls)
    html = (tmp_path / "audit" / "audit.html").read_text()
    assert "gap &lt;&amp;&gt;" in html and gap.__doc__ in html


def test_an_interrupted_audit_goes_on(reports, tmp_path):
    texts, labels, _ = reports
    fits = []

    class Counting(LogisticRegression):
        def fit(self, *told):
            fits.append(len(told[0]))
            return super().fit(*told)

    import sys

    sys.modules[__name__].Counting = Counting  # a store needs what can be pickled
    Counting.__qualname__ = "Counting"
    x = TfidfVectorizer().fit_transform(texts).toarray()
    told = {"settings": QUICK, "store": tmp_path / "store"}
    first = audit_estimator(Counting(), x, labels, **told)
    assert len(fits) == 1 + 6 + 1  # the target, the shadows, the null control
    again = audit_estimator(Counting(), x, labels, **told)
    assert len(fits) == 8 + 1 and again.evidence == first.evidence
    audit_estimator(Counting(C=3), x, labels, **told)
    assert len(fits) == 9 + 8


def test_the_same_seed_gives_the_same_audit_and_another_another():
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(200, 4)), rng.integers(0, 2, 200)
    forest = RandomForestClassifier(5)  # its random state is left open
    first, again = (audit_estimator(forest, x, labels, settings=QUICK) for _ in range(2))
    assert first.evidence == again.evidence
    other = audit_estimator(forest, x, labels, settings=QUICK.changed(seed=1))
    assert other.evidence != first.evidence


def test_rows_are_taken_from_whatever_holds_them():
    rows, array = np.array([2, 0]), np.arange(6).reshape(3, 2)
    assert take_rows(["a", "b", "c"], rows) == ["c", "a"]
    assert take_rows(array, rows).tolist() == [[4, 5], [0, 1]]
    for make in (scipy.sparse.csr_matrix, scipy.sparse.coo_matrix, scipy.sparse.csr_array):
        assert take_rows(make(array), rows).toarray().tolist() == [[4, 5], [0, 1]]
    assert take_rows(pl.DataFrame({"x": [1, 2, 3]}), rows)["x"].to_list() == [3, 1]
    assert take_rows(pl.Series(["a", "b", "c"]), rows).to_list() == ["c", "a"]
    pandas = pytest.importorskip("pandas")
    assert take_rows(pandas.DataFrame({"x": [1, 2, 3]}, index=[7, 8, 9]), rows)["x"].tolist() == [3, 1]


def test_a_copy_is_unfitted_and_a_random_state_that_was_set_is_kept():
    forest = RandomForestClassifier(5, random_state=3).fit(np.arange(10)[:, None], np.arange(10) % 2)
    assert not hasattr(unfitted_copy(forest, seed=9), "classes_")
    assert unfitted_copy(forest, seed=9).random_state == 3
    assert unfitted_copy(make_pipeline(RandomForestClassifier()), seed=9).steps[0][1].random_state == 9
    memory = Memory()
    assert unfitted_copy(memory, seed=9) is not memory


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"estimator": object()}, "object has no fit or no predict_proba"),
        ({"labels": ["a"] * 200}, "labels of at least two classes"),
        ({"labels": ["a", "b"]}, "2 labels for 200 records"),
        ({"cases": [1]}, "cases: 1 values for 200 records"),
        ({"members": [True]}, "members: expected true or false for each of 200 records"),
        ({"members": np.ones(200)}, "members: expected true or false"),
        ({"members": np.arange(200) < 5}, "at least 20 cases of members"),
        ({"cases": np.arange(200) // 2, "members": np.arange(200) % 2 == 0}, "a case may be on one side only"),
        ({"labels": {"a": [0, 1] * 100}, "estimator": {"b": Memory()}}, "for the same tasks"),
        ({"labels": {"a": [0, 1] * 100}, "members": np.arange(200) < 100}, "a fitted estimator is expected for each"),
        ({"labels": [0, 1] * 100, "members": np.arange(200) < 100, "estimator": Told()}, "one are numbers"),
        ({"estimator": Broken()}, "predict_proba gave no probabilities"),
        ({"attacks": {"loss": lambda given: given.margin}}, "attack 'loss': is the name of one of ours"),
        ({"attacks": {"mine": lambda given: [1.0]}}, "one score for each of 200 records"),
        ({"attacks": {"mine": lambda given: ["high"] * 200}}, "expected an array of numbers"),
    ],
)
def test_mistakes_are_one_sentence(change, said):
    rng = np.random.default_rng(0)
    labels = rng.choice(["a", "b"], 200)
    told = {"estimator": Memory(), "records": rng.normal(size=(200, 2)), "labels": labels, "settings": QUICK} | change
    if "members" in change and "labels" not in change:
        told["estimator"].fit(told["records"], labels)
    with pytest.raises(UsageError, match=said):
        audit_estimator(told.pop("estimator"), told.pop("records"), told.pop("labels"), **told)


def test_mistakes_with_estimators_are_one_sentence():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(80, 2)), np.arange(80) % 2
    for estimator, changes, sentence in (
        (GaussianNB(), {"members": np.arange(80) < 40}, "the model is not fitted; fit it on them"),
        (GaussianNB, {}, r"GaussianNB is a class; give an estimator made of it, GaussianNB\(\)"),
        (GaussianNB(), {"labels": np.stack([labels, labels], 1)}, "expected one label for each record"),
    ):
        given = {"labels": labels} | changes
        with pytest.raises(UsageError, match=sentence):
            audit_estimator(estimator, rows, given.pop("labels"), settings=AuditSettings(shadows=2), **given)
    with pytest.raises(UsageError, match="an estimator with fit and predict_proba; LinearSVC is neither"):
        pathveil.audit(LinearSVC(), rows, labels)
    assert audit_estimator(GaussianNB(), iter(rows), labels, settings=AuditSettings(shadows=2)).data.members
