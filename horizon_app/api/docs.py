"""The API's reference as one page, made from the OpenAPI schema: no script, nothing from another host."""

import base64
import hashlib
import json
from collections.abc import Iterable
from html import escape
from typing import Any, cast
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from horizon_app.api.security import content_policy

Schema = dict[str, Any]
_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#d5dade, #323940); --soft: light-dark(#f4f6f7, #1b2025);
  --dim: light-dark(#56606a, #98a3ad); --key: light-dark(#0b6b58, #5fd3b8) }
body { font: 15px/1.55 system-ui, sans-serif; margin: 0; display: grid; grid-template-columns: 17rem minmax(0, 1fr) }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; box-sizing: border-box; padding: 1.2rem;
  border-right: 1px solid var(--line); font-size: .85rem }
nav a { display: block; padding: .1rem 0; color: inherit; text-decoration: none; overflow-wrap: anywhere }
nav a:hover, nav a:focus { text-decoration: underline } nav b { display: block; margin-top: .9rem }
main { padding: 1.2rem 2rem 6rem; max-width: 60rem } h1 { margin-top: 0 } h2 { margin-top: 2.6rem }
code, pre { font: .86em/1.5 ui-monospace, monospace } pre { background: var(--soft); border: 1px solid var(--line);
  border-radius: 6px; padding: .7rem .9rem; overflow: auto; margin: .4rem 0 }
article { border-top: 1px solid var(--line); padding: .4rem 0 1rem } h3 { font-size: 1rem; margin: .7rem 0 .2rem }
h3 code { overflow-wrap: anywhere } h3 b { color: var(--key); font-weight: 650 } p { margin: .3rem 0 .6rem }
table { border-collapse: collapse; width: 100% } td { padding: .18rem 1rem .18rem 0; vertical-align: top }
td:nth-child(2) { color: var(--dim); white-space: nowrap } summary { cursor: pointer; padding: .2rem 0 }
  details details { margin-left: 1.2rem }
main a { color: var(--key) } td { overflow-wrap: anywhere } td:first-child { overflow-wrap: break-word }
@media (max-width: 50rem) { body { display: block }
  nav { position: static; height: 40vh; border: 0; border-bottom: 1px solid var(--line) }
  main { padding: 1rem } td:nth-child(2) { white-space: normal } h3, p, summary { overflow-wrap: anywhere } }
"""
_POLICY = content_policy(style=f"'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'")
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Horizon API</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="/favicon.svg">
<style>{style}</style></head><body>
<nav aria-label="Calls"><a href="/">Horizon</a>{links}<b>Shapes</b>{shape_links}</nav>
<main><h1>Horizon API {version}</h1>{about}<p>For programs: <a href="{schema}"><code>{schema}</code></a>.</p>
{calls}<h2>Shapes</h2>{shapes}</main></body></html>"""


def install_docs(app: FastAPI) -> None:
    """Serve the reference at /docs."""

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(reference_page(app.openapi()), headers={"content-security-policy": _POLICY})


def reference_page(schema: Schema) -> str:
    """Every call with its parameters, body, answers and examples, and every shape that they name."""
    links: list[str] = []
    calls: list[str] = []
    for tag in schema["tags"]:
        links.append(f"<b>{escape(tag['name'])}</b>")
        calls.append(
            f'<h2 id="{tag["name"]}">{escape(tag["name"].capitalize())}</h2><p>{escape(tag["description"])}</p>'
        )
        for method, path, operation in _operations(schema, tag["name"]):
            links.append(f'<a href="#{operation["operationId"]}">{method} {escape(path.removeprefix("/api/v1"))}</a>')
            calls.append(_call(schema, method, path, operation))
    shapes: dict[str, Schema] = schema["components"]["schemas"]
    return _PAGE.format(
        style=_STYLE, version=escape(schema["info"]["version"]), schema="/api/v1/openapi.json",
        about="".join(f"<p>{_inline(part)}</p>" for part in schema["info"]["description"].strip().split("\n\n")),
        links="".join(links), calls="".join(calls),
        shape_links="".join(f'<a href="#{name}">{escape(name)}</a>' for name in sorted(shapes)),
        shapes="".join(_shape(name, shapes[name]) for name in sorted(shapes)),
    )  # fmt: skip


