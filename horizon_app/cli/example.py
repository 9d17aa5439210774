"""`horizon example DIR`: a starter model, a corpus and a run spec, all made here and offline."""

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from horizon_app.cli.refusals import CommandFailed, exit_codes

FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write into; made where it is missing.")]

SPEC = """\
# The starter run: a small Llama with random weights learns Python's own documentation.
# Paths are relative to this file. Every key that is left out has a default; `horizon run spec.yaml` trains it.
name: starter
tags: [example]
notes: A model of 11 million parameters whose arena on the device holds a small part of it.

model:
  path: model                 # a Hugging Face checkpoint folder
  init: pretrained            # read the (random) weights that lie there

data:
  path: corpus.txt            # plain text: every token is trained
  format: text
  sequence_length: 256        # tokens per sequence
  packing: true               # several pieces of text may share a sequence; none attends to another
  seed: 0

training:
  optimizer_steps: 150
  global_batch_size: 8        # sequences per optimizer step
  micro_batch_size: auto      # sequences per call
  learning_rate: 1.0e-3       # high: the model starts from nothing
  schedule: cosine
  warmup_steps: 10
  weight_decay: 0.01
  max_grad_norm: 1.0
  seed: 0

precision:
  compute: auto               # bf16 where the device multiplies it fast, else fp32

offload:
  device: auto                # the first CUDA device, else the CPU with a bounded arena
  param_block_size: 256KiB    # small blocks for a small model: about 85 of them in bf16, 170 in fp32
  prefetch_window: 3          # compute steps ahead for which blocks are brought in
  max_gpu_blocks: 12          # slots in the arena: 3 MiB, far less than the model
  policy: optimal             # which block leaves a full arena

checkpoint:
  every: 0                    # the model is written at the end only
  keep: 1
"""


def example(folder: FolderArgument) -> None:
    """Write a starter model with random weights, a corpus and spec.yaml into DIR.

    Needs no network. What lies in DIR already and was not written by this command is never overwritten.
    """
    from horizon_app.cli.example_model import model_files

    with exit_codes():
        corpus = _corpus()
        files = {f"model/{name}": content for name, content in model_files(corpus).items()}
        files["corpus.txt"] = corpus.encode()
        files["spec.yaml"] = SPEC.encode()  # last: where it lies, everything does
        _write(folder, files)
    typer.echo(f"wrote {folder}: model/ (11 million parameters), corpus.txt ({len(corpus) // 1024} KiB), spec.yaml")
    typer.echo(f"train it: horizon run {folder / 'spec.yaml'}")


def _corpus() -> str:
    """The standard library's documentation topics as plain text, without the marks that underline headings."""
    from pydoc_data.topics import topics

    cleaned = (_clean(topics[name]) for name in sorted(topics))
    return "\n\n\n".join(text for text in cleaned if text) + "\n"


def _clean(topic: str) -> str:
    lines = [line.rstrip() for line in topic.replace("\r\n", "\n").split("\n")]
    without_marks = [line for line in lines if not re.fullmatch(r"\s*([*=\-^~\"])\1{2,}", line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(without_marks)).strip()


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write what is missing; the same bytes stay. Raises CommandFailed before anything is written where others lie."""
    foreign = [name for name, content in files.items() if not _is_free(folder / name, content)]
    if foreign:
        raise CommandFailed(
            f"{folder} already holds {', '.join(foreign)} with other content, and nothing was written; "
            "take another folder, or delete them"
        )
    for name, content in files.items():
        path = folder / name
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f".{path.name}.{os.getpid()}")
        half.write_bytes(content)
        half.replace(path)


def _is_free(path: Path, content: bytes) -> bool:
    if not path.exists() and not path.is_symlink():
        return True
    return path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content
