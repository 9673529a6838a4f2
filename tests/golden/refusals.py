"""The table of refusals: what is refused, what the refusal must name, and what no message may show.

``refusals/<package>.toml`` has groups of rows. A row is a group's fields with its own over them:

- what is called: ``run`` (a command line, ``more`` behind it), ``call`` (a public function, with ``args`` and
  ``options``), or ``get`` or ``post`` (a path of the service, with ``headers``, ``type``, ``content``);
- its input: golden inputs by their names, those of ``MAKE``, and ``files`` of its own (``content`` of one ``file``);
- what must come: ``exit`` (2), ``error`` (a class) or ``status``; ``names``, words and numbers that the message has;
  ``absent``, further words that it has not. Sentences are not compared.
"""

import contextlib
import csv
import functools
import gc
import gzip
import hashlib
import io
import itertools
import json
import logging
import os
import re
import shlex
import shutil
import sqlite3
import struct
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import adapter
import numpy as np
import polars as pl
import pytest
import safetensors.numpy
from items import INPUTS, SECRETS
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import pathveil
from workbooks import workbook

TABLE = Path(__file__).parent / "refusals"
CACHE = ".pathveil"  # ends the name of the folder beside a corpus
PLANTED = "zwertowskaja"  # in every text and patient of a row's own files
FIELDS = {"run", "more", "call", "args", "options", "get", "post", "headers", "type", "person", "secret_of", "form"}
FIELDS |= {"party", "site", "start", "before", "environment", "title", "rows", "file", "content", "files", "folders"}
FIELDS |= {"exit", "error", "status", "names", "absent", "leaves"}
VALUES: dict[str, Callable[[], Any]] = {  # what TOML cannot write
    "none": lambda: None,
    "nan": lambda: float("nan"),
    "object": object,
    "function": lambda: len,
    "local function": lambda: lambda corpus, settings, seed: corpus,
    "one score": lambda: lambda given: [1.0],
    "scores of words": lambda: lambda given: ["high"] * 200,
    "no words": lambda: lambda measures: np.zeros(3, bool),
    "estimator": lambda: GaussianNB(),
    "class of estimators": lambda: GaussianNB,
    "estimator without probabilities": lambda: LinearSVC(),
    "fitted estimator": lambda: GaussianNB().fit(RECORDS, LABELS),
    "records": lambda: RECORDS,
    "labels": lambda: LABELS,
    "numbers as labels": lambda: np.arange(200) % 2,
    "half of the records": lambda: np.arange(200) < 100,
    "five of the records": lambda: np.arange(200) < 5,
    "every other record": lambda: np.arange(200) % 2 == 0,
    "two records a case": lambda: np.arange(200) // 2,
    "ones": lambda: np.ones(200),
}
RECORDS, LABELS = np.random.default_rng(0).normal(size=(200, 2)), np.array(["a", "b"])[np.arange(200) % 2]

# Inputs that commands make when a row, or the command of another input, first names one.
TINY = "--epochs 1 --set dim=8 --set filters=4"
MAKE: dict[str, str] = {
    "words.json": "vocab select reports.parquet --choose 'cases >= 5' --out words.json",
    "counts.npz": "vocab count reports.parquet --out counts.npz",
    "messages.parquet": "corpus import hl7/for_labels.hl7 --key-file hl7.key --out messages.parquet",
    "halves": "corpus split reports.parquet --test 0.4 --out halves",
    "trained": f"train halves/train.parquet --preset small {TINY} --out trained",
    "codes.csv": "predict bundle reports.parquet --out codes.csv",
    "encoded": "study encode reports.parquet --out encoded",
    "kits": "federate provision --site north --site south --hub hub.example.org:8443 --admin lead@example.org "
    "--out kits",
    "north-own": "federate request north --out north-own",
    "south-own": "federate request south --out south-own",
    "signed": "federate sign north-own/request.csr south-own/request.csr --hub hub.example.org:8443 --out signed",
    "labels.json": "federate classes reports.parquet --out labels.json",
    "shared-run": f"federate run reports.parquet --group A=R1 --group B=R2 --tasks site {TINY} --out shared-run",
    "offer-hub": "vocab agree offer --name hub --address https://hub.example --out offer-hub",
    "offer-a": "vocab agree offer --name offer-a --address https://a.example --out offer-a",
    "offer-b": "vocab agree offer --name offer-b --address https://b.example --out offer-b",
    "agreement.json": "vocab agree propose --site R1 --site R2 --site R3 --hub offer-hub/hub.offer.json "
    "--holder offer-a/offer-a.offer.json --holder offer-b/offer-b.offer.json --out agreement.json",
    "tokens-a": "vocab agree tokens agreement.json --server offer-a --out tokens-a",
    "officer.pem": "keys new --out officer.pem --kind ed25519",
    "stranger.pem": "keys new --out stranger.pem",
    "appetite.toml": "appetite new --out appetite.toml --name 'A. Officer' --organisation North --date 2025-01-02",
    "released": "release trained --audit passed --appetite appetite.toml --key officer.pem --out released",
}


