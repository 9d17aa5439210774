"""`python -m horizon_app.api.openapi_export`: OpenAPI and what the streams send, for the UI's generated types."""

import json
import sys
from typing import Any

from pydantic import TypeAdapter

from horizon_app.api.app import create_app
from horizon_app.contracts.frames import Frame, ResidencyWish, RunFrame, RunGone, SnapshotFrame
from horizon_app.settings import AppSettings

_STREAMED: dict[str, TypeAdapter[Any]] = {
    "Frame": TypeAdapter(Frame),
    "StreamFrame": TypeAdapter(Frame | SnapshotFrame),
    "RunFrame": TypeAdapter(RunFrame),
    "RunGone": TypeAdapter(RunGone),
    "ResidencyWish": TypeAdapter(ResidencyWish),
}


def full_schema() -> dict[str, Any]:
    """OpenAPI's schema, with the frames of both streams among its components."""
    schema = create_app(AppSettings()).openapi()
    components: dict[str, Any] = schema["components"]["schemas"]
    for name, adapter in _STREAMED.items():
        found = adapter.json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
        for inner, definition in found.pop("$defs", {}).items():
            components.setdefault(inner, definition)
        components[name] = found
    return schema


if __name__ == "__main__":
    json.dump(full_schema(), sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")
