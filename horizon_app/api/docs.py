"""The API's reference as one plain page, made from the OpenAPI schema: no script, nothing from another host."""

from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Horizon API</title>
<meta name="viewport" content="width=device-width"><style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
h2 {{ font-size: 1rem; margin: 2rem 0 .2rem; overflow-wrap: anywhere }} code {{ font-size: .95em }}
table {{ border-collapse: collapse }} td {{ padding: .1rem 1rem .1rem 0; vertical-align: top }}
</style></head><body><h1>Horizon API {version}</h1>
<p>For programs: <a href="{schema}">{schema}</a>. Errors are problem documents (RFC 9457).
Streams: <code>WebSocket /api/v1/runs/RUN_ID/stream?after=SEQ</code> (one run) and
<code>/api/v1/stream</code> (all runs).</p>{calls}</body></html>"""


def install_docs(app: FastAPI) -> None:
    """Serve the reference at /docs."""

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(reference_page(app.openapi()))


def reference_page(schema: dict[str, Any]) -> str:
    """Every call with its parameters, body and answers."""
    calls = [
        _call(method, path, operation)
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    ]
    return _PAGE.format(version=escape(schema["info"]["version"]), schema="/api/v1/openapi.json", calls="".join(calls))


def _call(method: str, path: str, operation: dict[str, Any]) -> str:
    rows = [
        (f"{parameter['name']} ({parameter['in']})", parameter.get("description", ""))
        for parameter in operation.get("parameters", [])
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        rows.append(("body", _type(body)))
    for status, answer in operation["responses"].items():
        bodies: list[dict[str, Any]] = list(answer.get("content", {}).values())
        rows.append((status, _type(bodies[0]["schema"] if bodies else {}) or answer.get("description", "")))
    cells = "".join(f"<tr><td><code>{escape(name)}</code></td><td>{escape(text)}</td></tr>" for name, text in rows)
    head = f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
    return f"{head}<div>{escape(operation.get('description', ''))}</div><table>{cells}</table>"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    return " or ".join(filter(None, (_type(one) for one in schema.get("anyOf", [])))) or str(schema.get("type", ""))
