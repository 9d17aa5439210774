"""Examples for the reference, made from the schema: each field's value by its name, else by its default or type."""

from typing import Any, cast

Schema = dict[str, Any]
_RUN = "20260131-120000-a1b2c3"
_TIME = "2026-01-31T12:00:00Z"
_SPEC = {"model": {"path": "models/llama"}, "data": {"path": "data/train.jsonl"}}
_DEEPEST = 8
_PYTHON: dict[str, type | tuple[type, ...]] = {
    "null": type(None), "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list,
    "object": dict,
}  # fmt: skip

_VALUES: dict[str, Any] = {
    "MoveBody": {"position": 1},
    "active_run": _RUN, "architecture": "LlamaForCausalLM", "base_dir": "data",
    "BlockFacts.parameters": ["model.layers.0.mlp.up_proj.weight"], "broken": "", "cause": None, "check": "divergence",
    "Checkpoint.path": "checkpoints/100", "CheckpointFrame.path": "checkpoints/100", "cloned_from": None,
    "CheckFrame.fix": "halve the learning rate: 1e-05 instead of 2e-05", "CheckFrame.title": "Loss runs away",
    "Check.id": "disk_space", "RunCheck.id": "divergence", "RunCheck.title": "Loss runs away",
    "RunCheck.remedy": {"by": "clone", "set": {"training.learning_rate": 1e-5}},
    "compression": "", "compute_dtype": "bfloat16", "container": "JSON lines", "container_reason": "its first line",
    "counts": {"running": 1, "finished": 41}, "cpu_count": 16, "created_at": _TIME, "cursor": None,
    "DataFileView.path": "data/train.jsonl", "DataPreview.format": "messages", "DatasetEntry.name": "train.jsonl",
    "DatasetEntry.path": "data/train.jsonl", "detail": "there is no run '20260131'", "device": "cuda:0",
    "DeviceUse.name": "NVIDIA H200", "dtype": "bf16", "ended_at": _TIME, "ending": "stop", "errors": [],
    "eval_loss": 1.87, "ExportAsked.path": "exports/my-model", "Exported.notes": [],
    "Exported.path": "exports/my-model", "ExportedFile.name": "model.safetensors", "FactFrame.kind": "resumed",
    "FieldProblem.field": "training.learning_rate", "FieldProblem.line": None,
    "FieldProblem.message": "should be greater than 0", "file": "data/train.jsonl", "fingerprint": "9f2c41d7",
    "fix": "write a number above 0", "folder": "examples/starter", "folders": ["models"],
    "formats": {"messages": "its keys"}, "frame": None, "freed_bytes": 1_610_612_736, "GenerateBody.messages": None,
    "home": "horizon", "id": _RUN, "idempotency-key": "7d1e", "ids": [7454, 2402],
    "keys": "train/loss,throughput/tokens_per_second", "labels": [-100, 2402], "last_seq": 1873, "layers": 16,
    "max_points": 1000, "memory_available": 96 << 30, "memory_total": 128 << 30, "memory_used": 41 << 30,
    "message": "step 120 is done", "metrics": {"train/loss": 1.94}, "MetricsFrame.nonfinite": {},
    "ModelEntry.name": "llama", "ModelSummary.name": "llama", "name": "my-run", "next_cursor": None,
    "notes": "first try", "parameters": 1_235_814_400, "path": "models/llama", "plan": {"total_steps": 200},
    "Problem.status": 404, "Problem.title": "No such run", "Problem.type": "horizon:run-not-found",
    "prompt": "Once upon a time", "reason": "", "run_id": _RUN, "seq": 1873, "Series.x": [1, 2, 3],
    "Series.y": [4.1, None, 3.8], "SeriesAnswer.nonfinite": {"train/loss": [[2, "nan"]]},
    "SeriesAnswer.series": {"train/loss": {"x": [1], "y": [4.1]}}, "set": {"training.optimizer_steps": 400},
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c1", "sort": "-created_at",
    "sparkline": [4.1, 2.6, 1.94], "spec": _SPEC, "StageLayout.name": "model.layers.0", "started_at": _TIME,
    "step": 120, "tag": "lora", "tags": ["lora"], "text": "there was a block.", "time": _TIME,
    "tokens": ["Once", " upon"], "total": 42, "total_steps": 200, "trained": [False, True],
    "trained_spans": [" upon"], "values": {"train/loss": 1.94}, "version": "0.1.0",
}  # fmt: skip
"""Values by `Model`, by `Model.field`, else by field."""


def example(schema: Schema, components: Schema, name: str = "", model: str = "", depth: int = 0) -> Any:
    """An example of a schema: of the field `name` of `model`; `components` are what it may refer to."""
    if f"{model}.{name}" in _VALUES:
        return _VALUES[f"{model}.{name}"]
    if name in _VALUES and _fits(_VALUES[name], schema):
        return _VALUES[name]
    if "$ref" in schema:
        referred = str(schema["$ref"]).rpartition("/")[2]
        if referred in _VALUES:
            return _VALUES[referred]
        return {} if depth > _DEEPEST else example(components[referred], components, "", referred, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    branches = cast(list[Schema], schema.get("anyOf") or schema.get("oneOf") or [])
    chosen = next((branch for branch in branches if branch.get("type") != "null"), None)
    if chosen is not None:
        return example(chosen, components, "", model, depth)
    return _of_type(schema, components, model, depth)


def _fits(value: object, schema: Schema) -> bool:
    """Whether a value known by the name of a field only is one of this field."""
    for branch in cast(list[Schema], schema.get("anyOf", [schema])):
        if "enum" in branch:
            if value in branch["enum"]:
                return True
        elif "type" in branch and isinstance(value, _PYTHON[branch["type"]]):
            return True
    return False


def _of_type(schema: Schema, components: Schema, model: str, depth: int) -> Any:
    kind = schema.get("type")
    if kind == "object":
        fields = cast(Schema, schema.get("properties", {}))
        return {field: example(inner, components, field, model, depth) for field, inner in fields.items()}
    if kind == "array":
        several = schema.get("prefixItems") or [schema.get("items", {})]
        return [example(inner, components, "", model, depth) for inner in several]
    if kind in ("integer", "number"):
        return min(max(1, schema.get("minimum", 1)), schema.get("maximum", 1))
    if kind == "string":
        return _TIME if schema.get("format") == "date-time" else "text"
    return False if kind == "boolean" else {}
