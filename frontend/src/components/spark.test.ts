import { expect, test } from "vitest";
import { slotOf, sparkPath } from "./spark";

test("sparkline of nothing draws nothing", () => {
  expect(sparkPath([], 76, 20, 32)).toEqual({ d: "", last: null });
  expect(sparkPath([null, null], 76, 20, 32).last).toBeNull();
});

test("sparkline lifts its pen at a gap and stays inside its box", () => {
  const { d, last } = sparkPath([3, 2, null, 1, 1], 76, 20, 5);
  expect(d.match(/M/g)).toHaveLength(2);
  expect(last![0]).toBeLessThanOrEqual(76);
  expect(last![1]).toBeLessThanOrEqual(20);
});

test("a run has the same slot each time, between 1 and 6", () => {
  for (const id of ["a", "20261129-150638-ecb4c8", "b"]) {
    expect(slotOf(id)).toBe(slotOf(id));
    expect(slotOf(id)).toBeGreaterThanOrEqual(1);
    expect(slotOf(id)).toBeLessThanOrEqual(6);
  }
});
