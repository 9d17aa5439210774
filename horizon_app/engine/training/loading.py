"""From a config to a model whose weights lie in the host tier: how training and inference begin alike."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from transformers import PretrainedConfig

from horizon_app.contracts.run_spec import Init
from horizon_app.engine.errors import BuildStopped
from horizon_app.engine.memory.disk_io import OS_DISK, SECTOR, DiskSystem
from horizon_app.engine.memory.disk_tier import DiskTier
from horizon_app.engine.memory.geometry import Parameter, Partition
from horizon_app.engine.model.discovery import Discovered, build_meta, discover, load_config, stage_parameters
from horizon_app.engine.model.random_init import initialise
from horizon_app.engine.model.weights import WeightPlan, Write, plan_weights, read_weights
from horizon_app.engine.streaming.backends.choose import make_backend
from horizon_app.engine.streaming.backends.protocol import Backend
from horizon_app.engine.streaming.partition import partition
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.host_tier import HostFactory, HostLayout
from horizon_app.engine.training.sizes import Sizes, decide_sizes


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelPlan:
    """What is known of a model before memory is taken for it."""

    config: EngineConfig
    hf_config: PretrainedConfig
    found: Discovered
    weights: WeightPlan | None  # None: they are drawn at random
    partition: Partition
    layout: HostLayout
    sizes: Sizes


def plan_model(config: EngineConfig, *, trains: bool) -> ModelPlan:
    """Find the stages and the weights of `config.model_dir`, cut them into blocks, decide the sizes.

    What is not to be trained has weights alone, and never random ones. Raises EngineError.
    """
    hf_config = load_config(config.model_dir)
    found = discover(build_meta(hf_config))
    stages = stage_parameters(found)
    names = [parameter.name for _, stage in stages for parameter in stage]
    is_random = trains and config.init is Init.RANDOM
    weights = None if is_random else plan_weights(config.model_dir, found, names)
    blocks = partition(stages, block_bytes=config.block_bytes, element_bytes=config.compute_dtype.itemsize)
    layout = HostLayout(
        blocks, config.compute_dtype, config.optimizer_state if trains else None, averages=config.gradient_ema > 0
    )
    sizes = decide_sizes(config, blocks, layout, hf_config.get_text_config())
    return ModelPlan(
        config=config, hf_config=hf_config, found=found, weights=weights, partition=blocks, layout=layout, sizes=sizes
    )  # fmt: skip


class LoadedModel:
    """A model's weights in the host tier, and the backend that copies them to the device."""

    def __init__(
        self, plan: ModelPlan, *, backend: Backend | None = None, disk_system: DiskSystem = OS_DISK,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        """Take the memory and load the weights. Raises EngineError; what was taken until then is given back.

        `should_stop` is asked between two pieces of the weights: BuildStopped once it says so.
        """
        config = plan.config
        with contextlib.ExitStack() as undo:
            self.backend = backend or make_backend(config.device)
            undo.callback(self.backend.close)
            self.disk = DiskTier(config.disk_dir, limit_bytes=config.disk_limit_bytes, system=disk_system)
            undo.callback(self.disk.close)
            self.host = HostFactory(
                self.disk, policy=config.policy, pinned=self.backend.pins_host_memory,
                reads_straight=self.backend.shares_host_memory and config.block_bytes % SECTOR == 0,
            )  # fmt: skip
            self.pool = self.host.new_pool(plan.partition, plan.layout, plan.sizes.placement)
            undo.callback(self.pool.close)
            by_name, write = plan.partition.by_name, _heeding(self.pool.write, should_stop)
            if plan.weights is None:
                initialise(plan.found, by_name, write, config.seed)
            else:
                read_weights(plan.weights, by_name, write)
            undo.pop_all()

    def close(self, once_still: Callable[[], None] = lambda: None) -> None:
        """Stop the copies, call `once_still`, give memory and files back."""
        self.backend.close()
        once_still()
        self.pool.close()
        self.disk.close()


def _heeding(write: Write, should_stop: Callable[[], bool]) -> Write:
    def heed(parameter: Parameter, values: torch.Tensor, start: int = 0) -> None:
        if should_stop():
            raise BuildStopped("asked to stop while the weights were read")
        write(parameter, values, start)

    return heed
