"""What we depend on: pins with hashes, a list of parts (SBOM), and known defects of them from a stored file.

    python tools/supply.py lock      constraints.txt → requirements.lock: every pin with the sha256 of its file
    python tools/supply.py sbom      requirements.lock → sbom.cdx.json (CycloneDX 1.5)
    python tools/supply.py audit     requirements.lock against tools/advisories.json, or --advisories FILE
    python tools/supply.py refresh   an export of advisories, --advisories FOLDER → those of our parts, kept

``pip install --require-hashes -r requirements.lock`` then installs these files and no others. The hashes are those of
the platform on which ``lock`` was run, which its first lines name. ``audit`` needs no network: advisories are a file in
the OSV format (a list of them, or a folder of them: an unpacked export of osv.dev, or a checkout of PyPA's advisory
database), brought in and looked at like any other change. Each one that is kept says where it is from and when it was
looked up. Exit code 1 where a pin is affected.
"""

import argparse
import datetime
import json
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LOCK, CONSTRAINTS, SBOM = ROOT / "requirements.lock", ROOT / "constraints.txt", ROOT / "sbom.cdx.json"
ADVISORIES = ROOT / "tools" / "advisories.json"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+?)((?: +--hash=sha256:[0-9a-f]{64})*)$", re.MULTILINE)


def pins(text: str) -> dict[str, tuple[str, list[str]]]:
    """Name: version and hashes of a file of pins.

    >>> pins("a==1.0 --hash=sha256:" + "0" * 64)
    {'a': ('1.0', ['0000000000000000000000000000000000000000000000000000000000000000'])}
    """
    joined = text.replace("\\\n", " ")
    return {
        str(canonicalize_name(name)): (version, re.findall("[0-9a-f]{64}", hashes))
        for name, version, hashes in PIN.findall(joined)
    }


def lock(reports: list[Path]) -> None:
    """Write the pins with the hashes that the package index gives for them; pip says what it would install."""
    with tempfile.TemporaryDirectory() as folder:
        found = reports or [Path(folder) / "report.json"]
        if not reports:
            command = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--dry-run",
                "--no-deps",
                "--ignore-installed",
            ]
            subprocess.run([*command, "--report", str(found[0]), "-r", str(CONSTRAINTS)], check=True)
        installed = [one for path in found for one in json.loads(path.read_text())["install"]]
    python = ".".join(platform.python_version_tuple()[:2])
    lines = [
        "# Made from constraints.txt by 'python tools/supply.py lock': what 'pip install --require-hashes' takes.",
        f"# Files for {sysconfig.get_platform()} and CPython {python}; elsewhere run it again.",
    ]
    for one in sorted(installed, key=lambda one: canonicalize_name(one["metadata"]["name"])):
        digest = one["download_info"]["archive_info"]["hashes"]["sha256"]
        name = canonicalize_name(one["metadata"]["name"])
        lines.append(f"{name}=={one['metadata']['version']} \\\n    --hash=sha256:{digest}")
    LOCK.write_text("\n".join(lines) + "\n")


def extras() -> dict[str, list[str]]:
    """The packages that the product itself and each of its extras ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        name: sorted({str(canonicalize_name(Requirement(one).name)) for one in wanted} - {"pathveil"})
        for name, wanted in asked.items()
    }


def sbom() -> dict[str, Any]:
    """The parts as CycloneDX has them; the same pins give the same bytes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parts, asked = pins(LOCK.read_text()), extras()
    reference = {name: f"pkg:pypi/{name}@{version}" for name, (version, _) in parts.items()}
    direct = sorted({name for names in asked.values() for name in names if name in parts})
    components = [
        {
            "type": "library",
            "bom-ref": reference[name],
            "name": name,
            "version": version,
            "purl": reference[name],
            "scope": "required" if name in asked[""] else "optional",
            "hashes": [{"alg": "SHA-256", "content": digest} for digest in digests],
            "properties": [
                {"name": "pathveil:extra", "value": extra or "core"} for extra, names in asked.items() if name in names
            ],
        }
        for name, (version, digests) in sorted(parts.items())
    ]
    product = {"type": "application", "bom-ref": "pathveil", "name": project["name"], "version": project["version"]}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, LOCK.read_text())}",
        "version": 1,
        "metadata": {"component": product | {"licenses": [{"license": {"id": project["license"]}}]}},
        "components": components,
        "dependencies": [{"ref": "pathveil", "dependsOn": [reference[name] for name in direct]}],
    }


