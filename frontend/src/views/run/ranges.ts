/** How much of the y axis a chart shows. Pure. */

/** The data's range with room at both ends; never of no height. */
export function paddedRange(low: number, high: number): [number, number] {
  const span = high - low || Math.abs(high) * 0.1 || 1;
  return [low - span * 0.06, high + span * 0.08];
}

/** As `paddedRange`, not below zero. */
export function rateRange(low: number, high: number): [number, number] {
  const [from, to] = paddedRange(low, high);
  return [Math.max(0, from - (high - low) * 0.3), to];
}

/** Per cent up to 100, from a round number below the least that has to be seen. */
export function shareRange(least: number): [number, number] {
  for (const from of [90, 75, 50]) if (least >= from + 2) return [from, 100];
  return [0, 100];
}
