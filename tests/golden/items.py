"""What the net looks at: commands as a user types them and functions of ``adapter``, on the files of ``inputs``.

A function of a list (*exact* or *tolerant*) yields items, each a name and a value of JSON's types.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import adapter
import numpy as np
import polars as pl
from adapter import CORPUS, run

INPUTS = Path(__file__).parent / "inputs"
# Of the texts and patients of the inputs: no message of any command may show one.
SECRETS = re.compile(r"quastenflosser|zebrowska|mcmuffin|burger\d|quarbescu|tarkington|carcinoma|erika|lindenstr", re.I)
KNOWN_WRONG = {
    "exact/import/personal_columns.csv by map": "names, birth dates and streets of a table are written to the corpus",
    "exact/check/personal_columns.csv": "'geb. 24.12.1950' is not counted as a birth date",
    "exact/import/unreadable_dates.csv": "a report with an unreadable date is left out; one without a date stays",
    "exact/label/by patient, 60 days": "a patient's only abstract counts as no match where it has no day",
    "exact/label/by number, then by patient": "a second key cannot fill what the first left open",
    "exact/check/addenda.hl7": "addenda are not named as such",
    "exact/map/cp1252.csv": "the encoding of the first file is written down, so that another file is refused",
    "exact/map/german_registry.csv": "'Meldestelle' is not proposed as the registry",
    "exact/map/a folder": "a folder cannot be mapped, though it can be imported",
    "exact/map/by_patient.csv": "proposes a key that no message has",
}

Items = Iterator[tuple[str, Any]]
GROUPS: list[tuple[str, str, Callable[[], Items]]] = []


def group(kind: str, name: str) -> Callable[[Callable[[], Items]], Callable[[], Items]]:
    def take(function: Callable[[], Items]) -> Callable[[], Items]:
        GROUPS.append((kind, name, function))
        return function

    return take


exact, tolerant = partial(group, "exact"), partial(group, "tolerant")


@contextlib.contextmanager
def groups(folder: Path) -> Iterator[list[tuple[str, str, Callable[[], Items]]]]:
    """All groups of items, to be asked in a copy of the inputs."""
    shutil.copytree(INPUTS, folder, dirs_exist_ok=True)
    mask, cache = os.umask(0o022), os.environ.pop("PATHVEIL_CACHE", None)
    try:
        with contextlib.chdir(folder):
            yield GROUPS
    finally:
        for cached in (adapter.model, adapter.counts, small_model):
            cached.cache_clear()
        os.umask(mask)
        if cache is not None:
            os.environ["PATHVEIL_CACHE"] = cache


def quotes(*texts: str) -> bool:
    return any(SECRETS.search(one) for one in texts)


def refusal(code: int, out: str, errors: str, *arguments: Any) -> dict[str, Any]:
    """What counts of a refusal, but for its wording."""
    return {
        "exit": code,
        "files": sorted({name for name in map(str, arguments) if re.search(rf"(^|[\s/]){re.escape(name)}\b", errors)}),
        "places": re.findall(r"\b(?:line|row|record|message|cell) [\d,]+", errors),
        "columns": sorted({name for name in re.findall(r"'([^'\s]{1,40})'", errors) if name[0].isalpha()}),
        "sentences": len(re.findall(r"^pathveil: ", errors, re.M)),
        "quotes a report": quotes(out, errors),
    }


def rows_of(table: Path | str | pl.DataFrame) -> list[dict[str, Any]]:
    """A table's rows as JSON has them, without what is empty."""
    frame = table if isinstance(table, pl.DataFrame) else pl.read_parquet(table)
    return [
        {k: v if isinstance(v, int | float | str | list) else str(v) for k, v in row.items() if v is not None}
        for row in frame.to_dicts()
    ]


