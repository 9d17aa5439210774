/** Work that rests while nobody looks. */

/** Call now and every `ms` while the page can be seen; answers how to stop. */
export function whileVisible(ms: number, work: () => void): () => void {
  let timer: ReturnType<typeof setInterval> | null = null;
  const arrange = () => {
    if (timer !== null) clearInterval(timer);
    timer = null;
    if (document.hidden) return;
    work();
    timer = setInterval(work, ms);
  };
  document.addEventListener("visibilitychange", arrange);
  arrange();
  return () => {
    document.removeEventListener("visibilitychange", arrange);
    if (timer !== null) clearInterval(timer);
  };
}
