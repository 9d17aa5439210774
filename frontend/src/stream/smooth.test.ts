import { expect, test } from "vitest";
import { ema, heldAt, timeLeft } from "./smooth";

test("ema of a constant is that constant from the first point on", () => {
  const out = ema(new Float64Array([2, 2, 2]), 0.9);
  for (const value of out) expect(value).toBeCloseTo(2, 12);
});

test("ema without weight is the raw curve", () => {
  expect(Array.from(ema(new Float64Array([3, 1, 4]), 0))).toEqual([3, 1, 4]);
});

test("ema is debiased as the definition says", () => {
  const out = ema(new Float64Array([1, 3]), 0.5);
  expect(out[0]).toBeCloseTo(1, 12);
  expect(out[1]).toBeCloseTo((0.5 * 0.5 * 1 + 0.5 * 3) / 0.75, 12);
});

test("ema at a gap is a gap and goes on behind it", () => {
  const out = ema(new Float64Array([2, Number.NaN, 2]), 0.6);
  expect(out[1]).toBeNaN();
  expect(out[2]).toBeCloseTo(2, 12);
});

test("held values are the newest at or before each step", () => {
  const out = heldAt(new Float64Array([1, 2, 3, 9]), new Float64Array([2, 3]), new Float64Array([20, 30]));
  expect(out[0]).toBeNaN();
  expect(Array.from(out.slice(1))).toEqual([20, 30, 30]);
});

test("time left is a range that holds the typical step", () => {
  const left = timeLeft(new Float64Array([1, 1.2, 0.8, 1, Number.NaN, 1.1]), 100)!;
  expect(left.low).toBeLessThanOrEqual(100);
  expect(left.high).toBeGreaterThanOrEqual(100);
  expect(left.low).toBeLessThan(left.high);
});

test("time left without step times or steps is unknown", () => {
  expect(timeLeft(new Float64Array([]), 10)).toBeNull();
  expect(timeLeft(new Float64Array([1]), 0)).toBeNull();
});
