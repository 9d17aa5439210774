/** Numbers as people read them: a value and, apart from it, its unit. Knows nothing of the page. */

export interface Quantity {
  value: string;
  unit: string;
}

const NOTHING: Quantity = { value: "–", unit: "" };
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;
const COUNTS = ["", "K", "M", "B", "T"] as const;

const known = (value: number | null | undefined): value is number => value != null && Number.isFinite(value);

/** Three significant digits, without an exponent and without a tail of noughts after the point where it says nothing. */
function three(value: number): string {
  const size = Math.abs(value);
  if (size >= 100) return group(Math.round(value));
  if (size >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

/** A whole number with its thousands apart: 12,300. */
export function group(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

/** Bytes in powers of 1,024: 16.0 GiB. Whole numbers of a unit lose their point where `exact` is asked for: 16 MiB. */
export function bytes(value: number | null | undefined, exact = false): Quantity {
  if (!known(value)) return NOTHING;
  let power = 0;
  let left = value;
  while (Math.abs(left) >= 1023.5 && power < BINARY.length - 1) {
    left /= 1024;
    power += 1;
  }
  const whole = power === 0 || (exact && Number.isInteger(left));
  return { value: whole ? group(left) : left >= 100 ? group(left) : left.toFixed(1), unit: BINARY[power]! };
}

/** Bytes as one text: 16 MiB. */
export function bytesText(value: number | null | undefined): string {
  const { value: shown, unit } = bytes(value, true);
  return unit ? `${shown} ${unit}` : shown;
}

/** A count in powers of 1,000: 13.7 B, 812. */
export function count(value: number | null | undefined): Quantity {
  if (!known(value)) return NOTHING;
  let power = 0;
  let left = value;
  while (Math.abs(left) >= 999.5 && power < COUNTS.length - 1) {
    left /= 1000;
    power += 1;
  }
  if (power === 0) return { value: group(left), unit: "" };
  return { value: left >= 100 ? group(left) : left.toFixed(1), unit: COUNTS[power]! };
}

/** A rate such as tokens a second: grouped from 100 on, with decimals below. */
export function rate(value: number | null | undefined): string {
  return known(value) ? three(value) : NOTHING.value;
}

/** A share as per cent, without the sign: 97.4. */
export function percent(value: number | null | undefined): string {
  if (!known(value)) return NOTHING.value;
  const shown = value * 100;
  return shown >= 99.95 && value < 1 ? "99.9" : shown === 100 ? "100" : shown.toFixed(1);
}

/** A loss: three decimals, fewer from 100 on. */
export function loss(value: number | null | undefined): string {
  if (!known(value)) return NOTHING.value;
  return Math.abs(value) >= 100 ? three(value) : value.toFixed(3);
}

/** A learning rate: exponents as people write them, 2.0e-5; 0 stays 0. */
export function learningRate(value: number | null | undefined): string {
  if (!known(value)) return NOTHING.value;
  if (value === 0) return "0";
  if (value >= 0.1) return String(Number(value.toPrecision(3)));
  const [mantissa, exponent] = value.toExponential(2).split("e") as [string, string];
  const short = mantissa.endsWith("0") ? mantissa.slice(0, -1) : mantissa;
  return `${short}e${Number(exponent)}`;
}

/** Any number of a metric, in as few digits as tell it. */
export function plain(value: number | null | undefined): string {
  if (!known(value)) return NOTHING.value;
  const size = Math.abs(value);
  if (size !== 0 && size < 0.001) return learningRate(value);
  return Number.isInteger(value) ? group(value) : size >= 1000 ? group(value) : String(Number(value.toPrecision(4)));
}
