"""An audit is bound to its model: swapped sides, strangers, a chosen few and hidden training cases are refused."""

import numpy as np
import polars as pl
import pytest

from pathveil.auditing.binding import Binding
from pathveil.auditing.bundle_audit import read_audited_model
from pathveil.bundle import Model
from pathveil.bundle.train import train_model
from pathveil.bundle.training_cases import TrainingCases
from pathveil.errors import UsageError
from pathveil.training.settings import TrainingSettings

LONE = TrainingSettings(dim=8, filters=4, epochs=1, batch_size=16, validation_share=0.2)


def table(count: int, prefix: str, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    words = [f"word{number}" for number in range(60)]
    return pl.DataFrame(
        {
            "report_id": [f"{prefix}-{number}" for number in range(count)],
            "case_id": [f"{prefix}-case-{number // 2}" for number in range(count)],
            "registry": [f"R{number % 2}" for number in range(count)],
            "text": [" ".join(rng.choice(words, 12)) for _ in range(count)],
            "site": rng.choice(["C18", "C50"], count),
        }
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("binding")
    table(120, "in", 1).write_parquet(folder / "in.parquet")
    table(80, "out", 2).write_parquet(folder / "out.parquet")
    train_model(folder / "in.parquet", LONE, preset="tiny", out=folder / "m")
    return folder


@pytest.fixture(scope="module")
def read(place):
    model = Model.load(place / "m")

    def found(members: pl.DataFrame, non_members: pl.DataFrame, **options):
        members.write_csv(place / "members.csv")
        non_members.write_csv(place / "non-members.csv")
        sides = {"members": place / "members.csv", "non_members": place / "non-members.csv"}
        return read_audited_model(model, **sides, **options)

    return found


@pytest.fixture(scope="module")
def sides(place):
    return pl.read_parquet(place / "in.parquet"), pl.read_parquet(place / "out.parquet")


def test_copies_with_a_word_changed_are_no_others(place):
    """Under other ids, with one word in twelve another: fingerprints do not know them, and nothing could tell them
    from members. In a registry of templates, whose members are as alike, the same is how reports are written."""
    from pathveil.auditing.binding import Sides, check_not_copies
    from pathveil.vocabulary.encoded import EncodedCorpus

    rng = np.random.default_rng(5)
    own = rng.integers(2, 500, (40, 60))
    copy = np.where(np.arange(60) == 30, 1, own)

    def encoded(words: np.ndarray) -> EncodedCorpus:
        count = len(words)
        return EncodedCorpus(
            ids=words.ravel().astype(np.int32), offsets=np.arange(count + 1) * 60, cases=np.arange(count),
            registries=np.zeros(count, np.int32), registry_names=("R1",), labels={}, classes={}, vocabulary_size=500,
        )  # fmt: skip

    def check(members: np.ndarray, others: np.ndarray) -> None:
        check_not_copies(Sides(place, place, encoded(members), encoded(others)))

    with pytest.raises(UsageError, match="100 % of them are reports of the members with few words changed"):
        check(own, copy)
    check(own, rng.integers(2, 500, (40, 60)))
    check(own, np.concatenate([copy[:4], rng.integers(2, 500, (36, 60))]))
    template = np.where(rng.random((40, 60)) < 0.02, rng.integers(2, 500, (40, 60)), own[0])
    check(template[:20], template[20:])


def test_the_training_file_itself(place):
    model = Model.load(place / "m")
    found = read_audited_model(model, members=place / "in.parquet", non_members=place / "out.parquet")
    assert (
        found.binding == Binding(by="corpus", cases=60, of=60)
        and "byte by byte" in str(found.binding)
        and "held out" in found.notes[0]
    )
    with pytest.raises(UsageError, match="are swapped"):
        read_audited_model(model, members=place / "out.parquet", non_members=place / "in.parquet")


def test_another_file_or_a_part_is_known_by_its_reports(place, read, sides):
    inside, outside = sides
    whole = read(inside.sample(fraction=1, shuffle=True, seed=3), outside)
    first = read_audited_model(Model.load(place / "m"), members=place / "in.parquet", non_members=place / "out.parquet")
    names = lambda found: {found.report_ids[row] for row in found.model.members}  # noqa: E731
    assert whole.binding == Binding(by="cases", cases=60, of=60) and "all 60 cases, in another file" in str(
        whole.binding
    )
    assert names(whole) == names(first) and len(names(whole)) < 120  # held-out cases are left out of both
    part = read(inside.head(80), outside)
    assert part.binding == Binding(by="cases", cases=40, of=60)
    assert "40 of 60 cases (67 %)" in str(part.binding)
    assert names(part) == names(first) & set(inside.head(80)["report_id"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda i, o: (o, i), "are swapped"),
        (lambda i, o: (pl.concat([i, o.head(4)]), o.tail(70)), "4 of 124 reports are not among those"),
        (lambda i, o: (i.head(30), o), "holds 15 of 60 training cases; at least half"),
        (lambda i, o: (i.with_columns(site=pl.lit("C18")), o), "are not among those"),
        (lambda i, o: (i.head(80), pl.concat([o, i.tail(10)])), "10 of 90 reports belong to cases that the model"),
        (
            lambda i, o: (
                i.head(100),
                pl.concat([o, i.tail(10).with_columns(case_id=pl.lit("x") + pl.col("report_id"))]),
            ),
            "training reports under other names",
        ),
    ],
)
def test_what_does_not_belong_is_refused_and_marked_if_insisted_on(read, sides, change, said):
    members, non_members = change(*sides)
    with pytest.raises(UsageError, match=said):
        read(members, non_members)
    found = read(members, non_members, unbound=True)
    assert found.binding is None and "cannot be attached or lead to a release" in found.notes[0]


def test_without_the_private_side_only_the_file_itself_is_known(place, read, sides, tmp_path):
    path = TrainingCases.path_of(place / "m")
    path.rename(tmp_path / "away")
    try:
        with pytest.raises(UsageError, match=r"is not the corpus.*or keep .*training-cases\.json beside the bundle"):
            read(*sides)
    finally:
        (tmp_path / "away").rename(path)
