"""Kits: names are checked, a site can be added, and a site's policy lets nothing in but our own class."""

import json
import stat

import pytest

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'pathveil[federation]'")

from pathveil.errors import UsageError
from pathveil.federation.flare.provision import provision
from pathveil.vocabulary.words import Vocabulary

GIVEN = {"sites": ["north", "south"], "hub": "hub.example.org:8443", "admin": "lead@example.org"}


def test_kits_have_what_each_needs_and_not_more(tmp_path):
    kits = provision(**GIVEN, out=tmp_path)
    assert set(kits) == {"hub", "north", "south", "lead@example.org"}
    for name, kit in kits.items():
        files = {str(path.relative_to(kit)) for path in kit.rglob("*") if path.is_file()}
        own = "server" if name == "hub" else "client"
        assert {"README.md", f"startup/{own}.key", f"startup/{own}.crt", "startup/rootCA.pem"} <= files
        assert not any(file.endswith((".sh", ".default", ".sample", ".ipynb")) for file in files)
        assert stat.S_IMODE(kit.stat().st_mode) == 0o700
        assert stat.S_IMODE((kit / "startup" / f"{own}.key").stat().st_mode) == 0o600
        assert "hub.example.org, port 8443" in (kit / "README.md").read_text()
    keys = {(kit / "startup").glob("*.key").__next__().read_text() for kit in kits.values()}
    assert len(keys) == 4
    elsewhere = [path for path in (tmp_path / "authority").rglob("*.key")]
    assert not elsewhere and stat.S_IMODE((tmp_path / "authority").stat().st_mode) == 0o700


def test_a_site_takes_no_code_no_shell_and_keeps_its_logs(tmp_path):
    local = provision(**GIVEN, out=tmp_path)["north"] / "local"
    resources = json.loads((local / "resources.json").read_text())
    assert resources["class_allow_list"] == ["pathveil.federation.flare.executor.SiteExecutor"]
    assert resources["class_list_enforcement_mode"] == "enforce" and resources["allow_log_streaming"] is False
    rights = json.loads((local / "authorization.json").read_text())["permissions"]
    assert set(rights) == {"project_admin"}
    assert all(rights["project_admin"][right] == "none" for right in ("byoc", "shell_commands", "operate"))


def test_a_site_is_added_and_keys_handed_over_stay(tmp_path):
    before = (provision(**GIVEN, out=tmp_path)["north"] / "startup" / "client.key").read_text()
    kits = provision(**GIVEN | {"sites": ["north", "south", "west"]}, out=tmp_path)
    assert (kits["north"] / "startup" / "client.key").read_text() == before
    roots = {(kit / "startup" / "rootCA.pem").read_text() for kit in kits.values()}
    assert "west" in kits and len(roots) == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sites": ["north"]}, "at least 2 sites"),
        ({"sites": ["north", "North"]}, "given twice"),
        ({"sites": ["north", "so uth"]}, "is not a name"),
        ({"sites": ["north", "../x"]}, "is not a name"),
        ({"sites": ["north", "hub"]}, "choose another name"),
        ({"hub": "hub_example"}, "is not a host name"),
        ({"hub": "hub.example.org:99999"}, "is not a port"),
        ({"admin": "lead"}, "is not a mail address"),
    ],
)
def test_bad_names_are_one_sentence_and_nothing_is_written(change, sentence, tmp_path):
    with pytest.raises(UsageError, match=sentence):
        provision(**GIVEN | change, out=tmp_path / "kits")
    assert not (tmp_path / "kits").exists()


def test_a_kit_of_another_kind_is_refused(pathveil, tmp_path):
    kits = provision(**GIVEN, out=tmp_path / "kits")
    for command in (["hub", kits["north"]], ["site", kits["hub"], "--corpus", "x", "--vocab", "y"]):
        ended = pathveil("federate", *command)
        assert ended.returncode == 2 and "is not the kit of a" in ended.stderr
        assert "until ctrl-C" not in ended.stderr
    ended = pathveil("federate", "site", kits["north"], "--corpus", tmp_path / "no.parquet", "--vocab", "y")
    assert ended.returncode == 2 and "is not there" in ended.stderr


def test_what_is_wrong_is_said_before_a_training(pathveil, tmp_path):
    kits = provision(**GIVEN, out=tmp_path / "kits")
    (tmp_path / "file").write_text("not a folder")
    Vocabulary(("a", "b", "c"), "by hand").save(tmp_path / "words.json")
    (tmp_path / "classes.json").write_text('{"site": ["C50", "C18"]}')
    agreed = ["--vocab", tmp_path / "words.json", "--classes", tmp_path / "classes.json", "--wait", 1]
    call = ["federate", "submit", kits["lead@example.org"], "--site", "north", "--site", "south", *agreed]
    ended = pathveil(*call, "--out", tmp_path / "file" / "run")
    assert ended.returncode == 2 and "file/run: cannot be written to" in ended.stderr
    ended = pathveil(*call, "--out", tmp_path / "run", "--seed", -1)
    assert ended.returncode == 2 and "--seed" in ended.stderr


def test_a_corpus_without_labels_has_no_classes_to_list(pathveil, tmp_path):
    rows = "report_id,case_id,registry,text\n1,1,A,words\n"
    (tmp_path / "reports.csv").write_text(rows)
    ended = pathveil("federate", "classes", tmp_path / "reports.csv", "--out", tmp_path / "classes.json")
    assert ended.returncode == 2 and "no task column" in ended.stderr and not (tmp_path / "classes.json").exists()
