import { expect, test } from "vitest";
import { parseSize, writeSize } from "./size";

test.each([
  ["16MiB", 16 * 1024 ** 2],
  [" 1.5 GiB ", 1.5 * 1024 ** 3],
  ["4096", 4096],
  ["256kib", 256 * 1024],
  ["16 MB", null],
  ["", null],
  ["0", null],
  ["auto", null],
])("size %j is %j", (text, size) => expect(parseSize(text)).toBe(size));

test("sizes written and read again are the same", () => {
  for (const size of [1, 4096, 3 * 1024 ** 2, 5 * 1024 ** 3, 1025]) expect(parseSize(writeSize(size))).toBe(size);
});
