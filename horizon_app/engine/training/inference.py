"""A model of which nothing is trained: weights alone, streamed through the same arena as in training."""

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence

from horizon_app.contracts.run_spec import Recompute
from horizon_app.data.batches import Batch
from horizon_app.engine.memory.disk_tier import DiskTier
from horizon_app.engine.model.discovery import build_meta, discover, load_config, stage_parameters
from horizon_app.engine.model.weights import plan_weights, read_weights
from horizon_app.engine.streaming.access import WeightAccess
from horizon_app.engine.streaming.backends.choose import make_backend
from horizon_app.engine.streaming.backends.protocol import Backend
from horizon_app.engine.streaming.partition import partition
from horizon_app.engine.training.assemble import Hooks, assemble_device
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.evaluation import Evaluator
from horizon_app.engine.training.forward import ForwardPass
from horizon_app.engine.training.generation import Generation, num_positions
from horizon_app.engine.training.host_tier import HostFactory, HostLayout
from horizon_app.engine.training.requests import Continuation, Evaluation, OnTokens, Sampling
from horizon_app.engine.training.sizes import decide_sizes

QUIET = Hooks(on_slot_release=None, on_access=lambda: None)


class InferenceEngine:
    """Holds one model's weights in the compute dtype: a fraction of what training takes. Not thread-safe."""

    def __init__(self, config: EngineConfig, *, backend: Backend | None = None, hooks: Hooks = QUIET) -> None:
        """Load the weights of `config.model_dir`; its optimizer and accumulation play no part. Raises EngineError."""
        # One sequence at a time, of which nothing is kept: what the sizes of activations are reckoned from.
        config = dataclasses.replace(
            config, global_batch=1, micro_batch=1, recompute=Recompute.ALWAYS, host_inputs=False
        )
        hf_config = load_config(config.model_dir)
        found = discover(build_meta(hf_config))
        stages = stage_parameters(found)
        weights = plan_weights(config.model_dir, found, [parameter.name for _, stage in stages for parameter in stage])
        blocks = partition(stages, block_bytes=config.block_bytes, element_bytes=config.compute_dtype.itemsize)
        layout = HostLayout(blocks, config.compute_dtype, None)
        self.sizes = decide_sizes(config, blocks, layout, hf_config.get_text_config())
        with contextlib.ExitStack() as undo:
            self._backend = backend or make_backend(config.device)
            undo.callback(self._backend.close)
            self._disk = DiskTier(config.disk_dir, limit_bytes=config.disk_limit_bytes)
            undo.callback(self._disk.close)
            host = HostFactory(self._disk, policy=config.policy, pinned=self._backend.pins_host_memory)
            self._pool = host.new_pool(blocks, layout, self.sizes.placement)
            undo.callback(self._pool.close)
            read_weights(weights, blocks.by_name, self._pool.write)
            device = assemble_device(config, self.sizes, found, blocks, self._pool, self._backend, hooks)
            undo.pop_all()
        self._stages = device.stages(blocks, self._pool, WeightAccess(device.streamer))
        self._forward = ForwardPass(self._stages)
        self._generation = Generation(self._stages, self._forward, positions=num_positions(hf_config))
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
        self._backend.close()
        self._pool.close()
        self._disk.close()
