/** The residency map: two canvases, one for bracket and labels, one for cells of which only changed ones are drawn. */
import { color, font, onThemeChange, tint } from "./palette";
import { cancelPaint, requestPaint } from "./redraw";
import { drawCell } from "./residency-cells";
import { blockAt, type CellLayout, layOut, type StageRun, windowStages } from "./residency-layout";

export interface MapStage extends StageRun {
  label: string;
}

/** Labels in the reader's language. */
export interface MapWords {
  now: (stage: string, direction: number) => string;
  window: (steps: number) => string;
}

export interface MapMoment {
  stage: number;
  direction: number;
  window: number;
}

const TOP = 20;
const BOTTOM = 16;

/** Height of what lies above and below the cells. */
export const MAP_MARGINS = TOP + BOTTOM;

const EMPTY = 255;

export class ResidencyMap {
  private readonly under = document.createElement("canvas");
  private readonly over = document.createElement("canvas");
  private readonly observer: ResizeObserver;
  private readonly unlisten: () => void;
  private codes: Uint8Array<ArrayBufferLike> = new Uint8Array(0);
  private drawn = new Uint8Array(0);
  private stages: MapStage[] = [];
  private layout: CellLayout | null = null;
  private moment: MapMoment | null = null;
  private marked = -1;
  private outlined = -1;
  private width = 0;
  private height = 0;

  constructor(
    private readonly host: HTMLElement,
    private words: MapWords,
  ) {
    for (const canvas of [this.under, this.over]) canvas.setAttribute("aria-hidden", "true");
    host.append(this.under, this.over);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(host);
    this.unlisten = onThemeChange(() => this.redrawAll());
  }

  /** The blocks of the run: what positions of a frame mean. */
  setStages(stages: MapStage[]): void {
    this.stages = stages;
    const total = stages.reduce((sum, stage) => sum + stage.numBlocks, 0);
    this.codes = new Uint8Array(total);
    this.resize();
  }

  setWords(words: MapWords): void {
    this.words = words;
    requestPaint(this);
  }

  /** A moment to show: states of all blocks as packed by `packCell`, and what the step works on. */
  show(codes: Uint8Array, moment: MapMoment): void {
    this.codes = codes;
    this.moment = moment;
    requestPaint(this);
  }

  /** Outline a block; -1 for none. */
  mark(block: number): void {
    this.marked = block;
    requestPaint(this);
  }

  /** The block at a point of the host element; -1 for none. */
  blockAt(x: number, y: number): number {
    return this.layout ? blockAt(this.layout, this.stages, x, y) : -1;
  }

  /** The block one cell to the side of another, across layers; the same one at the edge. */
  neighbour(block: number, dx: number, dy: number): number {
    const layout = this.layout;
    if (!layout) return block;
    const x = layout.x[block]! + layout.width[block]! / 2 + dx * (layout.width[block]! + 4);
    const y = layout.y[block]! + layout.height[block]! / 2 + dy * (layout.height[block]! + 2);
    const found = this.blockAt(x, y);
    if (found >= 0) return found;
    return dx === 0 ? block : Math.max(0, Math.min(this.codes.length - 1, block + dx));
  }

  destroy(): void {
    this.observer.disconnect();
    this.unlisten();
    cancelPaint(this);
    this.under.remove();
    this.over.remove();
  }

  paint(): void {
    if (!this.layout || this.width === 0) return;
    this.paintUnder(this.layout);
    this.paintCells(this.layout);
  }

