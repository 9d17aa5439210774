"""The built UI: from the wheel, or from a clone's build folder. Pages of the app all are its index.html."""

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.exceptions import HTTPException

import horizon_app

_NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Horizon</title>
<body>
<h1>The server runs, but the UI is not built</h1>
<p>In a clone, run <code>make run</code>, or build it with <code>python frontend/build_hook.py build</code>, and reload
this page. An installed wheel always holds the UI.</p>
<p>The API is at <a href="/api/v1/openapi.json">/api/v1/openapi.json</a>.</p></body></html>"""
_FOREVER = {"cache-control": "public, max-age=31536000, immutable"}
_ASK_AGAIN = {"cache-control": "no-cache"}


def ui_folder() -> Path | None:
    """Where the built UI lies."""
    package = Path(horizon_app.__file__).parent
    folders = (package / "_ui", package.parent / "frontend" / "dist")
    return next((folder for folder in folders if (folder / "index.html").is_file()), None)


def install_ui(app: FastAPI) -> None:
    """Serve the UI at every path that is not the API's."""

    @app.get("/{path:path}", include_in_schema=False)
    def page(path: str) -> Response:
        if path == "api" or path.startswith("api/"):
            raise HTTPException(404, f"there is no /{path[:100]}")
        folder = ui_folder()
        if folder is None:
            return HTMLResponse(_NOT_BUILT, 200 if path == "" else 404, headers=_ASK_AGAIN)
        found = _file(folder, path)
        if found is not None:
            # The build puts a hash of the content into the names of what lies in assets.
            return FileResponse(found, headers=_FOREVER if path.startswith("assets/") else _ASK_AGAIN)
        if "." in path.rpartition("/")[2]:
            raise HTTPException(404, f"there is no /{path[:100]}")
        return FileResponse(folder / "index.html", headers=_ASK_AGAIN)


def _file(folder: Path, path: str) -> Path | None:
    if not path or "\0" in path:
        return None
    found = (folder / path).resolve()
    return found if found.is_relative_to(folder.resolve()) and found.is_file() else None