def advisories(path: Path) -> Iterator[dict[str, Any]]:
    """The advisories of a file or of a folder of files, in the OSV format."""
    found = sorted([*path.rglob("*.json"), *path.rglob("*.yaml")]) if path.is_dir() else [path]
    for file in found:
        content = yaml.safe_load(file.read_text()) if file.suffix == ".yaml" else json.loads(file.read_text())
        for one in content if isinstance(content, list) else [content]:
            if isinstance(one, dict) and "id" in one and "affected" in one:
                yield one


def refreshed(export: Path, names: set[str], *, day: str) -> list[dict[str, Any]]:
    """The advisories of an export about some packages, with no more than ``audit`` and a reader need."""
    kept = []
    for one in advisories(export):
        entries = [
            {name: entry[name] for name in ("package", "ranges", "versions") if name in entry}
            for entry in one["affected"]
            if entry["package"].get("ecosystem") == "PyPI" and str(canonicalize_name(entry["package"]["name"])) in names
        ]
        if entries and "withdrawn" not in one:
            told = {name: one[name] for name in ("id", "summary", "aliases", "references") if name in one}
            kept.append(told | {"affected": entries, "database_specific": {"looked_up": day}})
    return sorted(kept, key=lambda one: one["id"])


def affected(advisory: dict[str, Any], parts: dict[str, tuple[str, list[str]]]) -> Iterator[str]:
    """The pins that an advisory speaks of.

    >>> told = {"affected": [{"package": {"ecosystem": "PyPI", "name": "A"}, "ranges": [{"type": "ECOSYSTEM",
    ...         "events": [{"introduced": "0"}, {"fixed": "1.5"}]}]}]}
    >>> list(affected(told, {"a": ("1.4", [])})), list(affected(told, {"a": ("1.5", [])}))
    (['a'], [])
    """
    for entry in advisory.get("affected", []):
        name = str(canonicalize_name(entry["package"]["name"]))
        if entry["package"].get("ecosystem") != "PyPI" or name not in parts or "withdrawn" in advisory:
            continue
        version = Version(parts[name][0])
        spans = [one["events"] for one in entry.get("ranges", []) if one["type"] == "ECOSYSTEM"]
        if str(version) in entry.get("versions", []) or any(within(version, events) for events in spans):
            yield name


def within(version: Version, events: list[dict[str, str]]) -> bool:
    """Whether a version lies in a range of OSV: introduced … fixed (not included) or last_affected (included)."""
    inside = False
    for event in events:
        kind, bound = next(iter(event.items()))
        if kind == "introduced" and (bound == "0" or version >= Version(bound)):
            inside = True
        elif (kind == "fixed" and version >= Version(bound)) or (kind == "last_affected" and version > Version(bound)):
            inside = False
    return inside


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["lock", "sbom", "audit", "refresh"])
    parser.add_argument("--report", type=Path, nargs="*", default=[], help="lock: reports that pip has written already")
    parser.add_argument("--advisories", type=Path, default=ADVISORIES, help="audit, refresh: in the OSV format")
    given = parser.parse_args()
    if given.what == "lock":
        lock(given.report)
    elif given.what == "sbom":
        SBOM.write_text(json.dumps(sbom(), indent=1) + "\n")
    elif given.what == "refresh":
        if given.advisories == ADVISORIES:
            parser.error("refresh: give the folder of an export with --advisories")
        day = datetime.datetime.now(datetime.UTC).date().isoformat()
        kept = refreshed(given.advisories, set(pins(LOCK.read_text())), day=day)
        ADVISORIES.write_text("[\n" + ",\n".join(f" {json.dumps(one)}" for one in kept) + "\n]\n")
        print(f"{len(kept)} advisories about our parts are in {ADVISORIES.relative_to(ROOT)}")
    else:
        parts, known = pins(LOCK.read_text()), list(advisories(given.advisories))
        found = [(one, name) for one in known for name in affected(one, parts)]
        for one, name in found:
            print(f"{name} {parts[name][0]}: {one['id']} {one.get('summary', '')}")
        print(f"{len(parts)} packages, {len(known)} advisories: {len(found)} found")
        sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
