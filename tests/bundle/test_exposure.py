"""``vocab exposure --bundle``: a model's F1 beside the words it was trained with."""

import json

from pathveil.bundle.folder import WORDS


def test_f1_stands_beside_the_vocabulary(pathveil, bundle, folder, corpus):
    done = pathveil("vocab", "exposure", folder / WORDS, corpus, "--bundle", folder, "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["vocabularies"]
    expected = sum(score.micro.value for score in bundle.scores.values()) / len(bundle.scores)
    assert abs(row["scores"]["micro"] - expected) < 1e-9
    assert "quillfeather" not in done.stdout.lower()
