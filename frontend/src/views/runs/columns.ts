/** The columns of the history, and what each row says in them. */
import type { Run } from "../../api/types";
import type { Key } from "../../i18n/language.svelte";

export interface Column {
  key: Key;
  /** The server's sort key, where the column can be sorted by. */
  sort?: string;
  numeric?: boolean;
  descendingFirst?: boolean;
  className: string;
}

export const COLUMNS: Column[] = [
  { key: "runs.col.name", sort: "name", className: "name" },
  { key: "runs.col.state", sort: "state", className: "state" },
  { key: "runs.col.started", sort: "created_at", descendingFirst: true, className: "started" },
  { key: "runs.col.duration", numeric: true, className: "took" },
  { key: "runs.col.steps", sort: "step", numeric: true, descendingFirst: true, className: "steps" },
  { key: "runs.col.loss", sort: "loss", numeric: true, className: "loss" },
  { key: "runs.col.rate", numeric: true, className: "rate" },
  { key: "runs.col.model", sort: "model", className: "model" },
  { key: "runs.col.tags", className: "tags" },
];

/** Seconds that the run has taken, up to now where it goes on; null before its start. */
export function secondsOf(run: Run, now: number): number | null {
  if (run.started_at === null) return null;
  const end = run.ended_at === null ? now : Date.parse(run.ended_at);
  return Math.max(0, (end - Date.parse(run.started_at)) / 1000);
}

/** Whether the newest loss was not a finite number. */
export function lossBroke(run: Run): boolean {
  return "train/loss" in run.metrics && run.metrics["train/loss"] === null;
}