def digest(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def fresh(name: str) -> Path:
    """A place for a file or folder that is not there yet."""
    Path("out").mkdir(exist_ok=True)
    return Path("out") / f"{len(list(Path('out').iterdir())):03}-{name}"


def columns(**theirs: str) -> tuple[str, ...]:
    return tuple(part for ours, name in theirs.items() for part in ("--column", f"{ours}={name}"))


# --------------------------------------------------------------------------------------------------------------- exact


@exact("text")
def text_items() -> Items:
    odd = json.loads(Path("texts.json").read_text())
    yield "tokens of odd texts", [" ".join(adapter.tokens(text))[:2000] for text in odd]
    yield "places of odd texts", [digest(adapter.places(text)) for text in odd]
    yield "identifiers of odd texts", [adapter.identifiers(text)[:50] for text in odd]
    reports = pl.read_parquet(CORPUS).select("report_id", "text").rows()
    for name, function in {
        "tokens": adapter.tokens,
        "places": adapter.places,
        "places without identifiers": partial(adapter.places, identifiers=False),
    }.items():
        results = ((report, function(text)) for report, text in reports)
        yield f"{name} of reports", [f"{report} {len(one)} {digest(one)}" for report, one in results]
    spans = ((report, adapter.identifiers(text)) for report, text in reports)
    yield (
        "identifiers of reports",
        [" ".join([report, *(f"{a}-{b}:{kind}" for a, b, kind in one)]) for report, one in spans],
    )


KEY = ("--key-file", "hl7.key")
BEFUNDE = columns(
    report_id="Befundnr", case_id="Fallnr", date="Eingang", text="Befund", site="Topographie", histology="Morphologie",
    laterality="Seite",
)  # fmt: skip
JOINED = "select header.acc, pat_id, day, site, no, line from header join lines on header.acc = lines.acc"
TABLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(["dates.xlsx", "notes_at_end.xlsx", "title_row.xlsx", "two_sheets.xlsx"], BEFUNDE),
    "lines.csv": columns(report_id="acc", case_id="patient", line="line", section="section"),
    "sections.csv": columns(report_id="acc", case_id="patient", text="dx+gross+comment"),
    "nested.json": columns(report_id="id", case_id="patient.number", site="codes.site", histology="codes.histology"),
    "columns.parquet": columns(
        report_id="ACC", case_id="TUMOR_ID", text="DX+GROSS", date="DAY", site="TOPO", histology="MORPH"
    ),
    "index.csv": ("--texts", "tables/texts", *columns(report_id="ACC", case_id="PAT", text="FILE")),
    "reports.sqlite": (
        "--query", JOINED, *columns(report_id="acc", case_id="pat_id", date="day", text="line", line="no")
    ),
}  # fmt: skip


def tables() -> list[Path]:
    return sorted(path for path in Path("tables").iterdir() if path.suffix not in (".toml", ".pathveil", ""))


def import_result(*arguments: Any) -> dict[str, Any]:
    """The corpus that an import writes, and what it counted; or what counts of a refusal."""
    out = fresh("corpus.parquet")
    code, text, errors = run("corpus", "import", *arguments, "--out", out, "--json")
    if code:
        return refusal(code, text, errors, *arguments)
    types = [f"{name}: {kind}" for name, kind in pl.read_parquet_schema(out).items()]
    result = {"counts": adapter.import_counts(json.loads(text)), "quotes a report": quotes(text, errors)}
    return result | {"columns": types, "rows": rows_of(out)}


@exact("import")
def import_items() -> Items:
    for path in [*sorted(Path("hl7").iterdir()), *sorted(Path("fhir").iterdir())]:
        yield path.name, import_result(path, *KEY)
    yield "all messages", {name: value for name, value in import_result("hl7", *KEY).items() if name != "rows"}
    for path in tables():
        registry = ("--registry", "R") if path.name in TABLES else ()
        yield path.name, import_result(path, *registry, *TABLES.get(path.name, ()))
    sheet = ("--sheet", "Befunde", "--registry", "R", *BEFUNDE)
    for name, arguments in {
        "bom_cp1252.csv as cp1252": ("tables/bom_cp1252.csv", "--encoding", "cp1252"),
        "two_sheets.xlsx, second": ("tables/two_sheets.xlsx", *sheet),
        "codes.csv, unknown stay": ("tables/codes.csv", "--keep-unknown-codes"),
        "personal_columns.csv by map": ("tables/personal_columns.csv", "--map", "tables/mapping.toml"),
        "plain.xlsx, some skipped": ("tables/plain.xlsx", "--most-skipped", "0.2"),
        "notes_at_end.xlsx, some skipped": (
            "tables/notes_at_end.xlsx", "--registry", "R", "--most-skipped", "0.2", *BEFUNDE
        ),
        "ragged.csv, strict": ("tables/ragged.csv", "--strict"),
        "broken.hl7, strict": ("hl7/broken.hl7", "--strict", *KEY),
        "broken.jsonl, some skipped": ("tables/broken.jsonl", "--most-skipped", "0.5"),
        "broken_line.ndjson, some skipped": ("fhir/broken_line.ndjson", "--most-skipped", "0.5", *KEY),
        "two tables": ("tables/usual.csv", "tables/list.json"),
    }.items():  # fmt: skip
        yield name, import_result(*arguments)


@exact("map")
def map_items() -> Items:
    for path in [*tables(), *sorted(Path("labels").iterdir()), Path("tables/texts")]:
        query = ("--query", "select * from header") if path.suffix == ".sqlite" else ()
        code, text, errors = run("corpus", "map", path, *query, "--out", fresh("map.toml"), "--json")
        result = refusal(code, text, errors, path) if code else adapter.proposal(json.loads(text))
        yield "a folder" if path.is_dir() else path.name, result | {"quotes a report": quotes(text, errors)}


