import { describe, expect, test } from "vitest";
import { blockAt, layOut, type StageRun, windowStages } from "./residency-layout";

function stagesOf(counts: number[]): StageRun[] {
  let firstBlock = 0;
  return counts.map((numBlocks) => {
    const stage = { firstBlock, numBlocks };
    firstBlock += numBlocks;
    return stage;
  });
}

const BOX = { left: 0, top: 20, width: 1180, height: 260, ratio: 1 };

describe.each([
  ["a small model", [0, 10, 10, 10, 8]],
  ["one block", [1]],
  ["forty layers of forty blocks", [32, ...Array(40).fill(40), 32]],
  ["an embedding larger than all layers", [600, ...Array(12).fill(9), 600]],
  ["eighty layers of a hundred blocks", [60, ...Array(80).fill(104), 60]],
])("layout of %s", (_, counts: number[]) => {
  const stages = stagesOf(counts);
  const layout = layOut(stages, BOX);
  const total = counts.reduce((sum, n) => sum + n, 0);

  test("keeps every cell inside the box", () => {
    const ends = (at: Float64Array, size: Float64Array) => at.map((value, i) => value + size[i]!);
    expect(layout.x).toHaveLength(total);
    expect([Math.min(...layout.x) >= 0, Math.min(...layout.y) >= BOX.top]).toEqual([true, true]);
    expect(Math.max(...ends(layout.x, layout.width))).toBeLessThanOrEqual(BOX.width + 1);
    expect(Math.max(...ends(layout.y, layout.height))).toBeLessThanOrEqual(BOX.top + BOX.height + 1);
    expect(Math.min(...layout.width, ...layout.height)).toBeGreaterThan(0);
  });

  test("has no empty row", () => {
    const lowest = Math.max(...layout.y.map((y, i) => y + layout.height[i]!));
    expect(layout.bottom - lowest).toBeLessThanOrEqual(3);
  });

  test("lies on whole pixels", () => {
    expect(
      layout.x.every(Number.isInteger) && layout.y.every(Number.isInteger) && layout.width.every(Number.isInteger),
    ).toBe(true);
  });

  test("finds each block at the middle of its own cell", () => {
    const found = Array.from({ length: total }, (_, i) =>
      blockAt(layout, stages, layout.x[i]! + layout.width[i]! / 2, layout.y[i]! + layout.height[i]! / 2),
    );
    expect(found).toEqual(Array.from({ length: total }, (_, i) => i));
  });

  test("puts layers from left to right", () => {
    const filled = stages.map((stage, s) => [stage.numBlocks, layout.stageX[s]!] as const).filter(([n]) => n > 0);
    for (let s = 1; s < filled.length; s++) expect(filled[s]![1]).toBeGreaterThan(filled[s - 1]![1]);
  });
});

test("a point beside all cells is no block", () => {
  const stages = stagesOf([4, 4]);
  expect(blockAt(layOut(stages, BOX), stages, 5000, 5000)).toBe(-1);
});

test.each([
  ["forward", 3, 0, 4, [4, 7]],
  ["forward near the end", 8, 0, 4, [9, 9]],
  ["forward at the last stage, from where it goes back", 9, 0, 3, [6, 8]],
  ["backward", 5, 1, 2, [3, 4]],
  ["backward near the beginning", 1, 1, 4, [0, 0]],
  ["backward at the first stage", 0, 1, 4, null],
  ["update", 5, 2, 4, null],
  ["without a window", 5, 0, 0, null],
])("window %s", (_, stage, direction, window, covered) => {
  expect(windowStages(stage, direction, window, 10)).toEqual(covered);
});
