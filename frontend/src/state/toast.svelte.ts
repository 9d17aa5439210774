/** One short message at the foot of the page, gone after a while. */

export const toast = $state<{ text: string; bad: boolean }>({ text: "", bad: false });

const STAYS_MS = 6000;
let timer: ReturnType<typeof setTimeout> | null = null;

/** Show a message; the next one takes its place. */
export function say(text: string, bad = false): void {
  if (timer !== null) clearTimeout(timer);
  toast.text = text;
  toast.bad = bad;
  timer = setTimeout(() => {
    toast.text = "";
  }, STAYS_MS);
}
