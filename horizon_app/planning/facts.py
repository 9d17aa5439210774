"""What planning knows of a model and a machine: plain numbers, gathered elsewhere."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts:
    """A model folder, as far as its config and the headers of its weight files tell."""

    model_type: str | None
    architecture: str | None
    layers: int | None
    dtype: str | None
    parameters: int | None
    """Elements of all weights; estimated from the config where there are no weight files."""
    weight_bytes: int
    has_weights: bool
    has_tokenizer: bool
    largest_token_id: int | None
    """The largest that the tokenizer gives."""
    embedding_rows: int | None
    widest_row: tuple[str, int] | None
    """The matrix with the longest row, and that row's elements."""
    recurrent_layers: str
    """Kinds of layers that carry state from one packed sample into the next; empty where there are none."""
    obstacle: str
    """Why it can't be trained at all; empty where it can."""
    weights_obstacle: str
    """Why its weights can't be read; empty where they can."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineFacts:
    """What a run may count on."""

    host_bytes: int
    """Memory of the machine, or the limit of the container."""
    cuda_devices: int
    disk_free_bytes: int
    """Free on the volume of the disk tier's folder."""

    def device(self, asked: str) -> str:
        """The device that `offload.device` means here: cpu or cuda:N."""
        if asked == "auto":
            return "cuda:0" if self.cuda_devices else "cpu"
        return "cuda:0" if asked == "cuda" else asked
