/** The reader's language and every text in it. */
import { en, type Key } from "./en";
import { zh } from "./zh";

export type Language = "en" | "zh";
export type { Key };

const tables: Record<Language, Record<Key, string>> = { en, zh };
const STORED = "horizon.language";

function firstLanguage(): Language {
  const stored = typeof localStorage === "undefined" ? null : localStorage.getItem(STORED);
  if (stored === "en" || stored === "zh") return stored;
  return typeof navigator !== "undefined" && navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

const current = $state<{ language: Language }>({ language: firstLanguage() });

/** The language that texts come in now. */
export const language = (): Language => current.language;

/** The name by which the browser's date formats know the language. */
export const locale = (): string => (current.language === "zh" ? "zh-CN" : "en-GB");

/** Change the language, here and on the next visit. */
export function setLanguage(next: Language): void {
  current.language = next;
  localStorage.setItem(STORED, next);
  document.documentElement.lang = next === "zh" ? "zh-CN" : "en";
}

/** The text of a key, with `{name}` replaced by the value of that name. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  return fill(tables[current.language][key], values);
}

/** As `t`, choosing `key.one` where the count is one and there is such a text. */
export function tCount(key: Key, count: number, values: Record<string, string | number> = {}): string {
  const one = `${key}.one`;
  return t(count === 1 && one in en ? (one as Key) : key, { count, ...values });
}

/** Replace `{name}` in a text. */
export function fill(text: string, values: Record<string, string | number>): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? String(values[name]) : whole));
}