@exact("label")
def label_items() -> Items:
    reports, messages, half = "labels/reports.parquet", fresh("messages.parquet"), Path("out/half.parquet")
    run("corpus", "import", "hl7/for_labels.hl7", *KEY, "--out", messages)
    german = columns(report_number="Befundnr", site="Topographie", histology="Morphologie", laterality="Seite")
    by_patient = (*KEY, "--on", "patient", "--authority", "KLINIK")
    by_accession = ("--on", "report_number", *columns(report_number="accession"))
    codes = columns(site="primary_site", histology="morphology")
    sheet = columns(site="TOPO", histology="MORPH", laterality="SIDE")
    for name, arguments in {
        "by case": (reports, "labels/by_case.csv", "--on", "case_id", *codes),
        "by number": (reports, "labels/by_number.csv", "--on", "report_number"),
        "german words": (reports, "labels/german.csv", "--on", "report_number", *german),
        "from a workbook": (reports, "labels/abstracts.xlsx", "--on", "case_id", *sheet),
        "from NAACCR XML by number": (messages, "labels/abstracts.xml", "--on", "report_number"),
        "from NAACCR XML by patient": (messages, "labels/abstracts.xml", *by_patient, *columns(patient="patient_id")),
        "by patient": (messages, "labels/by_patient.csv", *by_patient),
        "by patient, 60 days": (messages, "labels/by_patient.csv", *by_patient, "--days", 60),
        "by number of messages": (messages, "labels/by_patient.csv", *by_accession),
        "by number, then by patient": (half, "labels/by_patient.csv", *by_patient),
        "without a match": (reports, "labels/by_patient.csv", *by_accession),
        "without the column": (reports, "labels/by_case.csv", "--on", "report_number"),
    }.items():
        out = half if name == "by number of messages" else fresh("labelled.parquet")
        code, text, errors = run("corpus", "label", *arguments, "--out", out, "--json")
        if code:
            yield name, refusal(code, text, errors, *arguments)
        else:
            rows = rows_of(pl.read_parquet(out).drop("text"))
            yield name, {"counts": adapter.label_counts(json.loads(text)), "rows": rows}


@exact("check")
def check_items() -> Items:
    for source, how in {
        str(CORPUS): None,
        "hl7/addenda.hl7": KEY,
        "tables/duplicates.csv": ("--most-skipped", "0.2"),
        "tables/personal_columns.csv": ("--map", "tables/mapping.toml"),
    }.items():
        path = Path(source) if how is None else fresh("checked.parquet")
        if how is not None:
            run("corpus", "import", source, *how, "--out", path)
        code, text, errors = run("corpus", "check", path, "--json")
        result = adapter.check_figures(json.loads(text)) if not code else refusal(code, text, errors, source)
        yield Path(source).name, result | {"quotes a report": quotes(text, errors)}


@exact("split")
def split_items() -> Items:
    for name, how in {
        "by case": (),
        "by case, seed 1, a third": ("--seed", 1, "--test", 0.33, "--validation", 0.1),
        "by date": ("--test-from", "2016-07-01"),
        "near the diagnosis": ("--relevant-to", "diagnosis_date", "--days", 30),
    }.items():
        out = fresh("split")
        code, *_ = run("corpus", "split", CORPUS, *how, "--out", out)
        parts = {path.stem: pl.read_parquet(path)["report_id"].to_list() for path in sorted(out.glob("*.parquet"))}
        rows = {part: [" ".join(ids[n : n + 8]) for n in range(0, len(ids), 8)] for part, ids in parts.items()}
        yield name, {"exit": code} | rows


@exact("words")
def word_items() -> Items:
    sentences = (
        "registries >= 2 and cases >= 3",
        "cases >= 5",
        "registries >= 4 and cases >= 10",
        "top 60 by mutual-information",
        "cases >= 5 then top 100 by occurrences",
        "not (cases >= 3) and occurrences >= 5",
        "reports >= 20 or registries >= 3",
    )
    ways: dict[str, dict[str, Any]] = {sentence: {"sentence": sentence} for sentence in sentences}
    ways["by itself"] = {}
    ways["without a registry"] = {"sentence": "cases >= 3", "leave_out": "R2", "tasks": "site"}
    for name, how in ways.items():
        words = adapter.select_words(**how)
        listing = sorted(words) if len(words) <= 500 else digest(sorted(words))
        yield name, {"number": len(words), "order": digest(words), "words": listing}
    counts = adapter.counts()
    rows = [
        f"{word} {counts.occurrences[:, n].tolist()} {counts.reports[:, n].tolist()} {counts.cases[:, n].tolist()}"
        for n, word in enumerate(counts.words)
    ]
    yield "counts", {"number": len(rows), "all": digest(sorted(rows)), "of some": sorted(rows)[::100]}
    joint = [[int(one.sum()), int(one.nnz)] for one in counts.joint]
    yield "counts with labels", {"joint": joint, "labels": counts.labels.tolist(), "tasks": list(counts.classes)}
    groups: dict[int, list[str]] = {}
    cases = pl.read_parquet(CORPUS)["case_id"]
    for number, case in zip(adapter.near_duplicates(adapter.encode_corpus()), cases, strict=True):
        groups.setdefault(number, []).append(case)
    joined_cases = [sorted(set(one)) for one in groups.values()]
    yield "cases joined by near-duplicates", sorted(one for one in joined_cases if len(one) > 1)
    out = fresh("words.json")
    run("vocab", "select", CORPUS, "--choose", sentences[0], "--out", out)
    _, text, _ = run("vocab", "exposure", out, CORPUS, "--truth", "truth.parquet", "--json")
    yield "exposure", adapter.exposure_figures(json.loads(text))


