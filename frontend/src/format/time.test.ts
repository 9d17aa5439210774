import { expect, test } from "vitest";
import { clock, duration, durationRange, moment, shortDuration } from "./time";

test.each([
  [0.42, "0.42 s"],
  [0.998, "1.0 s"],
  [9.94, "9.9 s"],
  [9.97, "10 s"],
  [59.6, "1 min 00 s"],
  [125, "2 min 05 s"],
  [3599.7, "1 h 00 min"],
  [54_720, "15 h 12 min"],
  [86_340, "23 h 59 min"],
  [200_000, "2 d 8 h"],
])("%d seconds read as %s", (seconds, shown) => expect(duration(seconds)).toBe(shown));

test.each([
  [41.2, "41 s"],
  [125, "2 min 05 s"],
  [1500, "25 min"],
  [31_200, "8 h 40"],
])("%d seconds in a column read as %s", (seconds, shown) => expect(shortDuration(seconds)).toBe(shown));

test("no duration is a dash", () => {
  expect([duration(null), duration(-1), shortDuration(undefined)]).toEqual(["–", "–", "–"]);
});

test("a range whose ends read the same is one duration", () => {
  expect(durationRange(31_200, 33_000)).toEqual(["8 h 40", "9 h 10"]);
  expect(durationRange(1500, 1501)).toEqual(["25 min", null]);
});

test("moments get longer the longer ago they are", () => {
  const now = new Date(2026, 10, 29, 16, 0, 0);
  expect(moment(new Date(2026, 10, 29, 7, 4), now, "en-GB")).toBe("07:04");
  expect(moment(new Date(2026, 10, 28, 7, 4), now, "en-GB")).toBe("28 Nov, 07:04");
  expect(moment(new Date(2025, 0, 2, 7, 4), now, "en-GB")).toBe("2 Jan 2025");
  expect(clock(new Date(2026, 0, 1, 9, 5, 7), true)).toBe("09:05:07");
});
