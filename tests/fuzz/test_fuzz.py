"""A short, fixed part of the fuzzing, and every file that once was a failure; ``make fuzz`` does the rest."""

from collections import Counter
from pathlib import Path

from fuzz.readers import READERS
from fuzz.run import SECONDS, START, Child, Failure, fuzz, share

FOUND = Path(__file__).parent / "found"
CASES = 2_500


def test_no_lie_ends_the_process_hangs_or_is_quoted():
    """Crash, hang, memory beyond a bound, an exception that is no sentence, a planted word: none."""
    quick = {name: reader.weight for name, reader in READERS.items() if reader.weight >= 0.1}
    counts: Counter[tuple[str, str]] = Counter()
    failures: list[Failure] = []
    fuzz(share(CASES, quick), counts, failures, seed=20261116)
    assert not failures, failures[:3]
    assert sum(counts.values()) >= CASES - len(quick)
    for name in quick:  # each reader was reached, and lies were told
        assert counts[name, "refused"] or name.startswith("cache"), name


def test_what_was_found_once_is_found_no_more():
    child = Child()
    try:
        for path in sorted(FOUND.glob("*/*")):
            reader = next(name for name in READERS if name.replace(" ", "-") == path.parent.name)
            child.ask(reader=reader, file=str(path), seed=0, start=0, stop=1)
            told = [child.hear(START), child.hear(SECONDS), child.hear(SECONDS)]
            assert told[1] is not None and told[1]["outcome"] in ("accepted", "refused"), (path, told)
    finally:
        child.stop()