class Row(dict):
    """One refusal, with the fields of its group."""

    def __str__(self) -> str:
        return self["id"]


def read_rows() -> Iterator[Row]:
    for path in sorted(TABLE.glob("*.toml")):
        for group in tomllib.loads(path.read_text(encoding="utf-8"))["group"]:
            for number, own in enumerate(group.get("rows", [{}]), start=1):
                row = Row({**group, **own})
                unknown = sorted(set(row) - FIELDS)
                assert not unknown, f"{path.name}: {group['title']}: {unknown}"
                row["names"] = [*group.get("names", []), *own.get("names", [])]
                row["absent"] = [*group.get("absent", []), *own.get("absent", [])]
                row["files"] = {**group.get("files", {}), **own.get("files", {})}
                if "file" in row:
                    row["files"][row["file"]] = row["content"]
                label = own.get("title") or own.get("more") or own.get("run") or str(number)
                row["id"] = f"{path.stem}: {group['title']}: {label}" if "rows" in group else f"{path.stem}: {label}"
                if "rows" not in group:
                    row["id"] = f"{path.stem}: {group['title']}"
                yield row


# ------------------------------------------------------------------------------------------------------ a row's files


def text_of(lines: list[Any]) -> str:
    """Lines of a text; [line, times] is a line so many times, # its number."""
    rows = ([one] if isinstance(one, str) else (one[0].replace("#", str(n)) for n in range(one[1])) for one in lines)
    return "\n".join(itertools.chain.from_iterable(rows)) + "\n"


def frame_of(value: Mapping[str, Any]) -> pl.DataFrame:
    if "sql" in value:
        return pl.read_parquet(value["of"]).sql(value["sql"])
    header, *rows = [[None if cell == "∅" else cell for cell in row] for row in value["table"]]
    rows = [[f"{c}".replace("#", str(n)) if isinstance(c, str) else c for c in row]
            for row in rows for n in range(value.get("times", 1))]  # fmt: skip
    return pl.DataFrame(rows, schema=header, orient="row", infer_schema_length=None, strict=False)


def set_field(content: Any, path: list[str], value: Any) -> None:
    *parents, last = (int(part) if part.isdigit() else part for part in path)
    inner = functools.reduce(lambda one, part: one[part], parents, content)
    inner[last] = value


def change_arrays(path: Path, target: Path, change: Mapping[str, Any]) -> None:
    """A file of arrays with one number, or all of an array, replaced."""
    if path.suffix == ".safetensors":
        arrays = {name: np.array(array) for name, array in safetensors.numpy.load_file(path).items()}
    else:
        with np.load(path) as stored:
            arrays = {name: stored[name].copy() for name in stored.files}
    name = change["array"]
    if "number" in change:
        arrays[name].flat[change["place"]] = change["number"]
    elif "text" in change:
        arrays[name] = np.frombuffer(change["text"].encode(), np.uint8)
    elif "type" in change:
        arrays[name] = arrays[name].astype(change["type"])
    elif "rows" in change:
        arrays[name] = arrays[name][: change["rows"]]
    elif change.get("new"):
        arrays[name] = np.zeros(1, np.float32)
    else:
        del arrays[name]
    if path.suffix == ".safetensors":
        safetensors.numpy.save_file(arrays, target)
    else:
        with target.open("wb") as file:
            np.savez(file, **arrays)


