/** The numbers of the run's header, from its picture and its curves. Pure. */
import type { RunDetail } from "../../api/types";
import { isEnded } from "../../stream/fold";
import { timeLeft } from "../../stream/smooth";

export interface Left {
  low: number;
  high: number;
}

/** Seconds left, as a range from the spread of recent step times; null where it can't be told. */
export function secondsLeft(run: RunDetail, recentStepTimes: Float64Array): Left | null {
  if (isEnded(run.state) || run.total_steps === null) return null;
  return timeLeft(recentStepTimes, run.total_steps - run.step);
}

/** The middle of recent step times. */
export function typicalStep(recent: Float64Array): number | null {
  const known = Array.from(recent)
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
  return known.length === 0 ? null : known[Math.floor(known.length / 2)]!;
}

/** A fact of the plan as a number; null where it is not one. */
export function planNumber(run: RunDetail, key: string): number | null {
  const value = run.plan?.[key];
  return typeof value === "number" ? value : null;
}
