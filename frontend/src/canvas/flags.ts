/** Marks at steps where something was changed: a dashed line down the chart, with its words at the upper edge. */
import type uPlot from "uplot";
import { color, font } from "./palette";

export interface Flag {
  step: number;
  /** Empty: the line alone. */
  text: string;
}

const PADDING = 5;
const HEIGHT = 15;

/** Draw the flags that are in sight; where words would cover those of a later flag, the later ones stay. */
export function drawFlags(plot: uPlot, flags: readonly Flag[]): void {
  const g = plot.ctx;
  const ratio = devicePixelRatio || 1;
  const { left, top, width, height } = plot.bbox;
  let free = Number.POSITIVE_INFINITY;
  for (const { step, text } of [...flags].sort((a, b) => b.step - a.step)) {
    const x = Math.round(plot.valToPos(step, "x", true));
    if (x < left || x > left + width) continue;
    g.strokeStyle = color("--ink-2");
    g.lineWidth = ratio;
    g.setLineDash([2 * ratio, 2 * ratio]);
    g.beginPath();
    g.moveTo(x, top);
    g.lineTo(x, top + height);
    g.stroke();
    g.setLineDash([]);
    g.font = font(10.5 * ratio);
    const wide = g.measureText(text).width + 2 * PADDING * ratio;
    if (text === "" || x > free || x - wide < left) {
      drawPennant(g, x, top, ratio);
      continue;
    }
    free = x - wide;
    g.fillStyle = color("--ink-2");
    g.fillRect(x - wide, top, wide, HEIGHT * ratio);
    g.fillStyle = color("--surface");
    g.textAlign = "left";
    g.textBaseline = "middle";
    g.fillText(text, x - wide + PADDING * ratio, top + (HEIGHT / 2) * ratio);
  }
}

function drawPennant(g: CanvasRenderingContext2D, x: number, top: number, ratio: number): void {
  g.fillStyle = color("--ink-2");
  g.beginPath();
  g.moveTo(x, top);
  g.lineTo(x + 7 * ratio, top + 3.5 * ratio);
  g.lineTo(x, top + 7 * ratio);
  g.fill();
}
