"""What is wrong with a model's generation_config.json: told when a run starts, and never in the way."""

import logging
from pathlib import Path

NAME = "generation_config.json"


def generation_config_faults(model_dir: Path) -> list[str]:
    """A sentence for each fault; none where the file is in order, or not there."""
    if not (model_dir / NAME).is_file():
        return []
    from transformers import GenerationConfig  # seconds of import time

    logger = logging.getLogger("transformers.generation.configuration_utils")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it would say the same, and shorter
    try:
        GenerationConfig.from_pretrained(model_dir, local_files_only=True).validate(strict=True)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        lines = [line.strip().removeprefix("- ") for line in str(error).splitlines() if line.strip()]
        told = lines[1:] if len(lines) > 1 and lines[0].startswith("GenerationConfig is invalid") else lines[:1]
        return [
            f"{NAME}: {line}; it is kept as it is in checkpoints and exports, and may keep others from using them"
            for line in told
        ]
    finally:
        logger.setLevel(level)
    return []
