import { expect, test } from "vitest";
import type { LogLine, TextFrame } from "../api/types";
import { lineOf, mergeLines } from "./log-lines";

const time = "2026-11-29T16:00:00Z";
const line = (fields: object) => lineOf({ time, seq: 7, ...fields } as TextFrame);

test.each([
  [{ type: "log", level: "warning", message: "3 skipped" }, "warning", "3 skipped"],
  [
    { type: "state", state: "running", reason: "training 60 optimizer steps" },
    "info",
    "running: training 60 optimizer steps",
  ],
  [{ type: "state", state: "failed", reason: "out of memory" }, "error", "failed: out of memory"],
  [{ type: "event", kind: "data", message: "12 rows", data: {} }, "info", "data: 12 rows"],
  [
    { type: "sample", step: 40, prompt: "Hello", text: "there", num_tokens: 3, ending: "stop" },
    "info",
    "sample at step 40: Hello → there",
  ],
  [
    { type: "checkpoint", step: 1200, path: "checkpoints/1200", bytes: 1024 },
    "info",
    "checkpoint of step 1,200, 1 KiB: checkpoints/1200",
  ],
  [
    { type: "check", title: "Loss runs away", old: "ok", new: "problem", evidence: "it rose", fix: "halve it" },
    "error",
    "Loss runs away: problem: it rose; halve it",
  ],
  [
    { type: "check", title: "Loss runs away", old: "problem", new: "ok", evidence: "the loss is 2", fix: "" },
    "info",
    "Loss runs away: ok: the loss is 2",
  ],
])("frame %j is a line", (frame, level, message) => expect(line(frame)).toEqual({ seq: 7, time, level, message }));

test("numbers and the outcome are no lines", () => {
  expect(line({ type: "metrics", step: 1, values: {} })).toBeNull();
  expect(line({ type: "event", kind: "outcome", message: "", data: {} })).toBeNull();
});

test("merged lines stand in the stream's order, each once", () => {
  const at = (...seqs: number[]) => seqs.map((seq): LogLine => ({ seq, time, level: "info", message: String(seq) }));
  expect(mergeLines(at(1, 4, 9), at(2, 4)).map(({ seq }) => seq)).toEqual([1, 2, 4, 9]);
});
