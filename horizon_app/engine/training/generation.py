"""New tokens behind prompts, from token ids to token ids: layer by layer, with streamed weights and a KV cache.

Shape suffixes: S prompts, T tokens, V vocabulary.
"""

from collections.abc import Sequence

import torch
from transformers import (
    LogitsProcessorList,
    PretrainedConfig,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from horizon_app.engine.errors import BadBatch
from horizon_app.engine.model.staged import SeenTokens
from horizon_app.engine.training.forward import ForwardPass, Passage
from horizon_app.engine.training.requests import Continuation, Ending, OnTokens, Sampling
from horizon_app.engine.training.stages import Stages


def num_positions(config: PretrainedConfig) -> int | None:
    """How many tokens a model has places for; None where its config does not say."""
    found = getattr(config.get_text_config(), "max_position_embeddings", None)
    return found if isinstance(found, int) and found > 0 else None


class Generation:
    """Generates with the weights as they are."""

    def __init__(self, stages: Stages, forward: ForwardPass, *, positions: int | None) -> None:
        """`positions` is how many tokens the model has places for; None: any number."""
        self._stages, self._forward, self._positions = stages, forward, positions

    def run(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, on_tokens: OnTokens = lambda _: True
    ) -> list[Continuation]:
        """Continue every prompt. The answer to one does not depend on the others but for rounding.

        Raises BadBatch for a prompt that is empty or longer than the model's positions.
        """
        if not prompts:
            return []
        room = self._room(prompts)
        batch = _Batch(prompts, sampling, self._stages.model.device)
        with self._forward.opened():
            for _ in range(min(sampling.max_new_tokens, room)):
                (logits_SV,) = self._forward.run([batch.passage], lambda _, hidden: self._last_logits(batch, hidden))
                if not on_tokens(batch.take(logits_SV)):
                    return batch.continuations(Ending.CANCELLED)
                if batch.all_ended:
                    break
        return batch.continuations(Ending.LENGTH)

    def _room(self, prompts: Sequence[Sequence[int]]) -> int:
        longest = max(len(prompt) for prompt in prompts)
        if not all(prompts):
            raise BadBatch("a prompt has no tokens; write at least one word")
        if self._positions is None:
            return 1 << 62
        if longest >= self._positions:
            raise BadBatch(
                f"the prompt has {longest} tokens, but the model has {self._positions} positions; shorten it"
            )
        return self._positions - longest

    def _last_logits(self, batch: "_Batch", hidden_STH: torch.Tensor) -> torch.Tensor:
        model = self._stages.model
        last = model.epilogue(hidden_STH[:, -1:].contiguous(), batch.passage.position_ids[:, -1:])
        return model.logits(last[:, 0])


class _Batch:
    """Prompts of unlike lengths, padded on the left so that all continue at the same place."""

    def __init__(self, prompts: Sequence[Sequence[int]], sampling: Sampling, device: torch.device) -> None:
        self._sampling, self._warpers, self._device = sampling, _warpers(sampling), device
        width = max(len(prompt) for prompt in prompts)
        ids_ST = torch.zeros(len(prompts), width, dtype=torch.long)
        mask_ST = torch.zeros_like(ids_ST)
        for row, prompt in enumerate(prompts):
            ids_ST[row, width - len(prompt) :] = torch.tensor(prompt)
            mask_ST[row, width - len(prompt) :] = 1
        positions_ST = (mask_ST.cumsum(-1) - 1).clamp(min=0)
        self._seen = SeenTokens(attention_mask=mask_ST.to(device))
        self.passage = Passage(input_ids=ids_ST.to(device), position_ids=positions_ST.to(device), seen=self._seen)
        self._ids_ST = ids_ST  # all so far, for the warpers
        self._dice = [torch.Generator().manual_seed(sampling.seed) for _ in prompts]
        self._tokens: list[list[int]] = [[] for _ in prompts]
        self._stopped = [False for _ in prompts]

    @property
    def all_ended(self) -> bool:
        """Whether every prompt has met a stop id."""
        return all(self._stopped)

    def take(self, logits_SV: torch.Tensor) -> list[int | None]:
        """Choose each prompt's next token and make it the next passage. Answers the new ones."""
        chosen = self._choose(logits_SV.to("cpu", torch.float32))
        new: list[int | None] = []
        for row, token in enumerate(chosen):
            self._stopped[row] |= token in self._sampling.stop_ids
            new.append(None if self._stopped[row] else token)
            if not self._stopped[row]:
                self._tokens[row].append(token)
        column_S1 = torch.tensor(chosen).unsqueeze(1)
        self._ids_ST = torch.cat([self._ids_ST, column_S1], dim=1)
        mask_ST = self._seen.attention_mask
        self._seen.attention_mask = torch.cat([mask_ST, mask_ST.new_ones(len(chosen), 1)], dim=1)
        positions_S1 = self.passage.position_ids[:, -1:] + 1
        self.passage = Passage(input_ids=column_S1.to(self._device), position_ids=positions_S1, seen=self._seen)
        return new

    def continuations(self, ending: Ending) -> list[Continuation]:
        """What there is; `ending` is that of prompts that met no stop id."""
        pairs = zip(self._tokens, self._stopped, strict=True)
        return [Continuation(tokens=tuple(t), ending=Ending.STOP if stopped else ending) for t, stopped in pairs]

    def _choose(self, logits_SV: torch.Tensor) -> list[int]:
        if self._sampling.temperature == 0.0:
            return logits_SV.argmax(-1).tolist()
        p_SV = self._warpers(self._ids_ST, logits_SV).softmax(-1)  # type: ignore[arg-type]
        return [int(torch.multinomial(p, 1, generator=g)) for p, g in zip(p_SV, self._dice, strict=True)]


def _warpers(sampling: Sampling) -> LogitsProcessorList:
    """The library's own arithmetic for temperature, top-k and top-p, in the order of its generate()."""
    found = LogitsProcessorList()
    if sampling.temperature not in (0.0, 1.0):
        found.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k:
        found.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1.0:
        found.append(TopPLogitsWarper(sampling.top_p))
    return found
