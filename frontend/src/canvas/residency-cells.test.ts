import { expect, test } from "vitest";
import { type CellCounts, countCells, diskOf, gradOf, hostOf, packCell, weightOf } from "./residency-cells";

test("the four states of a block come back from its code", () => {
  for (let host = 0; host < 4; host++)
    for (let weight = 0; weight < 4; weight++)
      for (let grad = 0; grad < 3; grad++)
        for (let disk = 0; disk < 4; disk++) {
          const [code] = Uint8Array.of(packCell(host, weight, grad, disk)) as unknown as [number];
          expect([hostOf(code), weightOf(code), gradOf(code), diskOf(code)]).toEqual([host, weight, grad, disk]);
        }
});

test("cells are counted once by tier and again by what happens to them", () => {
  const codes = Uint8Array.from([
    packCell(2, 3, 0), // in use
    packCell(2, 2, 2), // on the device, gradient leaving
    packCell(2, 1, 0), // arriving
    packCell(3, 0, 0), // gradient not applied yet
    packCell(0, 0, 0, 2), // on disk only
  ]);
  const counts = countCells(codes, {} as CellCounts);
  expect(counts).toEqual({ device: 2, host: 2, absent: 1, arriving: 1, inUse: 1, gradient: 1, unapplied: 1, disk: 1 });
});
