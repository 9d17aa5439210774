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

/** Draw the flags that are in sight; words stand left of their line where they cover no other flag, the latest first. */
export function drawFlags(plot: uPlot, flags: readonly Flag[]): void {
  const { left, width } = plot.bbox;
  const seen = flags
    .map(({ step, text }) => ({ x: Math.round(plot.valToPos(step, "x", true)), text }))
    .filter(({ x }) => x >= left && x <= left + width)
    .sort((a, b) => b.x - a.x);
  for (const { x } of seen) drawLine(plot, x);
  seen.forEach(({ x, text }, i) => {
    drawWords(plot, x, text, seen[i + 1]?.x ?? left);
  });
}

function drawLine(plot: uPlot, x: number): void {
  const g = plot.ctx;
  const ratio = devicePixelRatio || 1;
  g.strokeStyle = color("--ink-2");
  g.lineWidth = ratio;
  g.setLineDash([2 * ratio, 2 * ratio]);
  g.beginPath();
  g.moveTo(x, plot.bbox.top);
  g.lineTo(x, plot.bbox.top + plot.bbox.height);
  g.stroke();
  g.setLineDash([]);
}

/** The words of a flag, or a pennant where there is no room for them down to `before`. */
function drawWords(plot: uPlot, x: number, text: string, before: number): void {
  const g = plot.ctx;
  const ratio = devicePixelRatio || 1;
  const { top } = plot.bbox;
  g.font = font(10.5 * ratio);
  g.fillStyle = color("--ink-2");
  const wide = g.measureText(text).width + 2 * PADDING * ratio;
  if (text === "" || x - wide < before) {
    g.beginPath();
    g.moveTo(x, top);
    g.lineTo(x + 7 * ratio, top + 3.5 * ratio);
    g.lineTo(x, top + 7 * ratio);
    g.fill();
    return;
  }
  g.fillRect(x - wide, top, wide, HEIGHT * ratio);
  g.fillStyle = color("--surface");
  g.textAlign = "left";
  g.textBaseline = "middle";
  g.fillText(text, x - wide + PADDING * ratio, top + (HEIGHT / 2) * ratio);
}