@exact("agreement")
def agreement_items() -> Items:
    counts = adapter.counts()
    sites = {
        name: {word: int(number) for word, number in zip(counts.words, counts.cases[row], strict=True) if number}
        for row, name in enumerate(counts.registry_names)
    }
    for threshold, least in ((3, 10), (4, 5)):
        agreement = adapter.agree_on_words(sites, threshold=threshold, least=least)
        yield f"{threshold} of 4 sites, {least} cases", agreement


def line(answer: dict[str, Any]) -> str:
    return " ".join([*answer["reports"], *answer["codes"], "!" * answer["against"]]).strip()


@exact("predict")
def predict_items() -> Items:
    results = adapter.answers()
    yield "codes", [line(one) for one in results]
    yield "terms", sorted({term for one in results for term in one["terms"]})
    yield "codes that fit together", [line(one) for one in adapter.answers(joint="subsite,histology,laterality")]
    for name, how in {"by case": {}, "one tumour a case": {"one_tumor": True}}.items():
        results = adapter.answers(by_case=True, **how)
        yield f"codes {name}", [f"{one['case']} {one['tumour']} {line(one)}" for one in results]
    result = adapter.reasons(pl.read_parquet(CORPUS)["text"][0])
    yield "places", {task: [list(one[:2]) for one in places] for task, places in result.items()}
    for source, how in {
        str(CORPUS): (),
        "hl7/several_reports.hl7": KEY,
        "hl7/addenda.hl7": KEY,
        "hl7/corrections.hl7": KEY,
        "hl7/broken.hl7": (*KEY, "--most-skipped", "0.5"),
        "fhir/mixed.ndjson": KEY,
        "fhir/contained_specimen.json": KEY,
        "tables/notes_at_end.xlsx": (
            *columns(text="Befund", report_id="Befundnr", case_id="Fallnr"),
            "--most-skipped",
            "0.2",
        ),
        "tables/unreadable_dates.csv": (),
        "tables/texts": ("--format", "text"),
    }.items():
        name = Path(source).name
        for kind in ("jsonl", "xml"):
            out = fresh(f"codes.{kind}")
            code, text, errors = run("predict", "bundle", source, *how, "--out", out)
            if code:
                yield f"{kind} of {name}", refusal(code, text, errors, source)
                continue
            lines = [one.strip() for one in out.read_text().splitlines()]
            rows = lines if kind == "xml" else [adapter.answer_line(json.loads(one)) for one in lines]
            yield f"{kind} of {name}", rows if len(rows) < 150 else {"number": len(rows), "all": digest(rows)}
    out = fresh("codes.csv")
    run("predict", "bundle", CORPUS, "--out", out)
    yield "columns of a CSV", out.read_text().partition("\n")[0].split(",")


@exact("tumours")
def tumour_items() -> Items:
    def codes(text: str) -> dict[str, str]:
        def task(word: str) -> str:
            return ("subsite" if "." in word else "site") if word[0] == "C" else "laterality"

        return {"histology" if word.isdigit() else task(word): word for word in text.split()}

    pairs = json.loads(Path("tumours.json").read_text())
    two = ((one, other, adapter.are_two_tumours(codes(one), codes(other))) for one, other in pairs)
    yield "pairs", [f"{one} | {other}: {'two' if apart else 'one'}" for one, other, apart in two]


