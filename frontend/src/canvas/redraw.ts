/** The one drawing loop of the page: draws what asked for it, at most ten times a second each, and nothing while hidden. */

export const MIN_INTERVAL_MS = 100;

export interface Painter {
  paint: () => void;
  /** Least time between two drawings, where it is longer than for all. */
  intervalMs?: number;
}

const waiting = new Set<Painter>();
const lastPaint = new WeakMap<Painter, number>();
let timer: ReturnType<typeof setTimeout> | null = null;
let frame: number | null = null;

/** Draw this painter soon, at once where the reader waits for it; asking again before it happened changes nothing. */
export function requestPaint(painter: Painter, atOnce = false): void {
  if (atOnce) lastPaint.delete(painter);
  waiting.add(painter);
  if (atOnce && timer !== null) {
    clearTimeout(timer);
    timer = null;
  }
  schedule();
}

/** Forget a painter that is gone. */
export function cancelPaint(painter: Painter): void {
  waiting.delete(painter);
}

function schedule(): void {
  if (timer !== null || frame !== null || waiting.size === 0 || document.hidden) return;
  const now = performance.now();
  let pause = Number.POSITIVE_INFINITY;
  for (const painter of waiting) pause = Math.min(pause, intervalOf(painter) - (now - lastPaintOf(painter)));
  if (pause <= 1) frame = requestAnimationFrame(paintDue);
  else timer = setTimeout(due, pause);
}

function intervalOf(painter: Painter): number {
  return Math.max(MIN_INTERVAL_MS, painter.intervalMs ?? 0);
}

function lastPaintOf(painter: Painter): number {
  return lastPaint.get(painter) ?? Number.NEGATIVE_INFINITY;
}

function due(): void {
  timer = null;
  if (!document.hidden) frame = requestAnimationFrame(paintDue);
}

function paintDue(now: number): void {
  frame = null;
  for (const painter of [...waiting]) {
    if (now - lastPaintOf(painter) < intervalOf(painter) - 5) continue;
    waiting.delete(painter);
    lastPaint.set(painter, now);
    painter.paint();
  }
  schedule();
}

if (typeof document !== "undefined") document.addEventListener("visibilitychange", schedule);
