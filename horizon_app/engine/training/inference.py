"""A model of which nothing is trained: weights alone, streamed through the same arena as in training."""

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence

from horizon_app.contracts.run_spec import Recompute
from horizon_app.data.batches import Batch
from horizon_app.engine.streaming.access import WeightAccess
from horizon_app.engine.streaming.backends.protocol import Backend
from horizon_app.engine.training.assemble import Hooks, assemble_device
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.evaluation import Evaluator
from horizon_app.engine.training.forward import ForwardPass
from horizon_app.engine.training.generation import Generation, num_positions
from horizon_app.engine.training.loading import LoadedModel, plan_model
from horizon_app.engine.training.requests import Continuation, Evaluation, OnTokens, Sampling

QUIET = Hooks(on_slot_release=None, on_access=lambda: None)


class InferenceEngine:
    """Holds one model's weights in the compute dtype: a fraction of what training takes. Not thread-safe."""

    def __init__(self, config: EngineConfig, *, backend: Backend | None = None, hooks: Hooks = QUIET) -> None:
        """Load the weights of `config.model_dir`; its optimizer and accumulation play no part. Raises EngineError."""
        # One sequence at a time, of which nothing is kept: what the sizes of activations are reckoned from.
        config = dataclasses.replace(
            config, global_batch=1, micro_batch=1, recompute=Recompute.ALWAYS, host_inputs=False
        )
        plan = plan_model(config, trains=False)
        self.sizes = plan.sizes
        with contextlib.ExitStack() as undo:
            self._loaded = LoadedModel(plan, backend=backend)
            undo.callback(self._loaded.close)
            device = assemble_device(plan, self._loaded, hooks)
            undo.pop_all()
        self._stages = device.stages(plan.partition, self._loaded.pool, WeightAccess(device.streamer))
        self._forward = ForwardPass(self._stages)
        self._generation = Generation(self._stages, self._forward, positions=num_positions(plan.hf_config))
        self.arena = device.arena

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, on_tokens: OnTokens = lambda _: True
    ) -> list[Continuation]:
        """New tokens behind each prompt. Raises BadBatch."""
        return self._generation.run(prompts, sampling, on_tokens)

    def evaluate(self, batches: Iterable[Batch], micro_batch: int) -> Evaluation:
        """The loss on `batches`, `micro_batch` sequences in a call. Raises BadBatch."""
        return Evaluator(self._stages, self._forward, self.sizes.chunk_tokens).run(batches, micro_batch)

    def close(self) -> None:
        """Stop threads and give memory back."""
        self._loaded.close()