@exact("refusals")
def refusal_items() -> Items:
    adapter.model()
    shutil.copytree("bundle", "spoilt")
    weights = Path("spoilt") / adapter.WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    shutil.copy("tables/columns.parquet", "mine.parquet")
    out = ("--out", "out/x.parquet")
    for name, arguments in {
        "no such file": ("corpus", "import", "nowhere.csv", *out),
        "no such column": ("corpus", "import", "tables/usual.csv", "--column", "text=TXET", *out),
        "broken JSON line": ("corpus", "import", "tables/broken.jsonl", *out, "--strict"),
        "broken FHIR line": ("corpus", "import", "fhir/broken_line.ndjson", *out, "--strict"),
        "no key file": ("corpus", "import", "hl7/usual.hl7", "--key-file", "none.key", *out),
        "no such sheet": ("corpus", "import", "tables/dates.xlsx", "--sheet", "Befund", *out),
        "a title row": ("corpus", "map", "tables/title_row.xlsx", "--out", "out/x.toml"),
        "wrong date format": ("corpus", "import", "tables/usual.csv", "--dates", "mm/yyyy", *out),
        "wrong encoding": ("corpus", "import", "tables/cp1252.csv", "--encoding", "utf-8", *out),
        "a file of another kind is there": ("vocab", "select", CORPUS, "--out", "mine.parquet"),
        "no such task": ("corpus", "check", CORPUS, "--tasks", "stie"),
        "wrong sentence": ("vocab", "select", CORPUS, "--choose", "cases >> 3", "--out", "out/x.json"),
        "unknown measure": ("vocab", "select", CORPUS, "--choose", "caes >= 3", "--out", "out/x.json"),
        "a spoilt model": ("predict", "spoilt", CORPUS, "--out", "out/x.csv"),
        "no model": ("predict", "tables", CORPUS, "--out", "out/x.csv"),
        "unknown joint rule": ("predict", "bundle", CORPUS, "--joint", "site", "--out", "out/x.csv"),
        "unknown output": ("predict", "bundle", CORPUS, "--out", "out/x.docx"),
        "unknown preset": ("train", CORPUS, "--preset", "smal", "--out", "out/model"),
        "no epochs": ("train", CORPUS, "--preset", "small", "--epochs", "0", "--out", "out/model"),
        "no corpus": ("federate", "run", "hl7/usual.hl7", "--out", "out/run"),
        "no study": ("study", "run", "tables/mapping.toml", "--out", "out/run"),
        "audit without members": ("audit", "bundle", "--out", "out/audit"),
        "not a table of answers": ("audit", "--predictions", CORPUS, "--out", "out/audit"),
        "release without audit": (
            "release", "bundle", "--audit", "tables", "--appetite", "none.toml", "--key", "hl7.key", "--out", "out/r"
        ),
        "verify a folder": ("verify", "bundle", "--key", "hl7.key"),
    }.items():  # fmt: skip
        yield name, refusal(*run(*arguments), *arguments)


@exact("federation")
def federation_items() -> Items:
    """What sites send, by name, shape and size; the loss of an epoch is a fact, so facts are named, not counted."""
    for name, (mode, changes) in {
        "adversarial": ("adversarial", {}),
        "strong": ("strong", {"discriminator_steps": 2, "hidden": 5}),
        "fedavg": ("fedavg", {}),
        "cyclic": ("cyclic", {}),
        "adversarial, masked": ("adversarial", {"bits": 32}),
        "noised": ("adversarial", {"clip": 1.0, "noise": 2.0}),
    }.items():
        kinds: dict[tuple[str, ...], Counter[str]] = {}
        for site, facts, arrays in adapter.messages_of_sites(mode, fresh("federation"), **changes):
            names = " ".join(f"{fact}:{type(value).__name__}" for fact, value in sorted(facts.items()))
            layout = [f"{array} {list(one.shape)} {one.dtype} {one.nbytes} bytes" for array, one in arrays.items()]
            kinds.setdefault((names, *sorted(layout)), Counter())[site] += 1
        yield (
            name,
            [
                {"facts": names, "arrays": layout, "sent by": dict(sorted(sites.items()))}
                for (names, *layout), sites in sorted(kinds.items(), key=lambda kind: kind[0])
            ],
        )


def without_numbers(value: Any) -> Any:
    """An answer without its probabilities, and without the hash that names the model."""
    if isinstance(value, str):
        return re.sub(r"\b[0-9a-f]{64}\b", "(hash)", value)
    if isinstance(value, dict):
        left = ("model", "probability", "weight", "valueDecimal")
        return {key: without_numbers(one) for key, one in value.items() if key not in left}
    return [without_numbers(one) for one in value] if isinstance(value, list) else value