def _operations(schema: Schema, tag: str) -> Iterable[tuple[str, str, Schema]]:
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            if operation["tags"] == [tag]:
                yield method.upper(), path, operation


def _call(schema: Schema, method: str, path: str, operation: Schema) -> str:
    parameters = [
        (f"{one['name']}", f"{one['in']}, {_type(one['schema'])}", one.get("description", ""))
        for one in operation.get("parameters", [])
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    parts = [
        f'<article id="{operation["operationId"]}"><h3><code><b>{method}</b> {escape(path)}</code></h3>',
        f"<p>{_inline(operation.get('description', ''))}</p>",
        f"<pre>{escape(_curl(method, path, operation, body))}</pre>",
        _table(parameters),
    ]
    if body is not None:
        parts.append(f"<details><summary>Body: {_type_link(body['schema'])}</summary>{_json(_example(body))}</details>")
    answers = [(status, _resolved(schema, response)) for status, response in operation["responses"].items()]
    problems = [_answer(status, response) for status, response in answers if status >= "4"]
    parts += [_answer(status, response) for status, response in answers if status < "4"]
    parts.append(f"<details><summary>Problems</summary>{''.join(problems)}</details>")
    return "".join(parts) + "</article>"


def _resolved(schema: Schema, response: Schema) -> Schema:
    name = str(response.get("$ref", "")).rpartition("/")[2]
    return schema["components"]["responses"][name] if name else response


def _answer(status: str, response: Schema) -> str:
    shown = [
        f"<p><code>{escape(kind)}</code> {_type_link(media['schema'])}</p>{_json(_example(media))}"
        for kind, media in response.get("content", {}).items()
    ]
    text = _inline(str(response.get("description", "")))
    return f"<details><summary><code>{status}</code> {text}</summary>{''.join(shown)}</details>"


def _curl(method: str, path: str, operation: Schema, body: Schema | None) -> str:
    """A line for a shell that does what the examples show."""
    for one in operation.get("parameters", []):
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", quote(str(one.get("example", one["name"])), safe=""))
    needed = [one for one in operation.get("parameters", []) if one["in"] == "query" and one.get("required")]
    query = "&".join(f"{one['name']}={quote(_word(one.get('example', '')))}" for one in needed)
    line = (
        "curl" + (f" -X {method}" if method != "GET" else "") + f" 'localhost:8321{path}{'?' if query else ''}{query}'"
    )
    if body is None:
        return line
    text = json.dumps(_example(body)).replace("'", "'\\''")
    return f"{line} \\\n  -H 'Content-Type: application/json' -d '{text}'"


def _word(value: object) -> str:
    return str(cast(list[object], value)[0]) if isinstance(value, list) else str(value)


def _example(media: Schema) -> Any:
    several = media.get("examples")
    return next(iter(several.values()))["value"] if several else media.get("example")


def _shape(name: str, shape: Schema) -> str:
    fields = [
        (field, _type(inner), inner.get("description", "")) for field, inner in shape.get("properties", {}).items()
    ]
    words = (
        f"<p>{', '.join(f'<code>{escape(str(word))}</code>' for word in shape['enum'])}</p>" if "enum" in shape else ""
    )
    about = _inline(str(shape.get("description", "")))
    return f'<article id="{name}"><h3><code>{escape(name)}</code></h3><p>{about}</p>{words}{_table(fields)}</article>'


def _table(rows: list[tuple[str, str, str]]) -> str:
    cells = (
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td><td>{_inline(text)}</td></tr>"
        for name, kind, text in rows
    )
    return f"<table>{''.join(cells)}</table>" if rows else ""


def _json(value: Any) -> str:
    return f"<pre>{escape(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))}</pre>"


def _inline(text: str) -> str:
    """Text with `code` in it."""
    parts = text.split("`")
    return "".join(f"<code>{escape(part)}</code>" if at % 2 else escape(part) for at, part in enumerate(parts))


def _type_link(schema: Schema) -> str:
    name = _type(schema)
    return f'<a href="#{escape(name)}">{escape(name)}</a>' if "$ref" in schema else escape(name)


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    branches = cast(list[Schema], schema.get("anyOf") or schema.get("oneOf") or [])
    return " or ".join(filter(None, map(_type, branches))) or str(schema.get("const", schema.get("type", "anything")))
