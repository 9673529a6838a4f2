"""Hold what the package does today against what was recorded, and print each difference in words.

    python tests/golden/compare.py                     compare; exit code 1 on a difference that nobody accepted
    python tests/golden/compare.py --record            record anew, all of it
    python tests/golden/compare.py --only 'exact/import/*'   look at (or record) some items only

Records are JSON files, ``records/<list>/<group>.json``. The *exact* list must be equal; numbers of the *tolerant* list
must be close; for the *statistical* one see ``statistical.py``. ``accepted.toml`` has a line with its reason for each
item that may differ; recording empties it.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
RECORDS, ACCEPTED = HERE / "records", HERE / "accepted.toml"
RTOL, ATOL = 1e-4, 1e-6
ROWS = 5  # to show of a difference
FAILS = "the group ends here"  # instead of the items that a group had left when it failed
FEWEST_PAIRS = 5  # of seeds and splits, below which means say nothing
WIDE = 300  # characters to show of a row


class Difference(NamedTuple):
    item: str  # list/group/name
    lines: list[str]
    known_wrong: str | None = None  # why the recorded value is no example to follow

    def __str__(self) -> str:
        note = [f"  (the record is known to be wrong: {self.known_wrong})"] if self.known_wrong else []
        return "\n".join([self.item, *note, *(f"  {line}" for line in self.lines)])


def shorten(value: Any) -> str:
    """A value on one line, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= WIDE else f"{text[:WIDE]}… ({len(text):,} characters)"


def exact_differences(before: Any, after: Any) -> list[str]:
    """What differs between two plain values, as lines."""
    if before == after and type(before) is type(after):
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        lines = []
        for key in [*before, *(key for key in after if key not in before)]:
            if key not in after:
                lines.append(f"{key}: is gone; was {shorten(before[key])}")
            elif key not in before:
                lines.append(f"{key}: is new: {shorten(after[key])}")
            else:
                lines += [f"{key}: {line}" for line in exact_differences(before[key], after[key])]
        return lines
    if isinstance(before, list) and isinstance(after, list):
        return row_differences(before, after)
    if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > WIDE:
        start = max(0, next_difference(before, after) - 40)
        return [f"from character {start}: {shorten(before[start:])} → {shorten(after[start:])}"]
    return [f"{shorten(before)} → {shorten(after)}"]