def list_again(manifest: Path, names: list[str]) -> None:
    """Make a folder's manifest agree with changed files, as a forger does."""
    content = json.loads(manifest.read_text())
    for name in names:
        data = (manifest.parent / name).read_bytes()
        content["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    manifest.write_text(json.dumps(content))


def bytes_of(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if "json" in value:
        content: bytes = json.dumps(value["json"]).encode()
    elif "points" in value:
        content = b"".join(adapter.points()[value.get("after", 0) :][: value["points"]])
    elif "header" in value:
        header = bytes_of(value["header"])
        content = struct.pack("<Q", len(header)) + header + bytes.fromhex(value.get("data", ""))
    elif "hex" in value:
        content = bytes.fromhex(value["hex"])
    elif "copy" in value:
        content = Path(value["copy"]).read_bytes()
        if "fields" in value:
            tree = json.loads(content)
            for path in value["fields"]:
                set_field(tree, path, value["number"])
            content = json.dumps(tree).encode()
        if "set" in value:
            tree = json.loads(content)
            for path, new in value["set"].items():
                set_field(tree, path.split("."), new)
            content = json.dumps(tree).encode()
        for old, new in value.get("replace", []):
            assert old.encode() in content, f"{value['copy']} has no {old}"
            content = content.replace(old.encode(), new.encode())
    else:
        text = text_of(value["lines"]) if "lines" in value else value["text"] * value.get("times", 1)
        content = text.replace("\n", value.get("newline", "\n")).encode(value.get("encoding", "utf-8"))
    content += bytes_of(value["then"]) if "then" in value else b""
    content = gzip.compress(content, mtime=0) if value.get("gzip") else content
    return content[: int(len(content) * value["cut"])] if "cut" in value else content


def write_file(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, dict) and "workbook" in value:
        workbook(path, value["workbook"], strings=value.get("strings"), **value.get("parts", {}))
    elif isinstance(value, dict) and "arrays" in value:
        change_arrays(Path(value["copy"]), path, value["arrays"])
    elif isinstance(value, dict) and "array" in value:
        change, array = value["array"], np.load(value["copy"])
        if "number" in change:
            array.flat[change["place"]] = change["number"]
        np.save(path, array[: change.get("rows")].astype(change.get("type", array.dtype)))
    elif isinstance(value, dict) and "statements" in value:
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.executescript(value["statements"]).close()
    elif isinstance(value, dict) and value.get("folder"):
        shutil.copytree(value["copy"], path) if "copy" in value else path.mkdir()
        for name, change in value.get("change", {}).items():
            (path / name).unlink() if change is False else write_file(path / name, change)
        if "listed" in value:
            list_again(path / adapter.MANIFEST, value["listed"])
    elif isinstance(value, dict) and ("table" in value or "sql" in value):
        frame = frame_of(value)
        if path.suffix == ".parquet":
            frame.write_parquet(path)
        elif path.suffix == ".xlsx":
            workbook(path, {"S": [frame.columns, *map(list, frame.rows())]})
        elif path.suffix == ".jsonl":
            path.write_text("".join(json.dumps(row, default=str) + "\n" for row in frame.to_dicts()))
        else:
            text = io.StringIO(newline="")
            csv.writer(text, lineterminator="\n").writerows([frame.columns, *frame.rows()])
            path.write_text(text.getvalue())
    else:
        path.write_bytes(bytes_of(value))
        if isinstance(value, dict) and "mode" in value:
            path.chmod(int(value["mode"], 8))


# ---------------------------------------------------------------------------------------------------- what is called


def value_of(value: Any) -> Any:
    """An argument in Python of a value in TOML."""
    if isinstance(value, list):
        return [value_of(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "value" in value:
        return VALUES[value["value"]]()
    if "table" in value or "sql" in value:
        return frame_of(value)
    if "model" in value:
        return pathveil.load(value["model"])
    if "corpus" in value:
        return pathveil.read(value["corpus"])
    return {name: value_of(one) for name, one in value.items()}


def call_api(row: Row) -> tuple[list[str], str]:
    """The error that a public function raises: its classes and its message."""
    first, _, method = row["call"].partition(".")
    args = [value_of(one) for one in row.get("args", [])]
    options = {name: value_of(one) for name, one in row.get("options", {}).items()}
    function: Callable[..., Any] = getattr(args.pop(0), method) if method else getattr(pathveil, first)
    try:
        function(*args, **options)
    except Exception as error:
        names = [one.__name__ for one in type(error).__mro__]
        if "PathveilError" not in names:
            raise
        return names, str(error)
    return ["no error"], ""


def fill_in_form(row: Row, log_in: Any) -> tuple[list[str], str]:
    """What a person gets who sends a form, or opens a page."""
    client, _ = log_in(row["person"])
    if "get" in row:
        answer = client.get(row["get"], headers=row.get("headers", {}))
    else:
        owner = row.get("secret_of", row["person"])
        form = ({"csrf": log_in(owner)[1]} if owner else {}) | row.get("form", {})
        answer = client.post(row["post"], data=form, headers=row.get("headers", {}))
    return [str(answer.status_code)], answer.text + str(dict(answer.headers))


def ask_party(row: Row) -> tuple[list[str], str]:
    """What a server of an agreement says to the last of a site's requests."""
    client, start, tokens = adapter.agreement_party(row["party"])
    answer = None
    for one in [*row.get("before", []), row]:
        token = tokens.get(one.get("site", "R1"), "wrong")
        path = row.get("start", start) + (one.get("get") or one["post"])
        headers = {"authorization": f"Bearer {token}"}
        if answer is not None:
            assert answer.status_code == 200, answer.text
        answer = client.request("GET" if "get" in one else "POST", path, headers=headers,
                                content=bytes_of(one.get("content", "")))  # fmt: skip
    return [str(answer.status_code)], answer.text


def ask_service(row: Row, client: Any) -> tuple[list[str], str]:
    headers = {"authorization": f"Bearer {adapter.TOKEN}"} | row.get("headers", {})
    headers = {name: value for name, value in headers.items() if value}
    content = row.get("content")
    if content is None:
        answer = client.request("GET" if "get" in row else "POST", row.get("get") or row["post"], headers=headers)
    else:
        headers["content-type"] = row.get("type", "application/json")
        answer = client.request("POST", row["post"], headers=headers, content=bytes_of(content))
    return [str(answer.status_code)], answer.text + str(dict(answer.headers))


def paths_of(folder: str = ".") -> dict[str, Any]:
    """Every file and folder, with the size and time of files; caches are named, not looked into."""
    result: dict[str, Any] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            path = entry.path.removeprefix("./")
            if not entry.is_dir(follow_symlinks=False):
                facts = entry.stat(follow_symlinks=False)
                result[path] = (facts.st_size, facts.st_mtime_ns)
            else:
                result[path] = None
                if not path.endswith(CACHE):
                    result.update(paths_of(entry.path))
    return result


def has_word(text: str, word: Any) -> bool:
    return re.search(rf"(?<!\w)(?<!\w-){re.escape(str(word))}(?![\w-]|\.\w)", text) is not None


def message_faults(row: Row, message: str, log: str) -> list[str]:
    """What the message lacks, and what it shows of a report."""
    faults = [f"does not name {word}" for word in row["names"] if not has_word(message, word)]
    if "run" in row and message.count("pathveil: ") != 1 and "Usage: " not in message:
        faults.append("is not one sentence")
    if "Traceback" in message + log:
        faults.append("has a traceback")
    shown = (message + log).lower()
    planted = [word for word in [PLANTED, *row["absent"]] if word.lower() in shown]
    return faults + [f"shows {word}" for word in [*planted, *SECRETS.findall(shown)]]


class Refusals:
    """Runs rows in a folder that has the golden inputs."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack):
        shutil.copytree(INPUTS, folder, dirs_exist_ok=True)
        for name in ("out", "scratch"):
            (folder / name).mkdir()
        self.folder, self.stack, self.client, self.log_in = folder, stack, None, None

    def make_inputs(self, content: str) -> None:
        """The inputs of ``MAKE`` that a row, or the command of such an input, names."""
        if "bundle" in content and not Path("bundle").exists():
            adapter.model()
        if has_word(content, "passed") and not Path("passed").exists():
            self.make_inputs("trained appetite.toml")
            adapter.write_passing_audit("trained", "appetite.toml", "passed")
        for name, command in MAKE.items():
            if has_word(content, name) and not Path(name).exists():
                self.make_inputs(re.sub(rf"(?<=[ =]){re.escape(name)}(?!/)", "", command))
                code, _, errors = adapter.run(*shlex.split(command))
                assert code == 0, errors

    def outcome(self, row: Row) -> tuple[list[str], str]:
        """What came of a row as words, and its message."""
        if "call" in row:
            return call_api(row)
        if "party" in row:
            return ask_party(row)
        if "person" in row:
            store = self.folder.with_name(f"{self.folder.name}-store")
            self.log_in = self.log_in or self.stack.enter_context(adapter.browsers(store))
            return fill_in_form(row, self.log_in)
        if "get" in row or "post" in row:
            self.client = self.client or self.stack.enter_context(adapter.http_client())
            return ask_service(row, self.client)
        code, out, errors = adapter.run(*shlex.split(f"{row['run']} {row.get('more', '')}"))
        return [str(code)], out + errors

    def faults(self, row: Row) -> list[str]:
        """What is not as a row says."""
        log, top = io.StringIO(), logging.getLogger()
        handler = logging.StreamHandler(log)
        with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
            stack.enter_context(contextlib.chdir(self.folder))
            self.make_inputs(json.dumps(row, default=str) + "bundle" * ("get" in row or "post" in row))
            empty = paths_of()
            stack.callback(remove_new, empty)
            for name in row.get("folders", []):
                Path(name).mkdir(parents=True, exist_ok=True)
            for name, value in row["files"].items():
                assert name not in empty, f"{name} is there already"
                write_file(Path(name), value)
            for name, value in row.get("environment", {}).items():
                patch.setenv(name, value)
            patch.setattr(tempfile, "tempdir", str(self.folder / "scratch"))
            top.addHandler(handler)
            stack.callback(top.removeHandler, handler)
            before = paths_of()
            own = {name: Path(name).read_bytes() for name in row["files"] if Path(name).is_file()}
            outcome, message = self.outcome(row)
            if (after := paths_of()).keys() - before.keys():
                gc.collect()  # a frame's own file goes with it
                after = paths_of()
            changed = [name for name, facts in before.items() if after.get(name) != facts or name not in after]
            changed = [name for name in changed if name not in own or own[name] != Path(name).read_bytes()]
        expected = str(row.get("error") or row.get("status") or row.get("exit", 2))
        faults = [f"ends with {outcome[0]}, not {expected}"] if expected not in outcome else []
        faults += message_faults(row, message, log.getvalue())
        new, known = sorted(set(after) - set(before)), row.get("leaves", [])
        new = [name for name in new if not name.endswith(CACHE)]
        faults += [f"leaves {name}" for name in new if not any(fnmatch(name, one) for one in known)]
        faults += [f"leaves no {one} any more" for one in known if not any(fnmatch(name, one) for name in new)]
        faults += [f"changes {name}" for name in changed]
        return [*faults, f"the message: {message}"] if faults else []


def remove_new(before: Mapping[str, Any]) -> None:
    """Remove what a row wrote; the caches of golden inputs stay."""
    for name in sorted(set(paths_of()) - set(before), reverse=True):
        path = Path(name)
        if not path.is_dir() or path.is_symlink():
            path.unlink()
        elif not name.endswith(CACHE) or name.removesuffix(CACHE) not in before:
            shutil.rmtree(path)
