"""The real data and the real engine heed a stop between rows and between tensors, and leave nothing behind."""

from collections.abc import Callable
from pathlib import Path

import pytest

from horizon_app.contracts.data_spec import DataSpec
from horizon_app.data.dataset import load_dataset
from horizon_app.data.errors import DataStopped
from horizon_app.engine.errors import BuildStopped
from horizon_app.engine.telemetry.sink import NullSink
from horizon_app.engine.training.engine import Engine
from tests.support.engines import engine_config
from tests.support.small_model import write_small_model
from tests.support.tiny_models import write_checkpoint


def after(calls: int) -> Callable[[], bool]:
    """Says stop from the call after so many on."""
    left = [calls]

    def should_stop() -> bool:
        left[0] -= 1
        return left[0] < 0

    return should_stop


def test_data_that_is_stopped_while_it_is_tokenised_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    model = write_small_model(tmp_path / "model")
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"text": "row {number}"}}\n' for number in range(2000)))
    spec = DataSpec(path=str(rows), sequence_length=16)
    cache = tmp_path / "cache"
    with pytest.raises(DataStopped):
        load_dataset(spec, paths=[rows], tokenizer_dir=model, cache_dir=cache, should_stop=after(700))
    assert list(cache.iterdir()) == []
    assert load_dataset(spec, paths=[rows], tokenizer_dir=model, cache_dir=cache).num_samples == 2000


@pytest.mark.parametrize("init", ["pretrained", "random"])
def test_engine_that_is_stopped_while_it_reads_weights_gives_everything_back(init: str, tmp_path: Path) -> None:
    folder = write_checkpoint("qwen3", tmp_path / "model")
    config = engine_config(folder, disk_dir=tmp_path / "disk", model={"path": "unused", "init": init})
    with pytest.raises(BuildStopped):
        Engine(config, NullSink(), should_stop=after(3))
    Engine(config, NullSink()).close()


def test_engine_that_is_stopped_while_it_reads_moments_says_so(tmp_path: Path) -> None:
    folder, saved = write_checkpoint("qwen3", tmp_path / "model"), tmp_path / "saved"
    config = engine_config(folder, disk_dir=tmp_path / "disk")
    engine = Engine(config, NullSink())
    saved.mkdir()
    snapshot = engine.snapshot()
    snapshot.write(saved)
    snapshot.release()
    engine.close()
    stops = [False]
    engine = Engine(config, NullSink(), should_stop=lambda: stops[0])
    stops[0] = True
    with pytest.raises(BuildStopped, match="exp_avg"):
        engine.restore(saved)
    engine.close()
