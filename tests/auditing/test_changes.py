"""What would change an answer: each sentence where its evidence is; numbers of cases as the interval has them."""

import numpy as np
import pytest

from auditing.test_verdict import row, whole
from pathveil.auditing.appetite import Appetite, Limit
from pathveil.auditing.audited_model import ModelStatement
from pathveil.auditing.changes import cases_to_decide, limits_not_kept, what_would_change
from pathveil.auditing.evidence import TOGETHER, Records, Score, measure
from pathveil.auditing.verdict import judge
from pathveil.bundle.defence import LEAK_OF_PRESET

APPETITE = Appetite(release="weights", limits=(Limit(fpr=0.1, overall=0.2, worst_bucket=0.3),))
MODEL = ModelStatement(
    name="m", model_sha256="00", written="", tasks=("site",), reports=10, cases=10, registries=("R1",), words=5,
    words_by="by hand", preset="default", defence=None,
)  # fmt: skip


def told(leak, *, cases=2000, appetite=APPETITE, by_release=None, rare_leak=None, model=MODEL, edges=(400,)):
    rng = np.random.default_rng(1)
    member = np.arange(cases) % 2 == 0
    site = (np.arange(cases) % 7 == 0).astype(int)  # the second class is rare
    scores = rng.normal(size=cases) + member * np.where(site == 1, leak if rare_leak is None else rare_leak, leak)
    records = Records(member, np.arange(cases), {"site": site}, {"site": ("C50", "C64")})
    rows = measure([Score("loss", "site", scores)], records, edges=edges, fprs=(0.1, 0.01))
    verdict = judge(rows, controls=[], appetite=appetite)
    others = by_release or {"weights": verdict.answer, "probabilities": verdict.answer, "label": verdict.answer}
    return verdict, what_would_change(verdict, rows, appetite=appetite, by_release=others, model=model)


def test_a_fail_says_which_form_and_defence_would_pass():
    verdict, found = told(1.5, by_release={"weights": "fail", "probabilities": "fail", "label": "pass"})
    assert verdict.answer == "fail"
    assert "the most likely code only (label) it would pass" in found[0] and "--form labels" in found[0]
    assert any("--preset release" in one and f"{LEAK_OF_PRESET['default']:.2f} to" in one for one in found)
    assert any("What would have to come down" in one for one in found)
    assert not any("No form of release" in one for one in found)
    _, none = told(1.5, model=MODEL.model_copy(update={"defence": "teachers"}))
    assert any("No form of release passes" in one for one in none)
    assert any("has teachers already. Differential privacy" in one for one in none)
    assert not any("--preset release" in one for one in none)
    assert any("Other words alone would hardly do it" in one for one in none)
    limited = Appetite(release="weights", limits=(Limit(fpr=0.01, overall=0.05),))
    _, beside = told(2.5, appetite=limited)
    assert any("from 50 % to 3.9 % (5.0 % is tolerated here)" in one for one in beside), beside
    for defence, said in (("dp", "a smaller --epsilon"), ("own:one", None)):
        _, found = told(1.5, model=MODEL.model_copy(update={"defence": defence}))
        assert any(said in one for one in found) if said else not any("--epsilon" in one for one in found)


def test_only_rare_classes_can_be_left_to_a_person():
    """As few codes as will do: of three groups the rarest alone leaks, or the two rarest."""
    appetite = Appetite(release="weights", limits=(Limit(fpr=0.1, worst_bucket=0.3),))

    def found(*leaks, cases=9000):
        member, site = np.arange(cases) % 2 == 0, np.repeat([0, 1, 2], [cases // 12, cases // 4, cases - cases // 3])
        scores = np.random.default_rng(1).normal(size=cases) + member * np.array(leaks)[site]
        records = Records(member, np.arange(cases), {"site": site}, {"site": ("C64", "C18", "C50")})
        rows = measure([Score("loss", "site", scores)], records, edges=(500, 2000), fprs=(0.1,))
        verdict = judge(rows, controls=[], appetite=appetite)
        assert verdict.answer == "fail"
        others = dict.fromkeys(("weights", "probabilities", "label"), verdict.answer)
        told = what_would_change(verdict, rows, appetite=appetite, by_release=others, model=MODEL)
        return [one for one in told if "--fewest-cases" in one]

    (first,) = found(2.5, 0, 0)
    assert "fewer than 500 training samples break their limit, the others keep it" in first and "-cases 500 " in first
    (second,) = found(2.5, 2.5, 0)
    assert "fewer than 2,000 training samples" in second and "--fewest-cases 2000 " in second
    assert found(2.5, 2.5, 2.5) == [] and not any("--fewest-cases" in one for one in told(1.5)[1])


def test_only_the_tasks_that_leak_have_to_go():
    rng, cases = np.random.default_rng(1), 6000
    member = np.arange(cases) % 2 == 0
    records = Records(
        member,
        np.arange(cases),
        {task: np.zeros(cases, int) for task in ("site", "side", "behavior")},
        {task: ("a",) for task in ("site", "side", "behavior")},
    )
    scores = [
        Score("loss", task, rng.normal(size=cases) + leak * member)
        for task, leak in (("site", 1.5), ("side", 0.0), ("behavior", 0.0), (TOGETHER, 0.0))
    ]
    rows = measure(scores, records, edges=(100,), fprs=(0.1,))
    appetite = Appetite(release="weights", limits=(Limit(fpr=0.1, overall=0.2, worst_task=0.2),))
    verdict = judge(rows, controls=[], appetite=appetite)
    others = dict.fromkeys(("weights", "probabilities", "label"), verdict.answer)
    found = what_would_change(verdict, rows, appetite=appetite, by_release=others, model=MODEL)
    assert verdict.answer == "fail"
    assert "Of the tasks only site breaks a limit: trained with --tasks side,behavior" in "\n".join(found)


def test_not_enough_evidence_says_how_many_cases():
    verdict, found = told(0.25, cases=300, edges=(10_000,))
    assert verdict.answer == "not enough evidence"
    assert any("cases on each side would decide" in one or "more likely show a fail" in one for one in found), found
    rare = Appetite(release="weights", limits=(Limit(fpr=0.01, overall=0.05),))
    verdict, found = told(0.0, cases=300, appetite=rare, edges=(10_000,))
    assert verdict.answer == "not enough evidence" and "about 437 cases that the model never saw" in found[0]


def test_a_pass_says_what_it_rests_on():
    verdict, found = told(0.0, cases=6000)
    assert verdict.answer == "pass" and "The tightest limit" in found[0] and "A new audit is needed" in found[1]


@pytest.mark.parametrize("value", [0.12, 0.14])
def test_the_cases_reckoned_do_decide(value):
    """Held against the interval itself: with so many cases and the same share, its upper end meets the limit."""
    from scipy.stats import beta

    def high(cases):
        return float(beta.ppf(0.9875, round(value * cases) + 1, cases - round(value * cases)))

    needed = cases_to_decide(value=value, high=high(100), tolerated=0.2, cases=100)
    assert high(100) > 0.2 and high(needed) == pytest.approx(0.2, abs=0.02)


def test_what_has_to_come_down_is_the_worst_share():
    rows = [*whole()[:3], row(0.70, 0.75, 0.80, bucket="≥ 100"), row(0.68, 0.97, 1.0, bucket="< 100")]
    verdict = judge(rows, controls=[], appetite=APPETITE)
    assert verdict.answer == "fail" and "the worst bucket 97 % (68 % to 100 %)" in limits_not_kept(verdict)
