import { expect, test } from "vitest";
import type { KnobChange } from "../api/types";
import { flagsOf, undoableOf } from "./live-knobs.svelte";

const change = (number: number, more: Partial<KnobChange> = {}): KnobChange => ({
  number,
  time: "2026-01-01T00:00:00Z",
  who: "browser",
  knob: "prefetch_window",
  old: 3,
  new: 5,
  status: "holds",
  step: 10 * number,
  message: "",
  undoes: null,
  ...more,
});

test("the newest change that holds and was not taken back is the one to take back", () => {
  expect(undoableOf([])).toBeNull();
  expect(undoableOf([change(1), change(2)])).toBe(2);
  expect(undoableOf([change(1), change(2), change(3, { undoes: 2 })])).toBe(1);
  expect(undoableOf([change(1), change(2, { undoes: 1 })])).toBeNull();
  expect(undoableOf([change(1), change(2, { undoes: 1, status: "refused" })])).toBe(1);
  expect(undoableOf([change(1), change(2, { status: "asked", step: null })])).toBe(1);
});

test("curves are marked where a knob took another value, not where it was refused or stayed", () => {
  const changes = [
    change(1),
    change(2, { status: "refused" }),
    change(3, { old: 5 }),
    change(4, { status: "asked", step: null }),
  ];
  expect(flagsOf(changes)).toEqual([{ step: 10, knob: "prefetch_window", old: 3, value: 5 }]);
});