@exact("service")
def service_items() -> Items:
    bearer = {"authorization": f"Bearer {adapter.TOKEN}"}
    fhir = {"accept": "application/fhir+json"}
    reports = pl.read_parquet(CORPUS).select("report_id", "case_id", "text").head(6).to_dicts()
    diagnostic_report = ("application/fhir+json", Path("fhir/presented.json").read_bytes())
    code = "/v1/code"
    with adapter.http_client() as client:
        for name, (path, body, headers) in {
            "codes": (code, {"reports": reports}, bearer),
            "codes by case": (f"{code}?by_case=true", {"reports": reports}, bearer),
            "places": (f"{code}?explain=3", {"text": "Invasive ductal carcinoma of the left breast."}, bearer),
            "plain text": (code, ("text/plain", b"Colon: adenocarcinoma."), bearer),
            "HL7": (code, ("application/hl7-v2", Path("hl7/usual.hl7").read_bytes()), bearer),
            "FHIR": (code, diagnostic_report, bearer),
            "FHIR in and out": (code, diagnostic_report, bearer | fhir),
            "no JSON": (code, ("application/json", b"{"), bearer),
            "unknown field": (code, {"reports": [{"text": "a", "Quastenflosser": 1}]}, bearer),
            "no reports": (code, {"reports": []}, bearer),
            "a list": (code, [1], bearer),
            "unknown type": (code, ("application/x-evil", b"a"), bearer),
            "no UTF-8": (code, ("text/plain", b"\xff"), bearer),
            "no HL7": (code, ("application/hl7-v2", b"nothing"), bearer),
            "no report": (code, ("application/fhir+json", b'{"resourceType": "Patient"}'), bearer),
            "too long": (code, {"text": "a" * 5_000}, bearer),
            "too many": (code, {"reports": [{"text": "a"}] * 9}, bearer),
            "too many places": (f"{code}?explain=21", {"text": "a"}, bearer),
            "no token": (code, {"text": "a"}, {}),
            "wrong token": ("/v1/model", None, {"authorization": "Bearer wrong"}),
            "model": ("/v1/model", None, bearer),
            "health": ("/healthz", None, {}),
            "ready": ("/readyz", None, {}),
            "metrics": ("/metrics", None, bearer),
            "description": ("/openapi.json", None, {}),
            "nothing": ("/nothing", None, bearer),
            "wrong method": (code, None, bearer),
        }.items():
            kind, content = body if isinstance(body, tuple) else ("application/json", json.dumps(body).encode())
            request = {} if body is None else {"content": content, "headers": headers | {"content-type": kind}}
            answer = client.request("GET" if body is None else "POST", path, **{"headers": headers} | request)
            value: dict[str, Any] = {"status": answer.status_code, "type": answer.headers.get("content-type")}
            value["headers"] = sorted(set(answer.headers) - {"content-length", "content-type"})
            if answer.status_code == 200 and path.startswith(code):
                value["answer"] = without_numbers(answer.json())
            elif name in ("metrics", "description", "model"):
                names = re.findall(r"^(pathveil_\w+)", answer.text, re.M)
                value["names"] = sorted(set(names) or set(answer.json().get("paths", answer.json())))
            else:
                value["quotes a report"] = quotes(answer.text)
            yield name, value


@exact("acknowledgements")
def acknowledgement_items() -> Items:
    files = ("usual.hl7", "latin1.hl7", "escapes.hl7", "mdm.hl7", "cancellations.hl7", "broken.hl7", "values.hl7")
    messages = [("nothing", b""), ("no HL7", b"not hl7 at all")]
    for name in files:
        parts = re.split(rb"(?=MSH\|)", Path("hl7", name).read_bytes())[1:]
        messages += [(name, part.replace(b"\n", b"\r")) for part in parts]
    messages.append(messages[2])  # sent twice
    answers = adapter.acknowledgements([message for _, message in messages], fresh("store"))
    codes = [re.search(r"MSA\|(\w+)\|([^|\r]*)", answer).groups() for answer in answers]
    rows = zip(messages, codes, answers, strict=True)
    yield "answers", [f"{name} {b}: {a}{', quotes a report' * quotes(answer)}" for (name, _), (a, b), answer in rows]


@cache
def small_model() -> Path:
    """A model that the package trains and audits itself, of a size that takes a few seconds."""
    folder = Path("trained")
    folder.mkdir()
    train, test = folder / "parts/train.parquet", folder / "parts/test.parquet"
    tiny = ("--preset", "small", "--epochs", 1, "--set", "dim=16", "--set", "filters=8")
    for arguments in (
        ("corpus", "split", CORPUS, "--test", 0.4, "--out", folder / "parts"),
        ("train", train, *tiny, "--out", folder / "model"),
        ("keys", "new", "--out", folder / "key.pem", "--kind", "ed25519"),
        ("appetite", "new", "--out", folder / "appetite.toml", "--name", "A. Officer", "--organisation", "North"),
        ("audit", folder / "model", "--members", train, "--non-members", test, "--models", 2,
         "--appetite", folder / "appetite.toml", "--out", folder / "audit"),
    ):  # fmt: skip
        code, _, errors = run(*arguments)
        assert code in (0, 3, 4), errors
    return folder


