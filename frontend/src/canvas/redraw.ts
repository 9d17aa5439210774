/** The one drawing loop of the page: draws what asked for it, at most ten times a second each, and nothing while hidden. */

export const MIN_INTERVAL_MS = 100;

export interface Painter {
  paint: () => void;
}

const waiting = new Set<Painter>();
const lastPaint = new WeakMap<Painter, number>();
let timer: ReturnType<typeof setTimeout> | null = null;
let frame: number | null = null;

/** Draw this painter soon; asking again before it happened changes nothing. */
export function requestPaint(painter: Painter): void {
  waiting.add(painter);
  schedule();
}

/** Forget a painter that is gone. */
export function cancelPaint(painter: Painter): void {
  waiting.delete(painter);
}

function schedule(): void {
  if (timer !== null || frame !== null || waiting.size === 0 || document.hidden) return;
  const now = performance.now();
  let pause = MIN_INTERVAL_MS;
  for (const painter of waiting) pause = Math.min(pause, MIN_INTERVAL_MS - (now - (lastPaint.get(painter) ?? 0)));
  if (pause <= 1) frame = requestAnimationFrame(paintDue);
  else timer = setTimeout(due, pause);
}

function due(): void {
  timer = null;
  if (!document.hidden) frame = requestAnimationFrame(paintDue);
}

function paintDue(now: number): void {
  frame = null;
  for (const painter of [...waiting]) {
    if (now - (lastPaint.get(painter) ?? Number.NEGATIVE_INFINITY) < MIN_INTERVAL_MS - 5) continue;
    waiting.delete(painter);
    lastPaint.set(painter, now);
    painter.paint();
  }
  schedule();
}

if (typeof document !== "undefined") document.addEventListener("visibilitychange", schedule);
