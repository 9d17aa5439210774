/** What a run's log shows: the lines the worker wrote, and what else happened to the run, in one order. */
import type { LogLine, TextFrame } from "../api/types";
import { bytesText, group } from "../format/quantity";

const LEVEL_OF_STATE: Record<string, LogLine["level"]> = { failed: "error", interrupted: "warning" };
const LEVEL_OF_VERDICT: Record<string, LogLine["level"]> = { problem: "error", warning: "warning" };
// The final state, right behind it, says the same.
const SILENT_KINDS = new Set(["outcome"]);

/** The line of a frame; null for those that say nothing to read. */
export function lineOf(frame: TextFrame): LogLine | null {
  if (frame.type === "snapshot" || frame.type === "metrics") return null;
  const { seq, time = "" } = frame;
  switch (frame.type) {
    case "log":
      return { seq, time, level: frame.level ?? "info", message: frame.message };
    case "state":
      return {
        seq,
        time,
        level: LEVEL_OF_STATE[frame.state] ?? "info",
        message: frame.reason ? `${frame.state}: ${frame.reason}` : frame.state,
      };
    case "event":
      return SILENT_KINDS.has(frame.kind)
        ? null
        : { seq, time, level: "info", message: `${frame.kind}: ${frame.message}` };
    case "knobs":
      return { seq, time, level: frame.status === "refused" ? "warning" : "info", message: frame.message };
    case "check":
      return {
        seq,
        time,
        level: LEVEL_OF_VERDICT[frame.new] ?? "info",
        message: `${frame.title}: ${frame.new}: ${frame.evidence}${frame.fix ? `; ${frame.fix}` : ""}`,
      };
    case "sample":
      return {
        seq,
        time,
        level: "info",
        message: `sample at step ${group(frame.step)}: ${frame.prompt} → ${frame.text}`,
      };
    case "checkpoint":
      return {
        seq,
        time,
        level: "info",
        message: `checkpoint of step ${group(frame.step)}, ${bytesText(frame.bytes)}: ${frame.path}`,
      };
  }
}

/** Two lists of lines as one, by their place in the run's stream, each place once. */
export function mergeLines(one: readonly LogLine[], other: readonly LogLine[]): LogLine[] {
  const bySeq = new Map([...one, ...other].map((line) => [line.seq, line]));
  return [...bySeq.values()].sort((a, b) => a.seq - b.seq);
}