@exact("release")
def release_items() -> Items:
    folder = small_model()
    out, key = folder / "release", ("--key", folder / "key.pub.pem")
    evidence = ("--audit", folder / "audit", "--appetite", folder / "appetite.toml", "--key", folder / "key.pem")
    yield "refused by the verdict", run("release", folder / "model", *evidence, "--out", out)[0]
    override = ("--override", "a rehearsal only, nothing leaves")
    code = run("release", folder / "model", *evidence, "--out", out, *override)[0]
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*"))
    modes = [f"{name} {stat.S_IMODE((out / name).stat().st_mode):o}" for name in files]
    yield "with an override", {"exit": code, "files": modes}
    yield "verified", run("verify", out, *key)[0]
    yield "codes", run("predict", out, CORPUS, "--out", fresh("codes.csv"))[0]
    exit_codes = {}
    for name in files:
        spoilt = fresh("spoilt")
        shutil.copytree(out, spoilt)
        content = bytearray((spoilt / name).read_bytes())
        content[len(content) // 2] ^= 1
        (spoilt / name).write_bytes(content)
        exit_codes[name] = run("verify", spoilt, *key)[0]
    yield "verified with a changed file", exit_codes
    for path in sorted(folder.glob("*log*")):
        yield path.name, len(path.read_text().splitlines())
        yield f"verified with {path.name}", run("verify", out, *key, "--log", path)[0]
        text = path.read_text()
        path.write_text(text.replace("North", "South", 1) if "North" in text else text.replace("2", "3", 1))
        yield f"verified with a changed {path.name}", run("verify", out, *key, "--log", path)[0]


@exact("modes")
def mode_items() -> Items:
    """Who may read what the commands write, with the usual umask; names of hashes are left out."""
    folder = small_model()
    answers = ("--out", folder / "answers", "--records", folder / "records.csv")
    for arguments in (
        ("corpus", "synth", "--reports", 20, "--out", folder / "synth.parquet", "--truth", folder / "truth.parquet"),
        ("vocab", "select", CORPUS, "--method", "baseline", "--out", folder / "words.json"),
        ("vocab", "count", CORPUS, "--out", folder / "counts.npz"),
        ("corpus", "map", "tables/usual.csv", "--out", folder / "map.toml"),
        ("corpus", "import", "hl7/usual.hl7", *KEY, "--out", folder / "messages.parquet"),
        ("predict", folder / "model", CORPUS, "--out", folder / "codes.csv"),
        ("predict", folder / "model", "hl7/usual.hl7", *KEY, "--out", folder / "codes.xml"),
        ("audit", "--predictions", "audit/predictions.parquet", *answers),
    ):
        run(*arguments)
    names = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*"))]
    names = [name for name in names if not re.search(r"[0-9a-f]{12}|\.pathveil/|^release", name)]
    yield "files", [f"{name} {stat.S_IMODE((folder / name).stat().st_mode):o}" for name in names]
    beside = [path for path in folder.rglob("*") if ".pathveil/" in str(path)]
    kinds = {f"{'folder' if path.is_dir() else 'file'} {stat.S_IMODE(path.stat().st_mode):o}" for path in beside}
    yield "beside a corpus", sorted(kinds)


@exact("public")
def public_items() -> Items:
    yield from adapter.signatures()
    for name, options in adapter.options():
        yield f"--help of {name}", options


# ------------------------------------------------------------------------------------------------------------ tolerant


def loss_of(network: Any, batch: Any, labels: dict[str, Any]) -> Any:
    from torch.nn.functional import cross_entropy

    losses = []
    for task, scores in network(batch).items():
        labelled = (labels[task] >= 0) & (labels[task] < scores.shape[1])
        losses.append(cross_entropy(scores[labelled], labels[task][labelled]))
    return sum(losses)


def dense(array: Any) -> Any:
    return (array.to_dense() if array.is_sparse else array).detach().double()


def sizes(arrays: dict[str, Any]) -> dict[str, list[float]]:
    """Of each array its norm, its sum, and a few of its numbers."""
    flat = {name: dense(array).reshape(-1) for name, array in sorted(arrays.items())}
    some = {name: one[np.linspace(0, len(one) - 1, 5).astype(int)].tolist() for name, one in flat.items()}
    return {name: [float(one.norm()), float(one.sum()), *some[name]] for name, one in flat.items()}


@tolerant("network")
def network_items() -> Items:
    import torch

    network, batch, labels = adapter.network_and_batch()
    with torch.no_grad():
        yield "logits", {task: values[:12].tolist() for task, values in network.eval()(batch).items()}
    loss = loss_of(network.train(), batch, labels)
    loss.backward()
    yield "loss", loss.item()
    yield "gradients", sizes({name: one.grad for name, one in network.named_parameters()})
    yield "gradient by word", dense(adapter.table_of_words(network).grad).norm(dim=1)[:200].tolist()
    for name in ("Adam", "Adadelta"):
        network, batch, labels = adapter.network_and_batch()
        optimiser, losses = adapter.optimiser(name, network), []
        for _ in range(3):
            for one in network.parameters():
                one.grad = None
            loss = loss_of(network, batch, labels)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        yield f"three steps of {name}", {"losses": losses, "after": sizes(dict(network.named_parameters()))}
    for kernel in ("reference", "cpu"):
        network, batch, _ = adapter.network_and_batch()
        features, arrays = adapter.pooled(network, batch, kernel)
        gradients = torch.autograd.grad(features.square().sum(), arrays)
        results = dict(zip(("embedding", "filters", "bias"), gradients, strict=True))
        yield f"kernel {kernel}", {"features": features[:8].tolist(), "gradients": sizes(results)}


@tolerant("training")
def training_items() -> Items:
    import torch

    network, batch, labels = adapter.network_and_batch()
    logits = {task: values.detach().requires_grad_() for task, values in network(batch).items()}
    targets = {task: torch.where(one < logits[task].shape[1], one, -1) for task, one in labels.items()}
    weights = {
        task: torch.from_numpy(adapter.class_weights(one.numpy(), logits[task].shape[1], 0.5)).float()
        for task, one in targets.items()
    }
    for name, how in {
        "plain": {},
        "smoothing": {"smoothing": 0.1},
        "generalised cross-entropy": {"gce_q": 0.7},
        "class weights": {"class_weights": weights},
    }.items():
        loss = adapter.task_loss(logits, targets, **how)
        slopes = torch.autograd.grad(loss, list(logits.values()))
        yield f"loss, {name}", [loss.item(), *(one.double().norm().item() for one in slopes)]
    yield "class weights", {task: one.tolist() for task, one in weights.items()}
    corpus = pl.read_parquet(CORPUS)
    results, cases = adapter.answers(), corpus["case_id"].rank("dense").to_numpy()
    for place, task in enumerate(adapter.TASKS):
        confidence = np.array([one["probabilities"][place] for one in results])
        codes = [one["codes"][place].rstrip("?+~") for one in results]
        right = np.array([code == label for code, label in zip(codes, corpus[task], strict=True)])
        yield f"threshold of {task}", [adapter.threshold(confidence, right, cases, share) for share in (0.9, 0.97)]


@tolerant("answers")
def answer_items() -> Items:
    yield "probabilities", [[*one["reports"], *one["probabilities"]] for one in adapter.answers()]
    results = adapter.answers(by_case=True)
    yield "probabilities by case", [[one["case"], one["tumour"], *one["probabilities"]] for one in results]
    texts = pl.read_parquet(CORPUS)["text"].head(3)
    result = [adapter.reasons(text) for text in texts]
    yield "weights of places", [{task: [one[2] for one in places] for task, places in one.items()} for one in result]
    for name, value in adapter.evaluation().items():
        yield f"evaluation {name}", value
    by_date = pl.read_parquet(CORPUS).sort("date", maintain_order=True)
    by_date.head(150).write_parquet("early.parquet")
    by_date.tail(150).write_parquet("late.parquet")
    _, text, _ = run("drift", "bundle", "late.parquet", "--reference", "early.parquet", "--json")
    yield "drift", adapter.drift_figures(json.loads(text))


@tolerant("audit")
def audit_items() -> Items:
    _, text, _ = run("audit", "--predictions", "audit/predictions.parquet", "--out", fresh("audit"), "--json")
    for name, value in adapter.audit_figures(json.loads(text)).items():
        yield name, value
    with np.load("audit/answers.npz") as content:
        inside = content["inside"]
        margin, log_p = (content[name].astype(np.float64) for name in ("margin_subsite", "log_p_subsite"))
    for name, scores in adapter.attack_scores(log_p, margin, inside).items():
        yield name, adapter.attack_figures(scores, inside[0]) | {"scores": scores[:20].tolist()}


@tolerant("words")
def measure_items() -> Items:
    yield "mutual information", dict(sorted(adapter.mutual_information().items())[::25])
    steps = {"sampling_rate": 0.01, "steps": 1000, "delta": 1e-5}
    yield "epsilon spent", [adapter.epsilon_for_noise(noise, **steps) for noise in (0.6, 1.0, 2.0)]
    yield "noise needed", [adapter.noise_for_epsilon(epsilon, **steps) for epsilon in (1.0, 2.0, 8.0)]


@tolerant("shared and private")
def shared_items() -> Items:
    """Networks of a federation with numbers that a formula gives, on a batch."""
    import torch

    _, batch, _ = adapter.network_and_batch()
    networks = dict(zip(("shared", "private"), adapter.shared_and_private(), strict=True))
    parameters = {f"{part} {name}": one for part, network in networks.items() for name, one in
                  network.named_parameters() if one.requires_grad}  # fmt: skip
    for name, one in parameters.items():
        numbers = (torch.arange(one.numel()) * 7919 + int(digest(name)[:4], 16)) % 1000
        one.data = ((numbers / 999 - 0.5) * 0.4).reshape(one.shape)
    features = {part: network.features(batch) for part, network in networks.items()}
    pair = (features["shared"], features["private"])
    logits = networks["private"].logits(*pair)
    (adapter.orthogonality(*pair) + logits["site"].square().mean()).backward()
    yield "features", {part: one[:6].tolist() for part, one in features.items()}
    yield "logits", logits["site"][:6].tolist()
    yield "orthogonality", {scale: adapter.orthogonality(*pair, scale).item() for scale in ("raw", "sum", "mean")}
    yield "gradients", sizes({name: one.grad for name, one in parameters.items() if one.grad is not None})
