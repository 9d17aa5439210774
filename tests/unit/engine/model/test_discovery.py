"""Models whose stages can't be found, or that are no causal language models, are refused with the reason."""

import pytest
from transformers import BertConfig, ElectraConfig, MambaConfig, PreTrainedConfig, Qwen3NextConfig, XLMConfig

from horizon_app.engine.errors import UnsupportedModel
from horizon_app.engine.model.discovery import build_meta, discover
from horizon_app.engine.training.rehearsal import rehearse
from tests.support.families import FAMILIES
from tests.support.tiny_models import VOCABULARY


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (BertConfig(num_hidden_layers=1, vocab_size=VOCABULARY), "decoder.bias shares its memory"),
        (XLMConfig(n_layers=1, vocab_size=VOCABULARY), "tokens see those behind them"),
        (ElectraConfig(num_hidden_layers=1, vocab_size=VOCABULARY), "tokens see those behind them"),
    ],
    ids=["bert", "xlm", "electra"],
)
def test_discovery_refuses_what_is_no_causal_model_by_name(config: PreTrainedConfig, words: str) -> None:
    with pytest.raises(UnsupportedModel, match=words):
        rehearse(discover(build_meta(config)))


def test_discovery_tells_where_packed_samples_would_leak() -> None:
    assert discover(build_meta(FAMILIES["mistral (sliding window)"])).recurrent == ""
    hybrid = FAMILIES["qwen3_next (hybrid layers)"]
    assert isinstance(hybrid, Qwen3NextConfig)
    assert "linear_attention" in discover(build_meta(hybrid)).recurrent
    mamba = MambaConfig(hidden_size=32, num_hidden_layers=1, vocab_size=VOCABULARY, state_size=4)
    assert "not told where samples begin" in discover(build_meta(mamba)).recurrent
