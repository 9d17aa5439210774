/** A sparkline's path. A run that goes on leaves room at its right for what is to come. */
export function sparkPath(
  values: readonly (number | null)[],
  width: number,
  height: number,
  slots: number,
): { d: string; last: [number, number] | null } {
  const known = values.filter((value): value is number => value !== null && Number.isFinite(value));
  if (known.length === 0) return { d: "", last: null };
  const low = Math.min(...known);
  const span = Math.max(...known) - low || 1;
  const across = (width - 6) / Math.max(1, Math.max(slots, values.length) - 1);
  let d = "";
  let pen = false;
  let last: [number, number] | null = null;
  values.forEach((value, i) => {
    if (value === null || !Number.isFinite(value)) {
      pen = false;
      return;
    }
    const point: [number, number] = [2 + i * across, 3 + (1 - (value - low) / span) * (height - 7)];
    d += `${pen ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    pen = true;
    last = point;
  });
  return { d, last };
}

/** A run's colour slot, 1 to 6: always the same for the same run. */
export function slotOf(id: string): number {
  let sum = 0;
  for (let i = 0; i < id.length; i++) sum = (sum * 31 + id.charCodeAt(i)) >>> 0;
  return (sum % 6) + 1;
}
