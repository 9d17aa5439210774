/** The history: pages fetched as they come into view, rows that follow the stream. */
import { ApiProblem, api } from "../api/client";
import type { Run } from "../api/types";
import { type RunsState, statesOf } from "./address";
import { onReturn, onRunChange, onRunGone } from "./machine.svelte";

const PAGE = 100;
const LARGEST_PAGE = 500;
const REFRESH_MS = 600;

export class RunHistory {
  runs = $state.raw<Run[]>([]);
  total = $state(0);
  counts = $state.raw<Record<string, number>>({});
  loading = $state(true);
  loadingMore = $state(false);
  problem = $state.raw<ApiProblem | null>(null);

  private readonly states = new Map<string, string>();
  private cursor: string | null = null;
  private asked: RunsState | null = null;
  private running: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private readonly stops = [
    onRunChange((run) => this.take(run)),
    onRunGone((id) => this.leave(id)),
    onReturn(() => this.refresh()),
  ];

  /** Show another selection from its first page. */
  show(wanted: RunsState): void {
    this.asked = wanted;
    this.loading = true;
    void this.load(PAGE);
  }

  /** Fetch what is shown again, as many rows as there are. */
  refresh(): void {
    if (this.asked) void this.load(Math.min(LARGEST_PAGE, Math.max(PAGE, this.runs.length)), true);
  }

  /** The next page, if there is one and none is on its way. */
  async more(): Promise<void> {
    if (this.cursor === null || this.loadingMore || this.loading || !this.asked) return;
    this.loadingMore = true;
    const asked = this.asked;
    try {
      const page = await api.runs({ ...query(asked), limit: PAGE, cursor: this.cursor });
      if (asked !== this.asked) return;
      const known = new Set(this.runs.map(({ id }) => id));
      this.runs = [...this.runs, ...page.runs.filter(({ id }) => !known.has(id))];
      this.cursor = page.next_cursor;
      this.total = page.total;
    } catch (error) {
      this.fail(error);
    } finally {
      this.loadingMore = false;
    }
  }

  /** Take a row away at once; the counts follow. */
  forget(id: string): void {
    this.runs = this.runs.filter((run) => run.id !== id);
    this.total = Math.max(0, this.total - 1);
    this.refreshSoon();
  }

  close(): void {
    for (const stop of this.stops) stop();
    this.running?.abort();
    if (this.timer !== null) clearTimeout(this.timer);
  }

  private async load(limit: number, again = false): Promise<void> {
    const asked = this.asked!;
    this.running?.abort();
    const mine = new AbortController();
    this.running = mine;
    try {
      const page = await api.runs({ ...query(asked), limit }, mine.signal);
      // Asked again, rows beyond the answer stay: the reader may be among them.
      const beyond = again ? this.runs.slice(page.runs.length) : [];
      const fresh = new Set(page.runs.map(({ id }) => id));
      const kept = page.next_cursor === null ? [] : beyond.filter(({ id }) => !fresh.has(id));
      this.runs = [...page.runs, ...kept];
      this.total = page.total;
      this.counts = page.counts;
      if (kept.length === 0) this.cursor = page.next_cursor;
      this.problem = null;
      this.loading = false;
    } catch (error) {
      if (mine.signal.aborted) return;
      this.fail(error);
      this.loading = false;
    }
  }

  private take(run: Run): void {
    const at = this.runs.findIndex(({ id }) => id === run.id);
    const before = this.states.get(run.id) ?? this.runs[at]?.state;
    this.states.set(run.id, run.state);
    if (at >= 0) this.runs = this.runs.with(at, run);
    // A change of state may move rows in and out and changes the counts; one more step does not.
    if (before !== run.state) this.refreshSoon();
  }

  private leave(id: string): void {
    if (this.runs.some((run) => run.id === id)) this.forget(id);
    else this.refreshSoon();
  }

  private refreshSoon(): void {
    if (this.timer !== null) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.refresh();
    }, REFRESH_MS);
  }

  private fail(error: unknown): void {
    this.problem = error instanceof ApiProblem ? error : new ApiProblem(0, String(error), "", []);
  }
}

function query({ tab, q, sort }: RunsState): { state?: string; q?: string; sort: string } {
  const state = statesOf(tab);
  return { sort, ...(q ? { q } : {}), ...(state ? { state } : {}) };
}
