from pathlib import Path

import pytest

from horizon_app.contracts.problems import FieldProblem
from horizon_app.data.errors import DataError
from horizon_app.engine.errors import ArenaTooSmall, EngineError
from horizon_app.worker.failure import failure_reason, trace_lines


class OutOfMemoryError(RuntimeError):
    """Named as torch's own."""


@pytest.mark.parametrize(
    "error",
    [MemoryError(), OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory")],
)
def test_reason_of_exhausted_memory_names_what_is_held_and_what_helps(error: Exception, tmp_path: Path) -> None:
    reason = failure_reason(error, "training optimizer step 3 of 9", tmp_path)
    assert reason.startswith("training optimizer step 3 of 9: out of memory")
    assert "iB RAM" in reason
    assert "micro_batch_size" in reason


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Exception("I/O error (os error 28)")])
def test_reason_of_a_full_disk_names_what_is_free(error: Exception, tmp_path: Path) -> None:
    assert "are free on the disk of the run's folder" in failure_reason(error, "writing", tmp_path)


def test_reason_of_bad_data_names_file_and_line_and_counts_the_rest(tmp_path: Path) -> None:
    problems = [
        FieldProblem(field="data.path", message="no key 'messages'", fix="add it", file="a.jsonl", line=number)
        for number in (4, 9)
    ]
    reason = failure_reason(DataError(problems, total=70), "reading the data", tmp_path)
    assert reason == "reading the data: a.jsonl line 4: no key 'messages'; add it (first of 70 problems)"


def test_reason_of_an_engine_error_is_its_own_sentence(tmp_path: Path) -> None:
    reason = failure_reason(ArenaTooSmall(slots=1, needed=2), "building the engine", tmp_path)
    assert reason.startswith("building the engine: offload.max_gpu_blocks is 1, but")


def test_reason_of_anything_else_names_its_kind_and_first_line(tmp_path: Path) -> None:
    assert failure_reason(ValueError("odd\nmore"), "reading", tmp_path) == "reading: ValueError: odd"


def test_reason_of_endless_text_is_cut_to_one_readable_sentence(tmp_path: Path) -> None:
    reason = failure_reason(
        EngineError(f"it overflows{' x' * 5000}. Set precision.compute to fp32"), "step 3", tmp_path
    )
    assert len(reason) == 600
    assert reason.startswith("step 3: it overflows x x") and " … " in reason
    assert reason.endswith("x. Set precision.compute to fp32")


def test_trace_of_a_chained_error_holds_both() -> None:
    try:
        try:
            raise ValueError("inner")
        except ValueError as inner:
            raise KeyError("outer") from inner
    except KeyError as error:
        text = "\n".join(trace_lines(error))
    assert "ValueError: inner" in text
    assert "KeyError: 'outer'" in text
