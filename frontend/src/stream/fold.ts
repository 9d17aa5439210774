/** What a run's text frames do to the picture of the run: pure, so that the same frames always give the same picture. */
import type { RunDetail, TextFrame } from "../api/types";

const ENDED = new Set(["finished", "stopped", "failed", "interrupted"]);
const LIVE = new Set(["starting", "running", "paused", "stopping"]);

export const isEnded = (state: string): boolean => ENDED.has(state);
export const isLive = (state: string): boolean => LIVE.has(state);

/** The run after a frame. One that was already folded in (by its seq) changes nothing: the same object comes back. */
export function fold(run: RunDetail, frame: TextFrame): RunDetail {
  if (frame.type === "snapshot") return { ...run, ...frame.run };
  if (frame.seq <= run.last_seq) return run;
  const next: RunDetail = { ...run, last_seq: frame.seq };
  switch (frame.type) {
    case "state":
      return foldState(next, frame.state, frame.reason ?? "", frame.time ?? null);
    case "metrics":
      next.step = frame.step;
      next.metrics = { ...run.metrics, ...frame.values };
      return next;
    case "event":
      return foldFact(next, frame.kind, frame.data ?? {});
    case "checkpoint":
      next.checkpoints = [
        ...run.checkpoints.filter(({ step }) => step !== frame.step),
        { step: frame.step, path: frame.path, bytes: frame.bytes },
      ];
      return next;
    case "knobs":
      next.knobs_version = Math.max(run.knobs_version, frame.number);
      if (frame.status === "holds") next.knobs = { ...run.knobs, [frame.knob]: frame.new };
      return next;
    case "log":
    case "check":
    case "sample":
      return next;
  }
}

function foldState(run: RunDetail, state: RunDetail["state"], reason: string, time: string | null): RunDetail {
  if (run.state === "stopping" && state === "running") return run; // said before the worker heard of the stop
  const startedNow = state === "running" && run.started_at === null;
  return {
    ...run,
    state,
    reason,
    started_at: startedNow ? time : run.started_at,
    ended_at: isEnded(state) ? time : state === "queued" ? null : run.ended_at,
  };
}

function foldFact(run: RunDetail, kind: string, data: Record<string, unknown>): RunDetail {
  if (kind === "layout") return { ...run, layout_ready: true };
  if (kind === "plan") {
    const total = data.total_steps;
    return { ...run, plan: data, total_steps: typeof total === "number" ? total : run.total_steps };
  }
  if (kind === "outcome") return { ...run, outcome: data as RunDetail["outcome"] };
  if (kind === "resumed" && typeof data.step === "number") return { ...run, step: data.step, outcome: null };
  if (kind === "checkpoint_removed") {
    return { ...run, checkpoints: run.checkpoints.filter(({ step }) => step !== data.step) };
  }
  return run;
}
