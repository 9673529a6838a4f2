"""FLARE's simulator around the same classes gives the embedded numbers."""

import json

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'pathveil[federation]'")

from safetensors.numpy import load_file

from pathveil.federation import embedded
from pathveil.federation.protocol.plan import Plan, read_reports

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_simulator_gives_the_embedded_numbers(pathveil, inside, tmp_path):
    corpus, words, out = tmp_path / "reports.parquet", tmp_path / "words.json", tmp_path / "run"
    inside("corpus", "synth", "--reports", 120, "--registries", 2, "--seed", 3, "--out", corpus)
    inside("vocab", "select", corpus, "--method", "baseline", "--min-count", 4, "--out", words)
    small = ["--epochs", 2, "--dim", 12, "--filters", 6, "--local-steps", 2, "--tasks", "site,behavior"]
    given = ["federate", "simulate", corpus.name, "--vocab", words.name, *small, "--out", out.name, "--json"]
    ended = pathveil(*given, cwd=tmp_path)  # as names from where one stands, which is not where a site works
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    plan = Plan.model_validate_json((out / "plan.json").read_text())
    sites = []
    for name in plan.sites:
        own, _ = read_reports(plan, name, corpus=[corpus], vocabulary=words, registries=[name])
        sites.append(plan.site(own, name))
    hub, history = embedded.train(sites, plan.shared(), settings=plan.settings, joint=False)
    assert result["validation_loss"] == history.validation_loss
    for name, array in load_file(out / "parameters.safetensors").items():
        np.testing.assert_array_equal(array, hub.best[name], err_msg=name)