  private resize(): void {
    const box = this.host.getBoundingClientRect();
    this.width = box.width;
    this.height = box.height;
    if (box.width === 0 || this.stages.length === 0) return;
    const ratio = devicePixelRatio || 1;
    for (const canvas of [this.under, this.over]) {
      canvas.width = Math.round(box.width * ratio);
      canvas.height = Math.round(box.height * ratio);
      canvas.getContext("2d")!.setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.layout = layOut(this.stages, {
      left: 0,
      top: TOP,
      width: box.width,
      height: box.height - TOP - BOTTOM,
      ratio,
    });
    this.redrawAll();
    this.paint(); // a canvas of another size is blank: not even one frame of that
  }

  private redrawAll(): void {
    this.drawn = new Uint8Array(this.codes.length).fill(EMPTY);
    this.over.getContext("2d")!.clearRect(0, 0, this.width, this.height);
    requestPaint(this);
  }

  private paintCells(layout: CellLayout): void {
    const g = this.over.getContext("2d")!;
    if (this.outlined !== this.marked) {
      for (const block of [this.outlined, this.marked]) this.forgetAround(block, layout);
      this.outlined = this.marked;
    }
    for (let i = 0; i < this.codes.length; i++) {
      const code = this.codes[i]!;
      if (code === this.drawn[i] && i !== this.marked) continue;
      const [x, y, w, h] = [layout.x[i]!, layout.y[i]!, layout.width[i]!, layout.height[i]!];
      g.clearRect(x, y, w, h);
      drawCell(g, x, y, w, h, code);
      this.drawn[i] = code;
    }
    if (this.marked >= 0 && this.marked < this.codes.length) {
      g.strokeStyle = color("--ink");
      g.lineWidth = 1.5;
      const i = this.marked;
      g.strokeRect(layout.x[i]! - 0.75, layout.y[i]! - 0.75, layout.width[i]! + 1.5, layout.height[i]! + 1.5);
    }
  }

  /** Clear a cell with the outline around it, and have it and its neighbours drawn again. */
  private forgetAround(block: number, layout: CellLayout): void {
    if (block < 0 || block >= this.codes.length) return;
    const [x, y, w, h] = [layout.x[block]!, layout.y[block]!, layout.width[block]!, layout.height[block]!];
    this.over.getContext("2d")!.clearRect(x - 2, y - 2, w + 4, h + 4);
    for (let i = 0; i < this.codes.length; i++) {
      const near = Math.abs(layout.x[i]! - x) < w + 5 && Math.abs(layout.y[i]! - y) < h + 5;
      if (near) this.drawn[i] = EMPTY;
    }
  }

  private paintUnder(layout: CellLayout): void {
    const g = this.under.getContext("2d")!;
    g.clearRect(0, 0, this.width, this.height);
    if (this.moment) this.paintMoment(g, layout, this.moment);
    this.paintStageLabels(g, layout);
  }

  private paintMoment(g: CanvasRenderingContext2D, layout: CellLayout, moment: MapMoment): void {
    const stage = Math.min(moment.stage, this.stages.length - 1);
    const [left, width] = [layout.stageX[stage]!, layout.stageWidth[stage]!];
    const depth = layout.bottom - TOP + 4;
    const covered = windowStages(stage, moment.direction, moment.window, this.stages.length);
    g.fillStyle = tint("--ink", 0.13);
    g.fillRect(left - 2, TOP - 3, width + 4, depth);
    let [from, to] = [left, left + width];
    if (covered) {
      const [first, last] = covered;
      const a = Math.max(0, layout.stageX[first]! - 1);
      const b = Math.min(this.width, layout.stageX[last]! + layout.stageWidth[last]! + 1);
      g.fillStyle = tint("--ink", 0.06);
      g.fillRect(a, TOP - 3, b - a, depth);
      this.bracket(g, a, b);
      from = Math.min(from, a);
      to = Math.max(to, b);
    }
    const middle = left + width / 2;
    g.fillStyle = color("--ink");
    g.beginPath();
    g.moveTo(middle - 5, TOP - 10);
    g.lineTo(middle + 5, TOP - 10);
    g.lineTo(middle, TOP - 4);
    g.fill();
    this.momentLabels(g, { middle, from, to, stage, moment, covered: covered !== null });
  }

  private bracket(g: CanvasRenderingContext2D, a: number, b: number): void {
    g.strokeStyle = color("--ink");
    g.lineWidth = 1.2;
    g.beginPath();
    g.moveTo(a + 0.5, TOP - 3);
    g.lineTo(a + 0.5, TOP - 8.5);
    g.lineTo(b - 0.5, TOP - 8.5);
    g.lineTo(b - 0.5, TOP - 3);
    g.stroke();
  }

  /** "L17 forward" on the far side of the marker, "window 3" beyond the bracket; where there is no room, on the other side. */
  private momentLabels(
    g: CanvasRenderingContext2D,
    at: { middle: number; from: number; to: number; stage: number; moment: MapMoment; covered: boolean },
  ): void {
    const now = this.words.now(this.stages[at.stage]!.label, at.moment.direction);
    const ahead = at.covered ? this.words.window(at.moment.window) : "";
    const rightward = at.to - at.middle > at.middle - at.from;
    g.textBaseline = "middle";
    g.font = font(11, 600);
    const nowWidth = g.measureText(now).width;
    g.font = font(11);
    const aheadWidth = ahead ? g.measureText(ahead).width : 0;
    const y = TOP - 11;
    // Each label has a side of its own: "now" behind the marker, the window's beyond the bracket.
    let nowX = rightward ? at.middle - 9 - nowWidth : at.middle + 9;
    let aheadX = rightward ? at.to + 6 : at.from - 6 - aheadWidth;
    if (nowX < 0) {
      nowX = at.to + 6;
      aheadX = nowX + nowWidth + 10;
    } else if (nowX + nowWidth > this.width) {
      nowX = at.from - 6 - nowWidth;
      aheadX = nowX - aheadWidth - 10;
    }
    if (aheadX < 0) aheadX = rightward ? -1 : nowX + nowWidth + 10;
    if (aheadX + aheadWidth > this.width) aheadX = nowX - aheadWidth - 10;
    g.textAlign = "left";
    g.fillStyle = color("--ink");
    g.font = font(11, 600);
    g.fillText(now, nowX, y);
    const apart = aheadX + aheadWidth < nowX || aheadX > nowX + nowWidth;
    if (!ahead || aheadX < 0 || aheadX + aheadWidth > this.width || !apart) return;
    g.font = font(11);
    g.fillStyle = color("--ink-2");
    g.fillText(ahead, aheadX, y);
  }

  /** Names of stages below the cells, as many as fit without touching. */
  private paintStageLabels(g: CanvasRenderingContext2D, layout: CellLayout): void {
    g.font = font(10.5);
    g.fillStyle = color("--ink-3");
    g.textBaseline = "middle";
    const y = Math.min(this.height - 6, layout.bottom + 10);
    const last = this.stages.findLastIndex(({ numBlocks }) => numBlocks > 0);
    const first = this.stages.findIndex(({ numBlocks }) => numBlocks > 0);
    if (first < 0) return;
    const lastWidth = g.measureText(this.stages[last]?.label ?? "").width;
    const span = layout.stageX[last]! + layout.stageWidth[last]!;
    const every = stride(span / Math.max(1, this.stages.length), g.measureText("L888").width + 8);
    let free = -Infinity;
    for (let s = first; s <= last; s++) {
      const label = this.stages[s]!.label;
      const width = g.measureText(label).width;
      const middle = layout.stageX[s]! + layout.stageWidth[s]! / 2;
      const edge = s === first || s === last;
      const left = s === first ? layout.stageX[s]! : s === last ? span - width : middle - width / 2;
      const picked = edge || layerNumber(label) % every === 0;
      const clear = left > free && (s === last || left + width < span - lastWidth - 8);
      if (!picked || !clear) continue;
      g.textAlign = "left";
      g.fillText(label, left, y);
      free = left + width + 6;
    }
  }
}

function layerNumber(label: string): number {
  const found = /\d+$/.exec(label);
  return found ? Number(found[0]) : 0;
}

/** Label every n-th layer, n a round number. */
function stride(stageWidth: number, labelWidth: number): number {
  for (const every of [1, 2, 5, 10, 20, 50, 100]) if (stageWidth * every >= labelWidth) return every;
  return 200;
}
