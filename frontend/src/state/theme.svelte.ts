/** Light, dark, or as the system says. */

export const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const STORED = "horizon.theme";
const stored = localStorage.getItem(STORED);
const current = $state<{ theme: Theme }>({ theme: stored === "light" || stored === "dark" ? stored : "auto" });

export const theme = (): Theme => current.theme;

/** Change the theme, here and on the next visit. */
export function setTheme(next: Theme): void {
  current.theme = next;
  localStorage.setItem(STORED, next);
  applyTheme();
}

/** Write the theme where the stylesheet looks for it. */
export function applyTheme(): void {
  if (current.theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = current.theme;
}
