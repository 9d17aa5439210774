/** What the summary beside the form says: plain arithmetic on the draft. */
import type { ModelEntry } from "../../api/types";
import { parseSize } from "../../format/size";
import type { Draft } from "../../state/draft.svelte";
import type { SpecField } from "../../state/spec-schema";

/** A value of the spec, the schema's default where the draft has none. */
export function effective(draft: Draft, path: string): unknown {
  return draft.value(path) ?? draft.fields.find((field: SpecField) => field.path === path)?.default ?? null;
}

function whole(draft: Draft, path: string): number | null {
  const value = effective(draft, path);
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** Tokens that one optimizer step sees. */
export function tokensPerStep(draft: Draft): number | null {
  const [batch, length] = [whole(draft, "training.global_batch_size"), whole(draft, "data.sequence_length")];
  return batch !== null && length !== null ? batch * length : null;
}

/** Optimizer steps asked for; null where epochs decide. */
export function totalSteps(draft: Draft): number | null {
  const steps = whole(draft, "training.optimizer_steps");
  if (steps !== null) return steps;
  return draft.value("training.epochs") === undefined ? 200 : null;
}

/** Bytes of a block; null where the worker decides. */
export function blockBytes(draft: Draft): number | null {
  const value = effective(draft, "offload.param_block_size");
  if (typeof value === "number") return value;
  return typeof value === "string" ? parseSize(value) : null;
}

export interface Fit {
  /** Bytes of all weights in the compute format. */
  weights: number;
  blocks: number | null;
  blockBytes: number | null;
  slots: number | null;
  arenaBytes: number | null;
  /** Share of the weights that the arena holds; null where the worker decides. */
  share: number | null;
}

/** How the model's weights stand to the arena. An estimate: the worker cuts blocks at the edges of layers. */
export function fitOf(draft: Draft, model: ModelEntry | null): Fit | null {
  if (model?.parameters == null) return null;
  const weights = model.parameters * (effective(draft, "precision.compute") === "fp32" ? 4 : 2);
  const block = blockBytes(draft);
  const slots = whole(draft, "offload.max_gpu_blocks");
  const arenaBytes = slots !== null && block !== null ? slots * block : null;
  return {
    weights,
    blockBytes: block,
    blocks: block === null ? null : Math.max(1, Math.ceil(weights / block)),
    slots,
    arenaBytes,
    share: arenaBytes === null ? null : Math.min(1, arenaBytes / weights),
  };
}
