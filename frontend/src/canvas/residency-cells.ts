/** What a cell of the map looks like: tiers by colour and luminance, movement by shape. */
import { color } from "./palette";

/** State of one block packed into a byte: host, device weight, device gradient, disk, two bits each. */
export type CellCode = number;

export const packCell = (host: number, weight: number, grad: number, disk = 0): CellCode =>
  host | (weight << 2) | (grad << 4) | (disk << 6);
export const hostOf = (code: CellCode): number => code & 3;
export const weightOf = (code: CellCode): number => (code >> 2) & 3;
export const gradOf = (code: CellCode): number => (code >> 4) & 3;
export const diskOf = (code: CellCode): number => (code >> 6) & 3;

export interface CellCounts {
  device: number;
  host: number;
  absent: number;
  arriving: number;
  inUse: number;
  gradient: number;
  unapplied: number;
  disk: number;
}

/** How many cells show what; each block counts once among the tiers, and again for what happens to it. */
export function countCells(codes: Uint8Array, into: CellCounts): CellCounts {
  Object.assign(into, { device: 0, host: 0, absent: 0, arriving: 0, inUse: 0, gradient: 0, unapplied: 0, disk: 0 });
  for (const code of codes) {
    const [host, weight, grad] = [hostOf(code), weightOf(code), gradOf(code)];
    if (weight >= 2) into.device += 1;
    else if (host >= 2) into.host += 1;
    else into.absent += 1;
    if (weight === 1 || host === 1) into.arriving += 1;
    if (weight === 3) into.inUse += 1;
    if (grad > 0) into.gradient += 1;
    if (host === 3) into.unapplied += 1;
    if (diskOf(code) > 0) into.disk += 1;
  }
  return into;
}

type Context = CanvasRenderingContext2D;

/** Draw one cell. */
export function drawCell(g: Context, x: number, y: number, w: number, h: number, code: CellCode): void {
  const [host, weight, grad] = [hostOf(code), weightOf(code), gradOf(code)];
  const small = Math.min(w, h);
  g.fillStyle = color(weight >= 2 || grad > 0 ? "--tier-device" : host >= 2 ? "--tier-host" : "--tier-disk");
  g.fillRect(x, y, w, h);
  if (weight < 2 && grad === 0 && (weight === 1 || host === 1)) {
    risingDiagonal(g, x, y, w, h, weight === 1 ? "--tier-device" : "--tier-host");
  }
  if (grad > 0) {
    const edge = small > 12 ? 3 : small > 5 ? 2 : 1;
    g.fillStyle = color(weight >= 2 ? "--surface" : "--tier-host");
    g.fillRect(x + edge, y + edge, Math.max(0, w - 2 * edge), Math.max(0, h - 2 * edge));
  }
  if (weight === 3) {
    const dot = small > 12 ? 4 : small > 5 ? 2 : 1;
    g.fillStyle = color("--ink");
    g.fillRect(x + (w - dot) / 2, y + (h - dot) / 2, dot, dot);
  }
  if (host === 3) {
    const notch = small > 12 ? 5 : small > 6 ? 3 : Math.min(2, small);
    g.fillStyle = color("--ink");
    g.fillRect(x + w - notch, y, notch, notch);
  }
  if (diskOf(code) % 2 === 1) diskBar(g, x, y, w, h);
}

/** Something of the block is on its way from disk or to it: a bar along the bottom. */
function diskBar(g: Context, x: number, y: number, w: number, h: number): void {
  const bar = h > 12 ? 3 : h > 5 ? 2 : 1;
  g.fillStyle = color("--tier-disk-text");
  g.fillRect(x, y + h - bar, w, bar);
}

function risingDiagonal(g: Context, x: number, y: number, w: number, h: number, token: string): void {
  g.fillStyle = color(token);
  g.beginPath();
  g.moveTo(x, y + h);
  g.lineTo(x + w, y + h);
  g.lineTo(x + w, y);
  g.fill();
}