def next_difference(before: str, after: str) -> int:
    """The first place where two different texts differ.

    >>> next_difference("left", "lend"), next_difference("left", "lefts")
    (2, 4)
    """
    places = (place for place, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
    return next(places, min(len(before), len(after)))


def row_differences(before: list, after: list) -> list[str]:
    """The first rows that differ: place by place where there are as many, else those that one side alone has."""
    if len(before) == len(after):
        places = [number for number, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
        lines = [f"{len(places):,} of {len(before):,} rows differ"]
        return lines + [
            f"row {n}: {line}" for n in places[:ROWS] for line in exact_differences(before[n], after[n])[:ROWS]
        ]
    counts = [Counter(json.dumps(row, sort_keys=True, ensure_ascii=False) for row in rows) for rows in (before, after)]
    lines = [f"{len(before):,} → {len(after):,} rows"]
    for word, rows in (("gone", counts[0] - counts[1]), ("new", counts[1] - counts[0])):
        lines += [f"{word}: {shorten(row)}" for row in list(rows.elements())[:ROWS]]
    return lines


def tolerant_differences(before: Any, after: Any) -> list[str]:
    """As ``exact_differences``, where numbers may differ by little."""
    far: list[str] = []
    worst = 0.0

    def walk(one: Any, other: Any, place: str) -> None:
        nonlocal worst
        if is_number(one) and is_number(other):
            if not math.isclose(one, other, rel_tol=RTOL, abs_tol=ATOL):
                worst = max(worst, abs(one - other) / max(abs(one), abs(other)))
                far.append(f"{place}: {one:.6g} → {other:.6g}")
        elif isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
            for key in one:
                walk(one[key], other[key], f"{place}.{key}".lstrip("."))
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            for number, (left, right) in enumerate(zip(one, other, strict=True)):
                walk(left, right, f"{place}[{number}]")
        else:
            far.extend(f"{place or 'value'}: {line}" for line in exact_differences(one, other))

    walk(before, after, "")
    if len(far) <= ROWS:
        return far
    return [*far[:ROWS], f"and {len(far) - ROWS:,} more; the largest relative difference is {worst:.2g}"]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


COMPARE = {"exact": exact_differences, "tolerant": tolerant_differences}


def statistical_differences(before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> list[str]:
    """Figures whose mean difference over pairs lies beyond two of its standard errors.

    A pair is a figure of one seed and split, before and after. Each row has ``seed``, ``split`` and ``figures``.
    """
    sides = [{(row["seed"], row["split"]): row["figures"] for row in rows} for rows in (before, after)]
    pairs = sorted(sides[0].keys() & sides[1].keys())
    if len(pairs) < FEWEST_PAIRS:
        return [f"{len(pairs)} pairs of the same seed and split; {FEWEST_PAIRS} are needed"]
    names = [{name for pair in pairs for name in side[pair]} for side in sides]
    lines = [
        f"{name}: is there {'before' if name in names[0] else 'after'} only" for name in sorted(names[0] ^ names[1])
    ]
    for name in sorted(names[0] & names[1]):
        steps = [sides[1][pair][name] - sides[0][pair][name] for pair in pairs
                 if name in sides[0][pair] and name in sides[1][pair]]  # fmt: skip
        mean = statistics.fmean(steps)
        error = statistics.stdev(steps) / math.sqrt(len(steps)) if len(steps) > 1 else 0.0
        if abs(mean) > 2 * error + ATOL:
            lines.append(f"{name}: {mean:+.4f} over {len(steps)} pairs, standard error {error:.4f}")
    return lines


def round_numbers(value: Any) -> Any:
    """The same with seven digits of each number: all that a tolerant record needs."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return [round_numbers(one) for one in value]
    return {key: round_numbers(one) for key, one in value.items()} if isinstance(value, dict) else value


def plain(value: Any, kind: str) -> Any:
    """As it comes back from its record."""
    return json.loads(json.dumps(round_numbers(value) if kind == "tolerant" else value))


def lines_of(value: Any, indent: str = "") -> str:
    """JSON with one line a row, so that git shows what changed."""
    whole = json.dumps(value, ensure_ascii=False)
    if len(whole) + len(indent) <= 150 or not value or not isinstance(value, dict | list):
        return whole
    deeper = indent + " "
    if isinstance(value, dict):
        rows = [f"{json.dumps(key, ensure_ascii=False)}: {lines_of(one, deeper)}" for key, one in value.items()]
    else:
        rows = [json.dumps(one, ensure_ascii=False) for one in value]
    left, right = "{}" if isinstance(value, dict) else "[]"
    return f"{left}\n{deeper}" + f",\n{deeper}".join(rows) + f"\n{indent}{right}"


def write(path: Path, items: Mapping[str, Any], known_wrong: Mapping[str, str]) -> None:
    notes = {name: why for name, why in known_wrong.items() if name in items}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        lines_of(({"known wrong": notes} if notes else {}) | {"items": dict(items)}) + "\n", encoding="utf-8"
    )


def read_records() -> tuple[dict[str, Any], dict[str, str]]:
    """Every recorded value by list/group/name, and what is known to be wrong with some."""
    values: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for path in sorted(RECORDS.glob("*/*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        group = f"{path.parent.name}/{path.stem}"
        values |= {f"{group}/{name}": value for name, value in content["items"].items()}
        wrong |= {f"{group}/{name}": why for name, why in content.get("known wrong", {}).items()}
    return values, wrong


def read_accepted() -> dict[str, str]:
    """Items, or patterns of items, that may differ, each with its reason."""
    return tomllib.loads(ACCEPTED.read_text(encoding="utf-8")) if ACCEPTED.exists() else {}


def differences(current: Mapping[str, Any], only: str = "*") -> Iterator[Difference]:
    """All differences between the records and what the package does now."""
    values, wrong = read_records()
    for item in [*values, *(item for item in current if item not in values)]:
        kind, group, name = item.split("/", 2)
        if name == FAILS:
            lines = "".join(current[item]).splitlines()
        elif not fnmatch(item, only) or (item not in current and f"{kind}/{group}/{FAILS}" in current):
            continue
        elif item not in current:
            lines = ["was recorded, and is not there any more"]
        elif item not in values:
            lines = [f"is not recorded: {shorten(current[item])}"]
        else:
            lines = COMPARE[kind](values[item], current[item])
        if lines:
            yield Difference(item, lines, wrong.get(item))


def judge(current: Mapping[str, Any], only: str = "*") -> tuple[list[Difference], list[str], list[str]]:
    """Differences that nobody accepted; lines on those that somebody did; accepted items that differ no more."""
    reasons = read_accepted()
    fresh, lines, needed = [], [], set()
    for one in differences(current, only):
        patterns = [name for name in reasons if fnmatch(one.item, name)]
        needed.update(patterns)
        if patterns:
            lines.append(f"{one.item}: accepted, {reasons[patterns[0]]}")
        else:
            fresh.append(one)
    stale = [name for name in reasons if name not in needed] if only == "*" else []
    return fresh, lines, stale


def run_items(only: str = "*") -> tuple[dict[str, Any], dict[str, str]]:
    """What the package does now, in a folder that goes again."""
    from items import KNOWN_WRONG, groups

    current: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, groups(Path(folder)) as listing:
        for kind, name, items in listing:
            group = f"{kind}/{name}"
            if fnmatch(group, "/".join(only.split("/")[:2])) or only == "*":
                try:
                    for item, value in items():
                        current[f"{group}/{item}"] = plain(value, kind)
                except Exception as error:  # one part that is being rebuilt hides no other
                    current[f"{group}/{FAILS}"] = traceback.format_exception(error)[-2:]
    return {item: value for item, value in current.items() if fnmatch(item, only) or item.endswith(FAILS)}, KNOWN_WRONG


def record(current: Mapping[str, Any], known_wrong: Mapping[str, str], only: str) -> None:
    values = dict(current) if only == "*" else read_records()[0]
    values = {item: value for item, value in values.items() if item in current or not fnmatch(item, only)} | dict(
        current
    )
    by_group: dict[str, dict[str, Any]] = {}
    for item, value in values.items():
        kind, group, name = item.split("/", 2)
        by_group.setdefault(f"{kind}/{group}", {})[name] = value
    for path in RECORDS.glob("*/*.json"):
        if f"{path.parent.name}/{path.stem}" not in by_group:
            path.unlink()
    for group, items in by_group.items():
        wrong = {
            name.removeprefix(f"{group}/"): why for name, why in known_wrong.items() if name.startswith(f"{group}/")
        }
        write(RECORDS / f"{group}.json", items, wrong)
    remaining = {name: why for name, why in read_accepted().items() if only != "*" and not fnmatch(name, only)}
    head = [line for line in ACCEPTED.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    lines = [f"{json.dumps(name)} = {json.dumps(why, ensure_ascii=False)}" for name, why in remaining.items()]
    ACCEPTED.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true", help="record anew what the package does now")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="look at these items only, list/group/name")
    options = parser.parse_args()
    current, known_wrong = run_items(options.only)
    if options.record:
        for one in differences(current, options.only):
            print(one, end="\n\n")
        if any(item.endswith(FAILS) for item in current):
            print("a group fails, so nothing is recorded")
            return 1
        record(current, known_wrong, options.only)
        print(f"{len(current):,} items recorded")
        return 0
    fresh, lines, stale = judge(current, options.only)
    for one in fresh:
        print(one, end="\n\n")
    for line in [*lines, *(f"accepted.toml: {name} differs no more; remove the line" for name in stale)]:
        print(line)
    print(f"{len(current):,} items, {len(fresh)} differ, {len(lines)} differences accepted")
    return 1 if fresh or stale else 0


if __name__ == "__main__":
    sys.exit(main())
