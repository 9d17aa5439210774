import { describe, expect, test } from "vitest";
import { bytes, bytesText, count, learningRate, loss, percent, plain, rate } from "./quantity";

describe("bytes", () => {
  test.each([
    [0, "0", "B"],
    [1023, "1,023", "B"],
    [1024, "1.0", "KiB"],
    [1_048_575, "1.0", "MiB"],
    [16 * 1024 ** 2, "16.0", "MiB"],
    [125.6 * 1024 ** 3, "126", "GiB"],
    [1.75 * 1024 ** 4, "1.8", "TiB"],
  ])("%d reads as %s %s", (size, value, unit) => expect(bytes(size)).toEqual({ value, unit }));

  test("whole sizes as text lose their point", () => expect(bytesText(16 * 1024 ** 2)).toBe("16 MiB"));
  test("nothing known is a dash", () => expect(bytes(null).value).toBe("–"));
});

test.each([
  [812, "812", ""],
  [999.4, "999", ""],
  [999_600, "1.0", "M"],
  [10_900_800, "10.9", "M"],
  [13.7e9, "13.7", "B"],
])("count %d reads as %s %s", (value, shown, unit) => expect(count(value)).toEqual({ value: shown, unit }));

test.each([
  [2e-5, "2.0e-5"],
  [1.25e-4, "1.25e-4"],
  [0.001, "1.0e-3"],
  [0.3, "0.3"],
  [1, "1"],
  [0, "0"],
])("learning rate %d reads as %s", (value, shown) => expect(learningRate(value)).toBe(shown));

test.each([
  [0.974, "97.4"],
  [1, "100"],
  [0.99999, "99.9"],
  [0, "0.0"],
])("share %d reads as %s per cent", (value, shown) => expect(percent(value)).toBe(shown));

test("losses have three decimals, rates three digits, and what is not finite is a dash", () => {
  expect([loss(1.48249), loss(2511.2), loss(Number.NaN), loss(null)]).toEqual(["1.482", "2,511", "–", "–"]);
  expect([rate(12_300), rate(881.4), rate(63.31), rate(0.5)]).toEqual(["12,300", "881", "63.3", "0.50"]);
  expect([plain(0.83456), plain(1e-6), plain(12_345.6), plain(0)]).toEqual(["0.8346", "1.0e-6", "12,346", "0"]);
});
