"""No module reads foreign bytes but through ``pathveil.untrusted``: whoever calls a parser elsewhere is found here."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT

SOURCE = ROOT / "src" / "pathveil"
# Functions that turn bytes into things, by what a module calls them: the last two parts of the dotted name.
PARSERS = {
    "json.load", "json.loads", "tomllib.load", "tomllib.loads", "yaml.load", "yaml.safe_load", "pickle.load",
    "pickle.loads", "np.load", "np.memmap", "np.fromfile", "np.loadtxt", "np.genfromtxt", "format.open_memmap",
    "sparse.load_npz", "torch.load", "gzip.open", "gzip.GzipFile", "zipfile.ZipFile", "tarfile.open", "bz2.open",
    "lzma.open", "zlib.decompress", "sqlite3.connect", "pl.scan_parquet", "pl.read_parquet", "pl.scan_ndjson",
    "pl.read_ndjson", "pl.read_json", "pl.scan_csv", "pl.read_csv", "pl.read_excel", "pl.read_ipc", "pl.scan_ipc",
    "pd.read_csv", "ElementTree.parse", "ElementTree.iterparse", "ElementTree.fromstring", "expat.ParserCreate",
    "fastexcel.read_excel", "marshal.loads", "shelve.open",
}  # fmt: skip
METHODS = {"model_validate_json", "validate_json", "read_json_schema"}  # pydantic's own JSON parser
IMPORTED = {
    "safetensors": {"safe_open"},
    "safetensors.numpy": {"load", "load_file"},
    "safetensors.torch": {"load", "load_file"},
}
# Where one is called all the same, and why that is safe.
ALLOWED = {
    "corpus/tables/files.py": {
        "pl.scan_parquet": "which refuses a lying file; its rows and columns are bounded",
    },
    "corpus/tables/json_files.py": {
        "pl.scan_ndjson": "after check_table_json",
        "pl.read_json": "after check_table_json",
    },
    "corpus/tables/database.py": {
        "sqlite3.connect": "read-only, bounded in length, steps and records",
    },
    "corpus/tables/excel.py": {
        "pl.read_excel": "in a process of its own",
        "fastexcel.read_excel": "in a process of its own",
    },
    "corpus/tables/csv_files.py": {
        "pl.read_csv": "a few MB at a time, of CSV's grammar",
    },
    "corpus/messages/fhir_index.py": {
        "sqlite3.connect": "its own temporary store",
        "json.loads": "what it put there itself",
        "zlib.decompress": "what it put there itself",
    },
    "corpus/intake.py": {"pl.scan_parquet": "its own staged file"},
    "corpus/one_pass.py": {"pl.scan_parquet": "the part it has just written"},
    "corpus/synth/writer.py": {"pl.scan_parquet": "its own staged file"},
    "studies/demo.py": {"pl.read_parquet": "the demo's own corpus"},
    "text/bulk.py": {"pickle.load": "what its own child process, or the parent of it, wrote"},
    "vocabulary/tokens.py": {"np.memmap": "its own unfinished file, of this process"},
    "training/checkpoint.py": {"safe_open": "a run's own state"},
    "serve/database.py": {"sqlite3.connect": "the service's own store"},
    "studies/result.py": {"model_validate_json": "text made from parsed JSON"},
    "agreement/store.py": {"sqlite3.connect": "a party's own state"},
    "federation/flare/provision.py": {"yaml.safe_load": "the provisioning's own file"},
    "studies/study_file.py": {"model_validate_json": "text made from parsed TOML"},
}  # fmt: skip


def calls_of(source: str) -> Iterator[str]:
    """The parsers that a module calls or imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name in IMPORTED.get(node.module or "", ()):
                    yield alias.name
                if f"{(node.module or '').split('.')[-1]}.{alias.name}" in PARSERS:
                    yield f"{(node.module or '').split('.')[-1]}.{alias.name}"
        if isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if f"{owner}.{node.attr}" in PARSERS:
                yield f"{owner}.{node.attr}"
            if node.attr in METHODS:
                yield node.attr


def test_the_search_finds_them():
    code = "import json, numpy as np\nfrom safetensors.numpy import load_file\nfrom json import loads\n"
    code += "json.loads(data), np.lib.format.open_memmap(path), Plan.model_validate_json(data)"
    assert sorted(calls_of(code)) == [
        "format.open_memmap",
        "json.loads",
        "json.loads",
        "load_file",
        "model_validate_json",
    ]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_foreign_bytes_come_through_the_one_door(path: Path):
    name = path.relative_to(SOURCE).as_posix()
    if name.startswith("untrusted/"):
        return
    around = set(calls_of(path.read_text())) - set(ALLOWED.get(name, ()))
    assert not around, f"{name} calls {', '.join(sorted(around))}; read through pathveil.untrusted or pathveil.files"


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_what_is_allowed_is_there(name):
    assert set(ALLOWED[name]) <= set(calls_of((SOURCE / name).read_text())), f"{name}: strike what it no longer calls"
