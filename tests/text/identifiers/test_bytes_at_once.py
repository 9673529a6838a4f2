"""What was compiled is taken from disk while all it is made of is the same, and only then."""

import importlib.util

from pathveil.text.identifiers import bytes_at_once


def test_compiled_functions_are_known_by_all_their_sources(tmp_path, monkeypatch):
    path = tmp_path / "kernels.py"
    path.write_text(
        "from pathveil.text.identifiers.bytes_at_once import kept\n\n\n@kept\ndef more(x):\n    return x + 1\n"
    )

    def is_from_disk() -> bool:
        spec = importlib.util.spec_from_file_location("kernels", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.more(1) == 2
        return bool(module.more.stats.cache_hits)

    assert [is_from_disk(), is_from_disk()] == [False, True]
    monkeypatch.setattr(bytes_at_once._Kept, "stamp", "other words")
    assert [is_from_disk(), is_from_disk()] == [False, True]


def test_a_word_more_is_another_stamp(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "tokenizer.py").write_text("WORDS = 1")
    before = bytes_at_once.sources(tmp_path)
    (tmp_path / "text" / "tokenizer.py").write_text("WORDS = 2")
    assert bytes_at_once.sources(tmp_path) != before
    assert bytes_at_once.sources() == bytes_at_once._Kept.stamp
