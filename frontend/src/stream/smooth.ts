/** What is computed from a curve before it is drawn. */

/** Debiased exponential moving average. Gaps stay gaps and do not move it. `weight` is the share of the past, 0 to 0.99. */
export function ema(values: Float64Array, weight: number): Float64Array {
  const out = new Float64Array(values.length);
  let mean = 0;
  let mass = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    if (Number.isFinite(value)) {
      mean = weight * mean + (1 - weight) * value;
      mass = weight * mass + (1 - weight);
      out[i] = mean / mass;
    } else {
      out[i] = Number.NaN;
    }
  }
  return out;
}

/** Values of one curve at another's x: the newest at or before each; NaN before the first. Both x rise. */
export function heldAt(x: Float64Array, fromX: Float64Array, fromY: Float64Array): Float64Array {
  const out = new Float64Array(x.length);
  let j = -1;
  for (let i = 0; i < x.length; i++) {
    while (j + 1 < fromX.length && fromX[j + 1]! <= x[i]!) j += 1;
    out[i] = j < 0 ? Number.NaN : fromY[j]!;
  }
  return out;
}

/** Seconds that `steps` more steps will take, from the quarter points of recent step times; null where none is known. */
export function timeLeft(recent: Float64Array, steps: number): { low: number; high: number } | null {
  const known = Array.from(recent)
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
  if (known.length === 0 || steps <= 0) return null;
  const quarter = (share: number) => known[Math.min(known.length - 1, Math.floor(share * known.length))]!;
  return { low: quarter(0.25) * steps, high: quarter(0.75) * steps };
}
