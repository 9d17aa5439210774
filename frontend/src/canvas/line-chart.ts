/** A curve over optimizer steps: uPlot with this page's look, drag to zoom, double click to see all. */
import uPlot from "uplot";
import { drawFlags, type Flag } from "./flags";
import { color, font, onThemeChange } from "./palette";
import { cancelPaint, requestPaint } from "./redraw";

export interface CurveStyle {
  /** Colour token of the line; none draws no line (for stacked areas). */
  stroke?: string;
  alpha?: number;
  width?: number;
  dash?: number[];
  /** Colour token that fills down to the curve named by `fillTo`, or to the axis. */
  fill?: string;
  fillTo?: number;
}

export interface ChartOptions {
  curves: CurveStyle[];
  /** Lowest and highest y to show, from the data's. */
  range: (low: number, high: number) => [number, number];
  /** Index of the curve whose last point carries a label at the right edge, and its text. */
  label?: { curve: number; text: (value: number) => string };
  xAxis: boolean;
  group: string;
  onZoom?: (from: number, to: number) => void;
  onReset?: () => void;
  onHover?: (index: number | null) => void;
}

/** Distances of ticks: 1, 2 and 5 in every power of ten. */
const ROUND_STEPS = Array.from({ length: 42 }, (_, i) => Number(`${[1, 2, 5][i % 3]}e${Math.floor(i / 3) - 6}`));

type Column = (number | null)[];

export class LineChart {
  /** New points may wait for each other; what the reader does is drawn at once. */
  readonly intervalMs = 500;
  private readonly plot: uPlot;
  private readonly observer: ResizeObserver;
  private readonly unlisten: () => void;
  private data: [number[], ...Column[]];
  private gaps: readonly number[] = [];
  private zoom: [number, number] | null = null;
  private flags: readonly Flag[] = [];

