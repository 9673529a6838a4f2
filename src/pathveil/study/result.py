"""A run's ``result.json``, written and read back: what its schema (``result.schema.json``) requires must be there.

Of the schema's words those are checked on which a reader stands or falls: types, required and known names, in every
row. The test suite holds results against the whole of it.

>>> schema = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
>>> wrong({"name": 3}, schema), wrong({}, schema), wrong({"name": "x"}, schema)
("'name' is no string", "'name' is missing", '')
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pathveil.errors import UsageError
from pathveil.files import write_json

TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
TYPES |= {"number": (int, float), "null": type(None)}


def read(path: Path, *, part: str | None = None, made_by: str = "pathveil study run") -> dict[str, Any]:
    """The result in a file, or that of a ``part``, one study by itself; one that is not whole, or of another version,
    is refused in a sentence. Where a whole run is asked for, one study by itself (as 'federate run' leaves it) is a run
    of that study, named by its folder."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UsageError(f"{path}: there is no finished result; run '{made_by}' first") from None
    if part is None and isinstance(result, dict) and isinstance(alone := result.get("study"), str):
        named = {"name": path.absolute().parent.name, "findings": result.get("findings")}
        result = named | {"studies": {alone: result}}
    if fault := fault_of(result, part=part):
        raise UsageError(
            f"{path}: is not a result of this version: {fault}; '{made_by}' as before makes it anew from what is "
            "finished"
        )
    return result


def write(path: Path, result: Mapping[str, Any], *, part: str | None = None) -> None:
    """Write a result, or that of a ``part``; never one that could not be read back."""
    if fault := fault_of(json.loads(json.dumps(result)), part=part):
        raise RuntimeError(f"{path}: the result breaks its own schema: {fault}")
    write_json(path, result)


def fault_of(result: Any, *, part: str | None = None) -> str:
    """The first thing about a result that is not as its schema says, or nothing."""
    schema = json.loads((files("pathveil.study") / "result.schema.json").read_text(encoding="utf-8"))
    return wrong(result, schema["$defs"][part] if part else schema, root=schema)


def wrong(value: Any, schema: Mapping[str, Any], *, root: Mapping[str, Any] | None = None, place: str = "") -> str:
    """The first thing that is not as the schema says, or nothing."""
    root = schema if root is None else root
    if "$ref" in schema:
        return wrong(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root=root, place=place)
    wanted = schema.get("type", [])
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if wanted and not any(isinstance(value, TYPES[one]) for one in wanted):
        return f"'{place or 'it'}' is no {' or '.join(wanted)}"
    inside: list[tuple[Any, Any, str]] = [(value, part, place) for part in schema.get("allOf", ())]
    if isinstance(value, dict):
        dot = f"{place}." if place else ""
        known = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                return f"'{dot}{name}' is missing"
        for name, part in value.items():
            if name in known:
                inside.append((part, known[name], dot + name))
            elif schema.get("additionalProperties") is False:
                return f"'{dot}{name}' is unknown"
    elif isinstance(value, list) and "items" in schema:
        inside += [(part, schema["items"], f"{place}.{number}") for number, part in enumerate(value)]
    return next(filter(None, (wrong(part, of, root=root, place=where) for part, of, where in inside)), "")
