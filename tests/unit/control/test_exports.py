from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from horizon_app.contracts.export import ExportAsked
from horizon_app.contracts.spec_words import ChatTemplate
from horizon_app.control import exports
from horizon_app.control.errors import ExportBusy
from horizon_app.control.exports import export_model
from horizon_app.control.paths import PathRules
from horizon_app.control.run_models import SavedModel


def test_export_while_another_one_is_written_is_refused_and_works_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = Event(), Event()

    def write_slowly(*_: Any) -> str:
        begun.set()
        assert may_end.wait(30)
        return "written"

    monkeypatch.setattr(exports, "_run", write_slowly)
    model = SavedModel(run_dir=tmp_path, step=1, folder=tmp_path / "1", chat_template=ChatTemplate.TOKENIZER)
    rules = PathRules(base=tmp_path, roots=None)

    def export(name: str) -> Any:
        return export_model(model, ExportAsked(path=str(tmp_path / name)), rules)

    first = Thread(target=export, args=("a",))
    first.start()
    try:
        assert begun.wait(30)
        with pytest.raises(ExportBusy, match="another model is being written"):
            export("b")
    finally:
        may_end.set()
        first.join()
    assert export("b") == "written"