  constructor(
    host: HTMLElement,
    private readonly options: ChartOptions,
  ) {
    this.data = [[], ...options.curves.map(() => [] as Column)];
    const box = host.getBoundingClientRect();
    this.plot = new uPlot(this.settings(Math.max(50, box.width), Math.max(40, box.height)), this.data, host);
    this.observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry!.contentRect;
      if (width > 0 && height > 0) this.plot.setSize({ width, height });
    });
    this.observer.observe(host);
    this.unlisten = onThemeChange(() => this.plot.redraw(false, true));
  }

  /** Columns to show: x, then one column a curve (NaN is a gap); steps at which a value was not finite. */
  show(x: Float64Array, columns: Float64Array[], gaps: readonly number[] = [], atOnce = false): void {
    this.data = [Array.from(x), ...columns.map(withNulls)];
    this.gaps = gaps;
    requestPaint(this, atOnce);
  }

  /** Keep to a range of steps; null for all. */
  setZoom(zoom: [number, number] | null): void {
    const changed = this.zoom?.[0] !== zoom?.[0] || this.zoom?.[1] !== zoom?.[1];
    this.zoom = zoom;
    requestPaint(this, changed);
  }

  /** Mark steps at which something was changed. */
  setFlags(flags: readonly Flag[]): void {
    if (flags.length === 0 && this.flags.length === 0) return;
    this.flags = flags;
    requestPaint(this, true);
  }

  paint(): void {
    this.plot.setData(this.data, false);
    const xs = this.data[0];
    const [min, max] = this.zoom ?? [xs[0] ?? 0, xs[xs.length - 1] ?? 1];
    this.plot.setScale("x", { min, max: max > min ? max : min + 1 });
  }

  destroy(): void {
    this.observer.disconnect();
    this.unlisten();
    cancelPaint(this);
    this.plot.destroy();
  }

  private settings(width: number, height: number): uPlot.Options {
    const { curves, label, xAxis, group } = this.options;
    return {
      width,
      height,
      padding: [6, label ? 48 : 16, xAxis ? 0 : 6, 0],
      legend: { show: false },
      cursor: {
        // The crosshair is shared, a drag is not: one zoom, one question to the server.
        sync: {
          key: group,
          setSeries: false,
          filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
        },
        drag: { x: this.options.onZoom !== undefined, y: false, setScale: false },
        points: { show: false },
        bind: { dblclick: () => () => this.reset() },
      },
      scales: { x: { time: false }, y: { range: (_, low, high) => this.range(low, high) } },
      axes: [this.xAxis(xAxis), this.yAxis()],
      series: [{}, ...curves.map((curve) => this.series(curve))],
      bands: curves.flatMap((curve, i) => this.band(curve, i)),
      hooks: {
        setSelect: [(plot) => this.selected(plot)],
        setCursor: [(plot) => this.options.onHover?.(plot.cursor.idx ?? null)],
        draw: [(plot) => this.decorate(plot)],
      },
    };
  }

  private xAxis(shown: boolean): uPlot.Axis {
    return {
      show: shown,
      size: 20,
      gap: 2,
      space: 70,
      font: font(10.5),
      stroke: () => color("--ink-3"),
      grid: { show: false },
      ticks: { show: false },
      incrs: ROUND_STEPS.filter((step) => step >= 1),
      values: (_, values) => values.map((value) => value.toLocaleString("en-US")),
    };
  }

  private yAxis(): uPlot.Axis {
    return {
      size: 38,
      gap: 7,
      space: 32,
      incrs: ROUND_STEPS,
      font: font(10.5),
      stroke: () => color("--ink-3"),
      grid: { stroke: () => color("--grid"), width: 1 },
      ticks: { show: false },
      values: (_, values) => tickTexts(values),
    };
  }

  private series(curve: CurveStyle): uPlot.Series {
    const { stroke, alpha = 1, width = 1, dash, fill, fillTo } = curve;
    return {
      width: stroke ? width : 0,
      alpha,
      points: { show: (plot) => plot.data[0].length < 2, size: 4 },
      ...(stroke ? { stroke: () => color(stroke) } : {}),
      ...(dash ? { dash } : {}),
      ...(fill && fillTo === undefined
        ? { fill: () => color(fill), fillTo: (plot: uPlot) => plot.scales.y?.min ?? 0 }
        : {}),
    };
  }

  private band(curve: CurveStyle, index: number): uPlot.Band[] {
    const { fill, fillTo } = curve;
    if (!fill || fillTo === undefined) return [];
    return [{ series: [index + 1, fillTo + 1], fill: () => color(fill) }];
  }

  private range(low: number | null, high: number | null): [number, number] {
    if (low == null || high == null) return [0, 1];
    return this.options.range(low, high);
  }

  private selected(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 4) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.options.onZoom?.(Math.floor(from), Math.ceil(to));
  }

  private reset(): null {
    this.options.onReset?.();
    return null;
  }

  /** The newest value at the right edge, and a mark at the upper edge where a value was not finite. */
  private decorate(plot: uPlot): void {
    const g = plot.ctx;
    const ratio = devicePixelRatio || 1;
    const { left, top, width } = plot.bbox;
    g.save();
    g.fillStyle = color("--bad");
    for (const step of this.gaps) {
      const x = plot.valToPos(step, "x", true);
      if (x < left || x > left + width) continue;
      g.beginPath();
      g.moveTo(x - 4 * ratio, top);
      g.lineTo(x + 4 * ratio, top);
      g.lineTo(x, top + 6 * ratio);
      g.fill();
    }
    drawFlags(plot, this.flags);
    this.decorateEnd(plot, g, ratio);
    g.restore();
  }

  private decorateEnd(plot: uPlot, g: CanvasRenderingContext2D, ratio: number): void {
    const { label, curves } = this.options;
    if (!label) return;
    const column = this.data[label.curve + 1] as Column;
    let last = column.length - 1;
    while (last >= 0 && column[last] == null) last -= 1;
    const value = column[last];
    const step = this.data[0][last];
    if (value == null || step === undefined || (this.zoom && step > this.zoom[1])) return;
    const [x, y] = [plot.valToPos(step, "x", true), plot.valToPos(value, "y", true)];
    g.fillStyle = color(curves[label.curve]!.stroke ?? "--ink");
    g.beginPath();
    g.arc(x, y, 3.2 * ratio, 0, 7);
    g.fill();
    g.font = font(11.5 * ratio, 600);
    g.fillStyle = color("--ink");
    g.textAlign = "left";
    g.textBaseline = "middle";
    g.fillText(label.text(value), plot.bbox.left + plot.bbox.width + 8 * ratio, y);
  }
}

/** Ticks with as many decimals as tell them apart, all with the same number. */
function tickTexts(values: number[]): string[] {
  const apart = Math.abs((values[1] ?? 1) - (values[0] ?? 0)) || 1;
  const decimals = Math.min(6, Math.max(0, Math.ceil(-Math.log10(apart) - 1e-9)));
  const options = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  if (apart >= 1000) return values.map((value) => `${(value / 1000).toLocaleString("en-US")} K`);
  return values.map((value) => value.toLocaleString("en-US", options));
}

function withNulls(column: Float64Array): Column {
  const out: Column = new Array(column.length);
  for (let i = 0; i < column.length; i++) out[i] = Number.isFinite(column[i]!) ? column[i]! : null;
  return out;
}
