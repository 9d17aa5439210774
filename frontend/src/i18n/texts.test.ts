import { expect, test } from "vitest";
import { en, type Key } from "./en";
import { zh } from "./zh";

const keys = Object.keys(en) as Key[];
const places = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();

test("both languages have the same texts with the same places for values", () => {
  expect(Object.keys(zh).sort()).toEqual([...keys].sort());
  for (const key of keys) expect([key, places(zh[key])]).toEqual([key, places(en[key])]);
});

test("no text is empty", () => {
  for (const key of keys) expect([key, en[key].trim() !== "" && zh[key].trim() !== ""]).toEqual([key, true]);
});
