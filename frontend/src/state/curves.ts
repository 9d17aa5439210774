/** A run's curves: one ring buffer a metric, outside of the framework; listeners draw. */
import { api } from "../api/client";
import type { SeriesAnswer } from "../api/types";
import { RingColumn } from "../stream/ring";

export const LOSS = "train/loss";
export const RATE = "throughput/tokens_per_second";
export const HIT = "prefetch/hit_rate";
export const LATE = "prefetch/late_rate";
export const MISS = "prefetch/miss_rate";
export const OPTIMUM = "prefetch/optimal_hit_rate";
export const STEP_TIME = "time/step";
export const GRAD_NORM = "train/grad_norm";
export const TOKENS = "train/tokens";

const KEYS = [LOSS, RATE, HIT, LATE, MISS, OPTIMUM, STEP_TIME] as const;
const CAPACITY = 6000;
const FETCHED_POINTS = 1500;

export type ColumnSet = Record<string, RingColumn>;

export class Curves {
  /** All of the run, thinned by the server, with what came since. */
  all: ColumnSet = emptySet();
  /** A range of it in full, while the reader looks closer. */
  closer: ColumnSet | null = null;
  zoom: [number, number] | null = null;
  nonfinite: number[] = [];
  private readonly listeners = new Set<() => void>();
  private id = "";

  get shown(): ColumnSet {
    return this.closer ?? this.all;
  }

  get overflowed(): boolean {
    return KEYS.some((key) => this.all[key]!.dropped);
  }

  onChange(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Fetch the whole run; points that the stream brought meanwhile stay. */
  async fetch(id: string): Promise<void> {
    this.id = id;
    const answer = await api.series(id, { keys: KEYS, maxPoints: FETCHED_POINTS });
    const fresh = read(answer);
    for (const key of KEYS) {
      const { x, y } = this.all[key]!.columns();
      const begin = fresh[key]!.lastX;
      for (let i = 0; i < x.length; i++) if (x[i]! > begin) fresh[key]!.push(x[i]!, y[i]!);
    }
    this.all = fresh;
    const known = new Set((answer.nonfinite[LOSS] ?? []).map(([step]) => step));
    for (const step of this.nonfinite) known.add(step);
    this.nonfinite = [...known].sort((a, b) => a - b);
    this.changed();
  }

  /** The run goes on from an earlier step: what is known of later ones is void. Fetch after it. */
  forget(): void {
    this.all = emptySet();
    this.nonfinite = [];
  }

  /** The numbers of one more step. */
  take(step: number, values: Record<string, number | null>, nonfinite: Record<string, string>): void {
    for (const key of KEYS) if (key in values) this.all[key]!.push(step, values[key] ?? null);
    if (LOSS in nonfinite && this.nonfinite.at(-1) !== step) this.nonfinite.push(step);
    this.changed();
  }

  /** Look at a range of steps, fetched finer than the whole. */
  async lookCloser(from: number, to: number): Promise<void> {
    this.zoom = [from, to];
    this.changed();
    const answer = await api.series(this.id, { keys: KEYS, from, to, maxPoints: FETCHED_POINTS });
    if (this.zoom?.[0] !== from || this.zoom[1] !== to) return;
    this.closer = read(answer);
    this.changed();
  }

  /** Back to all steps. */
  lookAtAll(): void {
    this.zoom = null;
    this.closer = null;
    this.changed();
  }

  private changed(): void {
    for (const listener of this.listeners) listener();
  }
}

function emptySet(): ColumnSet {
  return Object.fromEntries(KEYS.map((key) => [key, new RingColumn(CAPACITY)]));
}

function read({ series }: SeriesAnswer): ColumnSet {
  const set = emptySet();
  for (const key of KEYS) set[key]!.replace(series[key]?.x ?? [], series[key]?.y ?? []);
  return set;
}
