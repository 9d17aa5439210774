import { expect, test } from "vitest";
import { pauseBefore } from "./socket";

test("pauses between attempts grow and stay below a bound", () => {
  const pauses = [0, 1, 2, 3, 4, 5, 6, 20].map((attempt) => pauseBefore(attempt, 0.5));
  expect(pauses.slice(0, 4)).toEqual([400, 800, 1600, 3200]);
  expect(pauses.at(-1)).toBe(8000);
  expect(pauseBefore(20, 1)).toBeLessThanOrEqual(10_000);
  expect(pauseBefore(0, 0)).toBeGreaterThan(200);
});
