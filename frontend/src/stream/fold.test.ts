import { expect, test } from "vitest";
import type { RunDetail, TextFrame } from "../api/types";
import { fold } from "./fold";

const run: RunDetail = {
  id: "20261129-150638-ecb4c8",
  name: "starter",
  tags: [],
  notes: "",
  state: "running",
  reason: "",
  created_at: "2026-11-29T15:06:38Z",
  started_at: null,
  ended_at: null,
  device: "cpu",
  model: { name: "m", architecture: null, parameters: null },
  step: 0,
  total_steps: null,
  metrics: {},
  sparkline: [],
  last_seq: 5,
  cause: null,
  exit_status: null,
  resumable: false,
  knobs_version: 0,
  knobs: { prefetch_window: 3 } as RunDetail["knobs"],
  spec: {},
  plan: null,
  layout_ready: false,
  outcome: null,
  checkpoints: [],
};
const time = "2026-11-29T15:07:00Z";
const frame = (fields: object) => ({ time, ...fields }) as TextFrame;
const metrics = (seq: number, step: number, values: Record<string, number | null>) =>
  frame({ type: "metrics", seq, step, values, nonfinite: {} });

test("metrics move the step and the newest values", () => {
  const after = fold(run, metrics(6, 1, { "train/loss": 2 }));
  expect([after.step, after.metrics["train/loss"], after.last_seq]).toEqual([1, 2, 6]);
});

test("a frame seen before changes nothing", () => {
  const once = fold(run, metrics(6, 1, { "train/loss": 2 }));
  expect(fold(once, metrics(6, 1, { "train/loss": 9 }))).toBe(once);
  expect(fold(once, metrics(3, 0, { "train/loss": 9 }))).toBe(once);
});

test("the same frames twice, as after a reconnection, give the same run", () => {
  const frames = [metrics(6, 1, { a: 1 }), frame({ type: "log", seq: 7, message: "x" }), metrics(8, 2, { a: null })];
  const once = frames.reduce(fold, run);
  expect([...frames, ...frames].reduce(fold, run)).toEqual(once);
});

test("an end has its reason and its moment", () => {
  const after = fold(run, frame({ type: "state", seq: 6, state: "failed", reason: "out of memory" }));
  expect([after.state, after.reason, after.ended_at]).toEqual(["failed", "out of memory", time]);
});

test("a run that is resumed stands at the step of its checkpoint, and has not ended", () => {
  const ended = { ...run, state: "interrupted" as const, step: 9, ended_at: time };
  const queued = fold(ended, frame({ type: "state", seq: 6, state: "queued", reason: "" }));
  expect([queued.state, queued.ended_at]).toEqual(["queued", null]);
  const resumed = fold(queued, frame({ type: "event", seq: 7, kind: "resumed", message: "", data: { step: 6 } }));
  expect(resumed.step).toBe(6);
});

test("running heard after a stop was asked does not undo the stopping", () => {
  const stopping = { ...run, state: "stopping" as const };
  const after = fold(stopping, frame({ type: "state", seq: 6, state: "running", reason: "" }));
  expect([after.state, after.last_seq]).toEqual(["stopping", 6]);
});

test("facts fill in the plan, the layout and the outcome", () => {
  const planned = fold(
    run,
    frame({ type: "event", seq: 6, kind: "plan", message: "", data: { total_steps: 40, blocks: 9 } }),
  );
  expect([planned.total_steps, planned.plan?.blocks]).toEqual([40, 9]);
  expect(fold(run, frame({ type: "event", seq: 6, kind: "layout", message: "", data: {} })).layout_ready).toBe(true);
  const ended = fold(run, frame({ type: "event", seq: 6, kind: "outcome", message: "", data: { state: "finished" } }));
  expect(ended.outcome?.state).toBe("finished");
});

test("checkpoints come, are written again, and are rotated away", () => {
  const written = (seq: number, step: number, bytes: number) =>
    frame({ type: "checkpoint", seq, step, path: `checkpoints/${step}`, bytes });
  const two = [written(6, 10, 1), written(7, 20, 2), written(8, 10, 3)].reduce(fold, run);
  expect(two.checkpoints.map(({ step, bytes }) => [step, bytes])).toEqual([
    [20, 2],
    [10, 3],
  ]);
  const one = fold(two, frame({ type: "event", seq: 9, kind: "checkpoint_removed", message: "", data: { step: 20 } }));
  expect(one.checkpoints.map(({ step }) => step)).toEqual([10]);
});

test("a knob that holds is in force, one that was refused is not; both count as changes", () => {
  const changed = (seq: number, number: number, value: number, status: string) =>
    frame({ type: "knobs", seq, number, knob: "prefetch_window", old: 3, new: value, step: 4, status, message: "" });
  const after = [changed(6, 1, 5, "holds"), changed(7, 2, 9, "refused")].reduce(fold, run);
  expect([after.knobs.prefetch_window, after.knobs_version]).toEqual([5, 2]);
});

test("a snapshot replaces the run's fields and keeps what only the detail has", () => {
  const { spec: _, plan: __, layout_ready: ___, outcome: ____, checkpoints: _____, ...item } = run;
  const detailed = { ...run, plan: { blocks: 3 } };
  const after = fold(detailed, frame({ type: "snapshot", seq: 40, run: { ...item, step: 12, last_seq: 40 } }));
  expect([after.step, after.last_seq, after.plan?.blocks]).toEqual([12, 40, 3]);
});
