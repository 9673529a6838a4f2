"""Every reader of files and messages that another party may have made, with an honest seed for each.

A reader is given a folder in which one file was changed. It ends well or raises a ``PathveilError``; anything else is a
defect.
"""

import gzip
import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fuzz import federation_readers, release_readers
from fuzz.reader import TEXT, WORD, Reader, one, text_file
from pathveil.errors import CorpusError
from workbooks import opendocument, workbook


def table(rows: int = 12) -> dict[str, list]:
    return {
        "report_id": [f"r{number}" for number in range(rows)],
        "case_id": [f"c{number // 2}" for number in range(rows)],
        "registry": ["R1", "R2"] * (rows // 2),
        "date": [f"2016-05-{number + 1:02}" for number in range(rows)],
        "text": [f"{TEXT} {number}" for number in range(rows)],
        "site": ["C50", "C18", None] * (rows // 3),
        "histology": ["8500", "8140"] * (rows // 2),
    }


def write_parquet(path: Path) -> None:
    import polars as pl

    pl.DataFrame(table()).write_parquet(path)


def write_csv(path: Path) -> None:
    columns = table()
    lines = [",".join(columns)]
    lines += [",".join('"' + str(value or "") + '"' for value in row) for row in zip(*columns.values(), strict=True)]
    path.write_text("\r\n".join(lines) + "\r\n")


def rows() -> list[dict]:
    columns = table()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def read_corpus(path: Path) -> None:
    from pathveil.corpus import scan, validate

    validate(scan(path)).collect()


def import_file(path: Path, **columns: str) -> None:
    from pathveil.corpus.intake import import_corpus

    out = path.with_name("out.parquet")
    out.unlink(missing_ok=True)
    import_corpus(path, out=out, columns=columns)


def counts_folder(folder: Path) -> None:
    from pathveil.vocabulary.counting import count
    from pathveil.vocabulary.encoding import read_labels
    from pathveil.vocabulary.tokens import tokens

    write_parquet(folder / "a.parquet")
    made = count(tokens(folder / "a.parquet"), *read_labels(folder / "a.parquet"))
    made.take(["R1"]).save(folder / "north.npz")
    made.take(["R2"]).save(folder / "south.npz")


def choose_words(folder: Path) -> None:
    from pathveil.vocabulary.counts import WordCounts, merge
    from pathveil.vocabulary.mutual_information import mutual_information

    both = merge([WordCounts.load(folder / "north.npz"), WordCounts.load(folder / "south.npz")])
    mutual_information(both)


def encoded_folder(folder: Path) -> None:
    from pathveil.studies.study_corpus import encode_corpus

    write_parquet(folder / "a.parquet")
    encode_corpus(folder / "a.parquet", folder / "encoded")


def study_encoded(folder: Path) -> None:
    from pathveil.studies.study_corpus import load_encoded
    from pathveil.vocabulary.counting import count

    store, encoded = load_encoded(folder / "encoded")
    count(store, encoded.labels, encoded.classes)
    encoded.take(np.arange(encoded.documents)[::-1])


def token_folder(folder: Path) -> None:
    from pathveil.vocabulary.tokens import tokens

    write_parquet(folder / "a.parquet")
    tokens(folder / "a.parquet")
    (made,) = (folder / "a.parquet.pathveil").glob("tokens-*")
    for name in ("ids.npy", "offsets.npy", "tokens.json", "words.txt"):
        (folder / name).write_bytes((made / name).read_bytes())


def cached(name: str) -> Callable[[Path], None]:
    """A damaged file of a cache is noticed, and made again as it was."""

    def read(folder: Path) -> None:
        from pathveil.vocabulary.tokens import tokens

        before = tokens(folder / "a.parquet")
        words, ids = before.words, np.array(before.ids)
        del before
        (made,) = (folder / "a.parquet.pathveil").glob("tokens-*")
        (made / name).write_bytes((folder / name).read_bytes())
        again = tokens(folder / "a.parquet")
        assert again.words == words and np.array_equal(again.ids, ids)

    return read


def vocabulary_file(path: Path) -> None:
    from pathveil.vocabulary.words import Vocabulary

    Vocabulary(("breast", "left", WORD), "by hand").save(path)


def load_vocabulary(folder: Path) -> None:
    from pathveil.vocabulary.words import Vocabulary

    vocabulary = Vocabulary.load(folder / "vocabulary.json")
    assert repr(vocabulary) and vocabulary.id_space and vocabulary.ids is not None


def bundle_folder(folder: Path) -> None:
    from pathveil.bundle.folder import shapes
    from pathveil.bundle.model import Model
    from pathveil.text.tokenizer import settings
    from pathveil.training.scores import Interval, Scores, Threshold
    from pathveil.vocabulary.words import Vocabulary

    words = Vocabulary(("breast", "carcinoma", "left", WORD), "by hand")
    labels = {"site": ("C18", "C50"), "histology": ("8140", "8500", "8520")}
    shape = {"vocabulary_size": words.size, "dim": 4, "windows": [2, 3], "filters": 4, "dropout": 0.5, "members": 1}
    shape |= {"linear": True}
    random = np.random.default_rng(1)
    arrays = {name: random.normal(size=size).astype(np.float32) for name, size in shapes(shape, labels).items()}
    interval = Interval(0.8, 0.7, 0.9)
    score = Scores(documents=9, micro=interval, macro=interval, accuracy=interval)
    sure = Threshold(probability=0.5, wanted=0.97, accuracy=1.0, low=0.9, abstained=0.1, documents=9)
    Model(
        architecture=shape,
        labels=labels,
        text=settings(words=50),
        vocabulary=words,
        tensors=arrays,
        blend={task: (0.5, 0.5) for task in labels},
        thresholds=dict.fromkeys(labels, sure),
        scores=dict.fromkeys(labels, score),
        provenance={"reports": 9, "cases": 9},
        history=(({"epoch": 1, "loss": 0.5},),),
    ).save(folder / "bundle")


def load_bundle(name: str) -> Callable[[Path], None]:
    """A changed file of a bundle, with a manifest that agrees with it: an attacker hashes too."""

    def read(folder: Path) -> None:
        from pathveil.bundle.coder import Coder
        from pathveil.bundle.model import Model

        manifest = json.loads((folder / "bundle" / "MANIFEST.json").read_bytes()) if name != "MANIFEST.json" else None
        if manifest is not None:
            data = (folder / "bundle" / name).read_bytes()
            manifest["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            (folder / "bundle" / "MANIFEST.json").write_text(json.dumps(manifest))
        model = Model.load(folder / "bundle")
        for codes in Coder(model).code([TEXT, "nothing known"]):
            for code in codes.values():
                assert code.abstained or 0 <= code.probability <= 1, "sure of a probability that is none"

    return read


def shared_folder(folder: Path) -> None:
    from pathveil.federation.release import Release
    from pathveil.vocabulary.words import Vocabulary

    shape = {"dim": 3, "windows": (2,), "filters": 5}
    arrays = {
        "encoder.embedding.weight": np.zeros((5, 3), np.float32),
        "encoder.convolution.weight": np.zeros((2, 5, 3), np.float32),
        "encoder.convolution.bias": np.zeros((1, 5), np.float32),
        "heads.site.weight": np.zeros((1, 5), np.float32),
        "heads.site.bias": np.zeros(1, np.float32),
    }
    words = Vocabulary(("left", "lung", WORD), "by hand")
    Release(arrays, shape, {"site": ("C18",)}, "words 1500", words).save(folder / "shared")


def load_shared(name: str) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        from pathveil.federation.release import Release

        if name != "shared.json":
            content = json.loads((folder / "shared" / "shared.json").read_bytes())
            content["files"][name] = hashlib.sha256((folder / "shared" / name).read_bytes()).hexdigest()
            (folder / "shared" / "shared.json").write_text(json.dumps(content))
        release = Release.load(folder / "shared")
        release.shared({"site": 2})

    return read


HL7 = f"""MSH|^~\\&||LAB^33D^CLIA|||200407281339||ORU^R01^ORU_R01|1|P|2.5.1
PID|1||00466144^^^^MR||{WORD}^Candy||19570706
OBR|1||S-97-1|11529-5^Surgical pathology^LN|||199707251630
OBX|1|TX|22634-0^gross^LN||One core, 3 \\T\\ 4 mm.
OBX|2|FT|22637-3^final diagnosis^LN||Candy {WORD}:\\.br\\ductal carcinoma\\X0D\\
goes on here
"""
DOCUMENT = (
    r"{\E\rtf1\E\ansi\E\ansicpg1252{\E\fonttbl{\E\f0\E\fcharset238 Arial;}}"
    r"\E\f0\E\'e4\E\u8804?3 mm\E\par\E\uc2\E\u223??}"
)
RTF = HL7.replace("One core, 3 \\T\\ 4 mm.", DOCUMENT)
XML = f"""<?xml version="1.0"?><NaaccrData xmlns="http://naaccr.org/naaccrxml"><Patient>
<Item naaccrId="patientIdNumber">00000007</Item><Item naaccrId="nameLast">{WORD}</Item><Tumor>
<Item naaccrId="primarySite">C504</Item><Item naaccrId="histologicTypeIcdO3">8500</Item>
<Item naaccrId="dateOfDiagnosis">20160502</Item><Item naaccrId="pathReportNumber1">S-1</Item>
</Tumor></Patient></NaaccrData>"""
MAPPING = f'dates = "dd/mm/yyyy"\n\n[columns]\nreport_id = "Id"\ntext = "{WORD}"\n'
FHIR = {
    "resourceType": "Bundle",
    "entry": [
        {
            "fullUrl": "urn:1",
            "resource": {
                "resourceType": "DiagnosticReport",
                "id": "a",
                "conclusion": TEXT,
                "subject": {"reference": "Patient/1"},
                "presentedForm": [{"contentType": "text/plain", "data": "bGVmdA=="}],
                "result": [{"reference": "urn:2"}],
            },
        },
        {"fullUrl": "urn:2", "resource": {"resourceType": "Observation", "valueString": TEXT}},
    ],
}


RESOURCE = {
    "resourceType": "DiagnosticReport",
    "conclusion": f"Ductal carcinoma of Ms. {WORD}.",
    "code": {"coding": [{"code": "11526-1"}]},
    "effectiveDateTime": "1997-07-25T16:30:00Z",
    "identifier": [{"value": "S-97-1"}],
    "subject": {"reference": "#p"},
    "performer": [{"display": "LAB"}],
    "presentedForm": [{"contentType": "text/html", "data": "PGI+bGVmdDwvYj4="}],
    "contained": [
        {
            "resourceType": "Patient",
            "id": "p",
            "identifier": [{"value": "00466144"}],
            "name": [{"family": WORD, "given": ["Candy"]}],
        }
    ],
}


def resources(folder: Path) -> None:
    from pathveil.corpus.messages.fhir import read_resources

    with (folder / "a.json").open("rb") as file:
        for found in read_resources(file, key=b"secret", registry=None):
            assert isinstance(found, list) or WORD not in str(found).lower()
            if not isinstance(found, list):
                raise CorpusError("skipped")


def sqlite_file(path: Path) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table reports (report_id text, text text)")
        database.executemany("insert into reports values (?, ?)", [(str(n), f"{TEXT} {n}") for n in range(20)])


def excel_file(path: Path) -> None:
    """A small workbook as Excel writes one, packed without compression so that lies about bytes reach its XML."""
    texts = [TEXT, "report_id", "text", "number", "day", f"  {WORD} &"]
    how = ['r="A{0}" t="s"><v>{1}</v>', 'r="B{0}" t="inlineStr"><is><t>{2}</t></is>', 'r="C{0}"><v>{0}.5</v>']
    how += ['r="D{0}" s="1"><f>A1</f><v>4249{0}</v>', 'r="E{0}" t="str"><v>{0} {2}</v>', 'r="F{0}" t="b"><v>1</v>']
    rows = [f'<row r="{n}">{"".join(f"<c {one.format(n, n % 6, TEXT)}</c>" for one in how)}</row>' for n in range(1, 6)]
    workbook(path, {"S": "".join(rows), "T": [["a"]]}, strings=texts, formats=[0, 14], packing=zipfile.ZIP_STORED)


def ods_file(path: Path) -> None:
    opendocument(path, [["report_id", "text"], ["1", TEXT], ["2", TEXT]])


def opened(form: str, name: str) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        from pathveil.corpus.tables.files import open_table, polars_faults

        try:
            open_table(folder / name, form=form).collect()
        except polars_faults():  # told as a sentence by whoever collects
            pass

    return read


def predictions_file(path: Path) -> None:
    lines = ["record_id,case_id,member,label,p:C18,p:C50"]
    lines += [f"{WORD}{n},c{n},{n % 2 == 0},C18,0.{n % 9 + 1},0.{9 - n % 9}" for n in range(30)]
    path.write_text("\n".join(lines) + "\n")


def audit_predictions(folder: Path) -> None:
    from pathveil.auditing.prediction_audit import read_predictions

    read_predictions(folder / "p.csv")


def study_file(path: Path) -> None:
    from importlib.resources import files

    path.write_bytes((files("pathveil.studies") / "demo.toml").read_bytes())


def read_study(folder: Path) -> None:
    from pathveil.studies.study_file import read

    read(folder / "study.toml")


def appetite_file(path: Path) -> None:
    from pathveil.auditing.appetite import default_appetite_text

    path.write_text(default_appetite_text())


def read_appetite(folder: Path) -> None:
    from pathveil.auditing.appetite import read_appetite as read

    read(folder / "appetite.toml")


def read_mapping(folder: Path) -> None:
    from pathveil.corpus.mapping import read_mapping as read

    read(folder / "map.toml")


def agreement_file(path: Path) -> None:
    from agreement.parties import terms

    terms().save(path)


def load_agreement(folder: Path) -> None:
    from pathveil.agreement.agreement import Agreement

    Agreement.load(folder / "agreement.json")


def digests_file(path: Path) -> None:
    path.write_text(json.dumps({site: "ab" * 32 for site in ("R1", "R2", "R3")}))


def load_digests(folder: Path) -> None:
    from agreement.parties import terms
    from pathveil.agreement.agreement import load_digests as load

    load(folder / "tokens.json", terms())


def message_file(path: Path) -> None:
    from pathveil.federation.protocol.message import KINDS, Message, write

    values = {"run": "ab", "session": "cd", "round": 3, "documents": 20, "updates": 1}
    facts = {name: values[name] for name in ("run", "session", *KINDS["round"][0])}
    path.write_bytes(write(Message(facts, {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)})))


def hear(folder: Path) -> None:
    from pathveil.federation import wire
    from pathveil.federation.protocol.message import heard, read

    message = read((folder / "message").read_bytes(), sender="north")
    heard(message, "round", sender="north")
    wire.check(message.arrays, {"w": (3, 2), "b": (2,)}, sender="north")


def plan_file(path: Path) -> None:
    from pathveil.federation.protocol.plan import Plan

    classes = {"site": ("C18", "C50")}
    plan = Plan(mode="adversarial", sites=("a", "b"), classes=classes, vocabulary="ab" * 32, vocabulary_size=9, seed=1)
    path.write_text(plan.model_dump_json())


def read_plan(folder: Path) -> None:
    from pathveil.federation.protocol.plan import read_plan as read

    assert read(folder / "plan.json").run


def read_classes(folder: Path) -> None:
    from pathveil.federation.protocol.classes import read_classes as read

    read([folder / "classes.json"])


def read_lexicon(folder: Path) -> None:
    from pathveil.vocabulary.lexicon import read_lexicon as read

    read(folder / "words.txt")


def truth_file(path: Path) -> None:
    import polars as pl

    pl.DataFrame({"report_id": ["a"], "kind": ["name"], "start": [0], "end": [5]}).write_parquet(path)


def read_truth(folder: Path) -> None:
    from pathveil.vocabulary.planted import read_truth as read

    read(folder / "truth.parquet")


def checkpoint_file(path: Path) -> None:
    import torch

    from pathveil.training.checkpoint import save

    save(path, {"w": torch.ones(3, 2)}, fingerprint="ab", content={"epoch": 3})


def load_checkpoint(folder: Path) -> None:
    from pathveil.training.checkpoint import load

    load(folder / "run.safetensors", fingerprint="ab")


def body(kind: str) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        from pathveil.serve.bodies import read_body
        from pathveil.serve.settings import ServeSettings

        read_body(kind, (folder / "body").read_bytes(), ServeSettings(), key=b"secret")

    return read


def talk(folder: Path) -> None:
    """Frames of HL7 over MLLP, as a connection of the service takes them; each is stored or refused, and answered."""
    import asyncio

    from pathveil.serve.mllp_feed import MLLPFeed

    service, sent = Mailbox(), Written()

    async def converse() -> None:
        reader = asyncio.StreamReader(limit=1 << 20)
        reader.feed_data((folder / "frames").read_bytes())
        reader.feed_eof()
        try:
            feed = MLLPFeed("127.0.0.1", 0, slow=5, idle=5, largest=1 << 20)
            feed.coming[sent] = bytearray()
            await feed.talk(service, reader, sent)
        except (ConnectionError, TimeoutError):
            pass  # as the feed itself: the connection ends

    asyncio.run(converse())
    # The sender's own header is repeated to it, and no more than that.
    assert max(map(len, sent.data.split(b"\x1c\r")), default=0) <= 5_000
    if not service.stored:
        raise CorpusError("nothing was stored")


class Mailbox:
    """A service that only counts what it is given."""

    key = b"secret"

    def __init__(self) -> None:
        from types import SimpleNamespace

        self.stored = 0
        self.desk = SimpleNamespace(receive=self.receive)
        counter = SimpleNamespace(inc=lambda: None)
        self.metrics = SimpleNamespace(messages=SimpleNamespace(labels=lambda *names: counter))

    async def receive(self, reports: list, *, source: str) -> None:
        self.stored += 1


class Written:
    """The writing end of a connection."""

    data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        pass


def csv_bytes() -> bytes:
    file = io.StringIO()
    columns = table()
    file.write(";".join(columns) + "\n")
    for row in zip(*columns.values(), strict=True):
        file.write(";".join(str(value or "") for value in row) + "\n")
    return file.getvalue().encode()


ROWS = "report_id;case_id;registry;line;section;text;site\n" + "".join(
    f"r{n // 4};c{n // 8};R1;{n % 4};{'gross' if n % 2 else 'diagnosis'};{TEXT} {n};C50\n" for n in range(24)
)
jsonl = "\n".join(json.dumps(row) for row in rows()).encode()
READERS: dict[str, Reader] = {
    "counts": Reader("north.npz", "npz", counts_folder, choose_words),
    "encoded ids": Reader("encoded/ids.npy", "npy", encoded_folder, study_encoded),
    "encoded offsets": Reader("encoded/offsets.npy", "npy", encoded_folder, study_encoded),
    "encoded labels": Reader("encoded/label-0.npy", "npy", encoded_folder, study_encoded),
    "encoded cases": Reader("encoded/cases.npy", "npy", encoded_folder, study_encoded),
    "encoded registries": Reader("encoded/registries.npy", "npy", encoded_folder, study_encoded),
    "encoded description": Reader("encoded/encoded.json", "json", encoded_folder, study_encoded),
    "encoded words": Reader("encoded/words.txt", "bytes", encoded_folder, study_encoded),
    "cache ids": Reader("ids.npy", "npy", token_folder, cached("ids.npy"), weight=0.3),
    "cache offsets": Reader("offsets.npy", "npy", token_folder, cached("offsets.npy"), weight=0.3),
    "cache description": Reader("tokens.json", "json", token_folder, cached("tokens.json"), weight=0.3),
    "cache words": Reader("words.txt", "bytes", token_folder, cached("words.txt"), weight=0.3),
    "vocabulary": Reader("vocabulary.json", "json", one("vocabulary.json", vocabulary_file), load_vocabulary),
    "bundle weights": Reader("bundle/model.safetensors", "tensors", bundle_folder, load_bundle("model.safetensors")),
    "bundle content": Reader("bundle/bundle.json", "json", bundle_folder, load_bundle("bundle.json")),
    "bundle words": Reader("bundle/vocabulary.json", "json", bundle_folder, load_bundle("vocabulary.json")),
    "bundle history": Reader("bundle/history.json", "json", bundle_folder, load_bundle("history.json")),
    "bundle manifest": Reader("bundle/MANIFEST.json", "json", bundle_folder, load_bundle("MANIFEST.json")),
    "shared weights": Reader("shared/shared.safetensors", "tensors", shared_folder, load_shared("shared.safetensors")),
    "shared content": Reader("shared/shared.json", "json", shared_folder, load_shared("shared.json")),
    "agreement": Reader("agreement.json", "json", one("agreement.json", agreement_file), load_agreement),
    "token digests": Reader("tokens.json", "json", one("tokens.json", digests_file), load_digests),
    "study file": Reader("study.toml", "bytes", one("study.toml", study_file), read_study),
    "appetite": Reader("appetite.toml", "bytes", one("appetite.toml", appetite_file), read_appetite),
    "mapping": Reader("map.toml", "bytes", one("map.toml", text_file(MAPPING)), read_mapping),
    "message": Reader("message", "tensors", one("message", message_file), hear),
    "plan": Reader("plan.json", "json", one("plan.json", plan_file), read_plan),
    "classes": Reader(
        "c.json", "json", one("c.json", text_file('{"site": ["C18"]}')), lambda f: read_classes(renamed(f))
    ),
    "lexicon": Reader("words.txt", "bytes", one("words.txt", text_file(f"left breast\n{WORD}\n" * 9)), read_lexicon),
    "truth": Reader("truth.parquet", "parquet", one("truth.parquet", truth_file), read_truth),
    "checkpoint": Reader("run.safetensors", "tensors", one("run.safetensors", checkpoint_file), load_checkpoint),
    "predictions": Reader("p.csv", "bytes", one("p.csv", predictions_file), audit_predictions),
    "corpus parquet": Reader(
        "a.parquet", "parquet", one("a.parquet", write_parquet), lambda f: read_corpus(f / "a.parquet")
    ),
    "corpus csv": Reader("a.csv", "bytes", one("a.csv", write_csv), lambda f: read_corpus(f / "a.csv")),
    "corpus jsonl": Reader("a.jsonl", "jsonl", one("a.jsonl", text_file(jsonl)), lambda f: read_corpus(f / "a.jsonl")),
    "import csv": Reader("a.csv", "bytes", one("a.csv", text_file(csv_bytes())), lambda f: import_file(f / "a.csv")),
    "import rows": Reader(
        "a.csv",
        "bytes",
        one("a.csv", text_file(ROWS)),
        lambda f: import_file(f / "a.csv", line="line", section="section"),
    ),
    "import gzip": Reader(
        "a.csv.gz",
        "gzip",
        one("a.csv.gz", text_file(gzip.compress(csv_bytes()))),
        lambda f: import_file(f / "a.csv.gz"),
    ),
    "import hl7": Reader("a.hl7", "bytes", one("a.hl7", text_file(HL7 * 3)), lambda f: import_file(f / "a.hl7")),
    "import rtf": Reader("a.hl7", "bytes", one("a.hl7", text_file(RTF * 3)), lambda f: import_file(f / "a.hl7")),
    "json table": Reader("a.json", "json", one("a.json", text_file(json.dumps(rows()))), opened("json", "a.json")),
    "sqlite": Reader("a.db", "bytes", one("a.db", sqlite_file), opened("sqlite", "a.db")),
    "excel": Reader("a.xlsx", "archive", one("a.xlsx", excel_file), opened("excel", "a.xlsx")),
    "opendocument": Reader("a.ods", "archive", one("a.ods", ods_file), opened("excel", "a.ods"), weight=0.003),
    "abstracts": Reader("a.xml", "bytes", one("a.xml", text_file(XML)), opened("naaccr", "a.xml")),
    "import fhir": Reader("a.json", "json", one("a.json", text_file(json.dumps(RESOURCE))), resources),
    "served json": Reader(
        "body",
        "json",
        one("body", text_file(json.dumps({"reports": [{"report_id": "a", "text": TEXT}, {"text": TEXT}]}))),
        body("application/json"),
    ),
    "served hl7": Reader("body", "bytes", one("body", text_file(HL7)), body("application/hl7-v2")),
    "mllp": Reader(
        "frames",
        "bytes",
        one("frames", text_file(b"".join(b"\x0b" + HL7.encode() + b"\x1c\r" for _ in range(2)))),
        talk,
    ),
    "served fhir": Reader("body", "json", one("body", text_file(json.dumps(FHIR))), body("application/fhir+json")),
    **release_readers.READERS,
    **federation_readers.READERS,
}


def renamed(folder: Path) -> Path:
    shutil.copyfile(folder / "c.json", folder / "classes.json")
    return folder
