"""What a site looks at before it takes part in a run."""

import json

import pytest

from federation.protocol.test_hub_run import plan_of
from pathveil.federation.wire import PlanError

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'pathveil[federation]'")

from pathveil.errors import VocabularyError
from pathveil.federation.flare.executor import open_run


def test_a_site_takes_part_without_masks_only_where_it_was_told_so(tmp_path, caplog):
    path = tmp_path / "local" / "pathveil.json"
    path.parent.mkdir()
    own = {"corpus": ["none"], "vocabulary": str(tmp_path / "none.json"), "registries": []}
    path.write_text(json.dumps(own))
    with pytest.raises(PlanError, match="the plan has no masks: the hub would see this site's updates by themselves"):
        open_run(plan_of("adversarial"), "A", session="ab", root=tmp_path)
    # Masked, or where it was told so, it goes on to read its words and reports.
    for plan, told in ((plan_of("adversarial", bits=32, sites=2), {}), (plan_of("cyclic"), {"unmasked": True})):
        path.write_text(json.dumps(own | told))
        with pytest.raises(VocabularyError):
            open_run(plan, "A", session="ab", root=tmp_path)
    assert "with two sites masks hide nothing from the other" in caplog.text
