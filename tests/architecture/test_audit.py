"""The audit of packages says what it knows, and says so where nobody answered."""

import json

import pytest

from tests.support import audit

SKIPPED = {"name": "a", "skip_reason": "not found"}
SOUND = {"name": "b", "version": "1", "vulns": []}
HOLED = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"]}]}


@pytest.mark.parametrize(
    ("dependencies", "line"),
    [
        ([SOUND], "Python: no known vulnerability in 1 packages"),
        ([HOLED, SOUND], "Python: 1 known vulnerabilities in 2 packages\n  c 2: PYSEC-1, fixed in 2.1"),
        (
            [SKIPPED, SKIPPED],
            "Python: not audited: no answer from PyPI's vulnerability service for 2 of 2 packages",
        ),
        (
            [SKIPPED, SOUND],
            "Python: no known vulnerability in 1 packages; not audited: no answer from PyPI's vulnerability service "
            "for 1 of 2 packages",
        ),
    ],
)
def test_verdict_on_python_never_calls_an_unanswered_package_sound(dependencies: object, line: str) -> None:
    assert audit.python_verdict(json.dumps({"dependencies": dependencies})).line() == line


def test_verdict_on_the_ui_tells_an_error_from_an_answer() -> None:
    answer = {"metadata": {"dependencies": {"total": 90}}, "vulnerabilities": {"x": {"severity": "high"}}}
    assert audit.ui_verdict(json.dumps(answer)).line() == "UI: 1 known vulnerabilities in 90 packages\n  x: high"
    assert audit.ui_verdict('{"message": "405", "error": {}}').line().startswith("UI: not audited: no answer")
    assert audit.ui_verdict("").line().startswith("UI: not audited: no answer")


@pytest.mark.parametrize(
    ("python", "strict", "code"), [(HOLED, False, 1), (SKIPPED, False, 0), (SKIPPED, True, 2), (SOUND, True, 0)]
)
def test_exit_code_of_an_audit_is_that_of_what_is_known(
    python: object, strict: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ui = {"metadata": {"dependencies": {"total": 1}}, "vulnerabilities": {}}
    said = iter([json.dumps({"dependencies": [python]}), json.dumps(ui)])
    monkeypatch.setattr(audit, "_said", lambda _command: next(said))
    assert audit.main(["--strict"] if strict else []) == code
