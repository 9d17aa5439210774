/** Sizes as the run spec writes them: 16MiB, 1.5 GiB, or plain bytes. */

const FACTORS: Record<string, number> = { "": 1, b: 1, kib: 1024, mib: 1024 ** 2, gib: 1024 ** 3 };

/** Bytes of a size, or null where it is not one. */
export function parseSize(text: string): number | null {
  const found = /^\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*$/.exec(text);
  const factor = found ? FACTORS[found[2]!.toLowerCase()] : undefined;
  if (!found || factor === undefined) return null;
  const size = Number(found[1]) * factor;
  return Number.isInteger(size) && size > 0 ? size : null;
}

/** The shortest exact spelling of a number of bytes: 16MiB. */
export function writeSize(size: number): string {
  for (const [unit, factor] of [
    ["GiB", 1024 ** 3],
    ["MiB", 1024 ** 2],
    ["KiB", 1024],
  ] as const) {
    if (size % factor === 0) return `${size / factor}${unit}`;
  }
  return String(size);
}
