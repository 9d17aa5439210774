/** The stylesheet's colour tokens for canvases, read through a probe element so that light-dark() is resolved. */

const memo = new Map<string, string>();
const listeners = new Set<() => void>();
let probe: HTMLElement | null = null;

/** The colour of a token such as `--ink`, as rgb(). */
export function color(token: string): string {
  const known = memo.get(token);
  if (known !== undefined) return known;
  if (probe === null) {
    probe = document.createElement("i");
    probe.hidden = true;
    document.documentElement.append(probe);
    watchTheme();
  }
  probe.style.color = `var(${token})`;
  const found = getComputedStyle(probe).color;
  memo.set(token, found);
  return found;
}

/** A token's colour, let through by `alpha`. */
export function tint(token: string, alpha: number): string {
  const [red, green, blue] = color(token).match(/[\d.]+/g) ?? ["0", "0", "0"];
  return `rgba(${red},${green},${blue},${alpha})`;
}

/** Call back whenever the theme changed; answers how to stop. */
export function onThemeChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function watchTheme(): void {
  const forget = () => {
    memo.clear();
    for (const listener of listeners) listener();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forget);
  new MutationObserver(forget).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

let family = "";

/** A canvas font of the page's family. */
export function font(size: number, weight = 400): string {
  family ||= getComputedStyle(document.documentElement).fontFamily;
  return `${weight} ${size}px ${family}`;
}
