"""The end of the demo: a model that gives its cases away is refused, one that passes is released and verified."""

import pytest

from auditing.made import SMALL, audit_without_leak
from pathveil import api
from pathveil.bundle.train import train_model
from pathveil.corpus.split import split_corpus
from pathveil.studies import demo_release
from pathveil.studies.demo_release import audit_and_release


@pytest.fixture(scope="module")
def place(tmp_path_factory, one_thread):
    folder = tmp_path_factory.mktemp("demo")
    api.synth(160, registries=2, seed=1, out=folder / "corpus.parquet")
    split_corpus(folder / "corpus.parquet", out=folder / "parts", seed=1, test=0.4, validation=0.0)
    train_model(folder / "parts" / "train.parquet", SMALL, preset="small", out=folder / "model", tasks=["site"])
    return folder


def run(place):
    return audit_and_release(
        place, members=place / "parts" / "train.parquet", non_members=place / "parts" / "test.parquet"
    )


def test_a_weak_audit_refuses_with_its_reason_and_leaves_the_page(place):
    found = run(place)
    assert found.released is None and "the audit did not pass" in found.refusals[0]
    assert not (place / "release").exists() and (place / "audit" / "audit.html").exists()
    told = "\n".join(found.lines())
    assert "Not released" in told and told.endswith("audit.html") and "What would change it" in told


def test_a_pass_is_released_and_verified(place, monkeypatch):
    def passing(bundle, *, appetite, out, **_):
        from pathveil.auditing.result import write_audit

        audit = audit_without_leak(api.load(bundle), appetite)
        write_audit(audit, out)
        return audit

    monkeypatch.setattr(demo_release, "audit_bundle", passing)
    found = run(place)
    assert found.released == str(place / "release") and found.refusals == []
    assert "Released, signed and verified" in "\n".join(found.lines())
