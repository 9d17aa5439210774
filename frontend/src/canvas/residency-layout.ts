/** Where each block's cell lies on the map: layers from left to right, blocks of a layer filled row by row. Pure. */

export interface StageRun {
  firstBlock: number;
  numBlocks: number;
}

export interface CellLayout {
  /** Cells in a column. */
  rows: number;
  /** Left edge and width of each stage's band, without the gap behind it. */
  stageX: Float64Array;
  stageWidth: Float64Array;
  /** Rectangle of each block's cell, on whole pixels of the screen so that a cell can be drawn anew without traces. */
  x: Float64Array;
  y: Float64Array;
  width: Float64Array;
  height: Float64Array;
  /** Lower edge of the lowest row. */
  bottom: number;
}

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
  /** Pixels of the screen in one of the layout. */
  ratio: number;
}

const LARGEST_CELL = 58;

/** The number of rows that makes cells nearest to squares while all stages fit side by side. */
export function chooseRows(counts: readonly number[], width: number, height: number): number {
  const most = Math.max(1, ...counts);
  let best = 1;
  let bestCost = Number.POSITIVE_INFINITY;
  for (let rows = 1; rows <= most; rows++) {
    let columns = 0;
    for (const n of counts) columns += Math.ceil(n / rows);
    const cellWidth = width / Math.max(1, columns);
    const cellHeight = Math.min(LARGEST_CELL, height / rows);
    const filled = counts.reduce((sum, n) => sum + n, 0) / (columns * rows);
    const tooSmall = cellWidth < 2 ? 4 : 0;
    const cost = Math.abs(Math.log(cellWidth / cellHeight)) + 1.2 * (1 - filled) + tooSmall;
    if (cost < bestCost) [best, bestCost] = [rows, cost];
  }
  // No row below the lowest that the tallest stage fills.
  return Math.max(1, ...counts.map((n) => (n === 0 ? 0 : Math.ceil(n / Math.ceil(n / best)))));
}

/** The height that cells of a good size take at a width; what is above it would stay empty. */
export function heightFor(stages: readonly StageRun[], width: number, most: number): number {
  return Math.min(
    most,
    chooseRows(
      stages.map(({ numBlocks }) => numBlocks),
      width,
      most,
    ) * LARGEST_CELL,
  );
}

/** The layout of all cells inside a box. */
export function layOut(stages: readonly StageRun[], box: Box): CellLayout {
  const counts = stages.map(({ numBlocks }) => numBlocks);
  const total = counts.reduce((sum, n) => sum + n, 0);
  const rows = chooseRows(counts, box.width, box.height);
  const columnsOf = counts.map((n) => Math.ceil(n / rows));
  const columns = Math.max(
    1,
    columnsOf.reduce((sum, n) => sum + n, 0),
  );
  const filled = columnsOf.filter((n) => n > 0).length;
  const rough = box.width / columns;
  const stageGap = rough > 24 ? 6 : rough > 9 ? 3 : rough > 4 ? 2 : rough > 2.5 ? 1 : 0;
  const column = (box.width - stageGap * Math.max(0, filled - 1)) / columns;
  const height = Math.min(LARGEST_CELL, box.height / rows);
  const snap = (value: number) => Math.round(value * box.ratio) / box.ratio;
  const gapX = rough > 2.5 ? Math.max(1 / box.ratio, snap(rough > 24 ? 2 : rough > 4 ? 1 : 0.5)) : 0;
  const gapY = height > 2.5 ? Math.max(1 / box.ratio, snap(height > 24 ? 2 : height > 4 ? 1 : 0.5)) : 0;
  const out: CellLayout = {
    rows,
    stageX: new Float64Array(stages.length),
    stageWidth: new Float64Array(stages.length),
    x: new Float64Array(total),
    y: new Float64Array(total),
    width: new Float64Array(total),
    height: new Float64Array(total),
    bottom: box.top + rows * height,
  };
  let x = box.left;
  stages.forEach((stage, s) => {
    const across = columnsOf[s]!;
    out.stageX[s] = snap(x);
    out.stageWidth[s] = Math.max(0, snap(across * column) - gapX);
    for (let i = 0; i < stage.numBlocks; i++) {
      const [left, top] = [x + (i % across) * column, box.top + Math.floor(i / across) * height];
      const block = stage.firstBlock + i;
      out.x[block] = snap(left);
      out.y[block] = snap(top);
      out.width[block] = Math.max(1 / box.ratio, snap(left + column) - snap(left) - gapX);
      out.height[block] = Math.max(1 / box.ratio, snap(top + height) - snap(top) - gapY);
    }
    // A stage without blocks (a lookup on the host) takes no room.
    if (across > 0) x += across * column + stageGap;
  });
  return out;
}

/** The block whose cell is at or next to a point; -1 outside of every stage. */
export function blockAt(layout: CellLayout, stages: readonly StageRun[], x: number, y: number): number {
  for (let s = 0; s < stages.length; s++) {
    const left = layout.stageX[s]!;
    if (x < left - 1 || x > left + layout.stageWidth[s]! + 2) continue;
    const { firstBlock, numBlocks } = stages[s]!;
    for (let i = firstBlock; i < firstBlock + numBlocks; i++) {
      const [cx, cy] = [layout.x[i]!, layout.y[i]!];
      if (x >= cx - 0.5 && x <= cx + layout.width[i]! + 2 && y >= cy - 0.5 && y <= cy + layout.height[i]! + 2) return i;
    }
  }
  return -1;
}

/** Which stages the prefetch window covers: first and last, both included; null where it is off. */
export function windowStages(
  stage: number,
  direction: number,
  window: number,
  numStages: number,
): [number, number] | null {
  if (window <= 0 || numStages < 2 || direction === 2) return null;
  if (direction === 0 && stage < numStages - 1) return [stage + 1, Math.min(numStages - 1, stage + window)];
  if (direction === 0) return [Math.max(0, stage - window), stage - 1]; // the last stage: from here on backward
  return stage > 0 ? [Math.max(0, stage - window), stage - 1] : null;
}
