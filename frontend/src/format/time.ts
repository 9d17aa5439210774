/** Durations and moments as people read them. Unit signs are the SI ones, the same in every language. */

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;

/** A duration in its two largest units: 15 h 12 min, 2 min 05 s, 41 s, 0.42 s. */
export function duration(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds) || seconds < 0) return "–";
  if (seconds < 9.95) return `${seconds.toFixed(seconds < 0.995 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  if (whole < MINUTE) return `${whole} s`;
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)} min ${two(whole % MINUTE)} s`;
  const minutes = Math.round(seconds / MINUTE);
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  return `${Math.floor(seconds / DAY)} d ${Math.round((seconds % DAY) / HOUR)} h`;
}

/** A duration that fits a narrow column: seconds are left out from ten minutes on. */
export function shortDuration(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds) || seconds < 0) return "–";
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  if (seconds < 10 * MINUTE) return duration(seconds);
  const minutes = Math.round(seconds / MINUTE);
  if (minutes < 60) return `${minutes} min`;
  return minutes < 24 * 60 ? `${Math.floor(minutes / 60)} h ${two(minutes % 60)}` : duration(seconds);
}

/** The span between two durations; one of them where both read the same. */
export function durationRange(low: number, high: number): [string, string | null] {
  const [a, b] = [shortDuration(low), shortDuration(high)];
  return a === b ? [a, null] : [a, b];
}

/** The time of day: 14:22, or 14:22:07. */
export function clock(moment: Date, withSeconds = false): string {
  const text = `${two(moment.getHours())}:${two(moment.getMinutes())}`;
  return withSeconds ? `${text}:${two(moment.getSeconds())}` : text;
}

/** When something began, as short as it stays clear: 14:22 on the same day, else the date; the year where it differs. */
export function moment(when: Date, now: Date, locale: string): string {
  if (when.toDateString() === now.toDateString()) return clock(when);
  const sameYear = when.getFullYear() === now.getFullYear();
  const date = when.toLocaleDateString(locale, {
    day: "numeric",
    month: "short",
    ...(sameYear ? {} : { year: "numeric" }),
  });
  return sameYear ? `${date}, ${clock(when)}` : date;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
