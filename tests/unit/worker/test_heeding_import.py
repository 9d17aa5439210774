import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from horizon_app.worker.heeding_import import ImportStopped, import_heeding_stop


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_import_that_ends_leaves_its_module_for_whoever_asks_next(modules: Path) -> None:
    (modules / "quick_library.py").write_text("answer = 42\n")
    import_heeding_stop("quick_library", lambda: False)
    assert sys.modules["quick_library"].answer == 42


def test_import_that_fails_raises_what_the_module_raises(modules: Path) -> None:
    (modules / "broken_library.py").write_text("raise ImportError('libgomp.so.1 is missing')\n")
    with pytest.raises(ImportError, match=r"libgomp\.so\.1 is missing"):
        import_heeding_stop("broken_library", lambda: False)


def test_import_that_takes_long_is_left_behind_once_a_stop_is_asked(
    modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "gates", SimpleNamespace(begun=begun, gate=gate, ended=ended))
    text = "import gates\ngates.begun.set()\ngates.gate.wait(20)\ngates.ended.set()\n"
    (modules / "slow_library.py").write_text(text)
    with pytest.raises(ImportStopped, match="slow_library"):
        import_heeding_stop("slow_library", begun.is_set)
    assert not ended.is_set()
    gate.set()
    assert ended.wait(20)
