"""The OpenAPI schema leaves nothing out: examples, problems, words for everything."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from fastapi import FastAPI

from horizon_app.api.app import create_app
from horizon_app.settings import AppSettings


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return create_app(AppSettings()).openapi()


def operations(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def resolved(schema: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    name = response.get("$ref", "").rpartition("/")[2]
    return schema["components"]["responses"][name] if name else response


def contents(schema: dict[str, Any], operation: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Status (or body), media type and media of everything that is sent or answered."""
    for status, response in operation["responses"].items():
        for kind, media in resolved(schema, response).get("content", {}).items():
            yield status, kind, media
    for kind, media in operation.get("requestBody", {}).get("content", {}).items():
        yield "body", kind, media


def test_every_body_and_answer_has_an_example_that_keeps_to_its_schema(schema: dict[str, Any]) -> None:
    seen = 0
    for name, operation in operations(schema):
        for status, kind, media in contents(schema, operation):
            examples = [one["value"] for one in media.get("examples", {}).values()] or [media["example"]]
            validator = jsonschema_rs.validator_for({**media["schema"], "components": schema["components"]})
            for example in examples:
                assert [str(error) for error in validator.iter_errors(example)] == [], (name, status, kind)
            seen += 1
    assert seen > 100


def test_every_error_is_a_problem_document_and_those_of_every_route_are_named(schema: dict[str, Any]) -> None:
    for name, operation in operations(schema):
        responses = operation["responses"]
        assert {"403", "414", "500", "503"} <= responses.keys(), name
        assert "404" in responses or "{" not in name, name
        assert {"400", "413", "415", "422"} <= responses.keys() or "requestBody" not in operation, name
        assert "422" in responses or not operation.get("parameters"), name
        for status, kind, media in contents(schema, operation):
            if status.startswith(("4", "5")):
                assert (kind, media["schema"]) == ("application/problem+json", {"$ref": "#/components/schemas/Problem"})


def test_every_operation_parameter_and_field_of_a_body_is_described(schema: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in schema["tags"]}
    bodies: set[str] = set()
    for name, operation in operations(schema):
        assert operation.get("description"), name
        assert len(operation["tags"]) == 1 and set(operation["tags"]) <= tags, name
        assert [one["name"] for one in operation.get("parameters", []) if not one.get("description")] == [], name
        for media in operation.get("requestBody", {}).get("content", {}).values():
            found = [media["schema"], *media["schema"].get("anyOf", [])]
            bodies |= {one["$ref"].rpartition("/")[2] for one in found if "$ref" in one}
    undescribed = {
        f"{body}.{field}"
        for body in bodies
        for field, inner in schema["components"]["schemas"][body].get("properties", {}).items()
        if not inner.get("description") and "$ref" not in inner
    }
    assert undescribed == set()


def test_only_liveness_is_without_the_token(schema: dict[str, Any]) -> None:
    assert [name for name, one in operations(schema) if one["security"] == []] == ["GET /api/v1/healthz"]


def test_operations_have_names_of_their_own(app: FastAPI) -> None:
    names = [operation["operationId"] for _, operation in operations(app.openapi())]
    assert len(set(names)) == len(names)
