/** A curve's points in two ring buffers: what arrives is appended without allocating, the oldest points leave first. */
export class RingColumn {
  private readonly xs: Float64Array;
  private readonly ys: Float64Array;
  private start = 0;
  private size = 0;
  /** Points have left: the curve no longer begins at the beginning. */
  dropped = false;

  constructor(readonly capacity: number) {
    this.xs = new Float64Array(capacity);
    this.ys = new Float64Array(capacity);
  }

  get length(): number {
    return this.size;
  }

  /** x of the newest point; -Infinity without one. */
  get lastX(): number {
    return this.size === 0 ? Number.NEGATIVE_INFINITY : this.xs[this.at(this.size - 1)]!;
  }

  /** y of the newest point; NaN without one. */
  get lastY(): number {
    return this.size === 0 ? Number.NaN : this.ys[this.at(this.size - 1)]!;
  }

  /** Append a point; one that is not to the right of the newest is not taken. A gap is a y of null. */
  push(x: number, y: number | null): boolean {
    if (x <= this.lastX) return false;
    if (this.size === this.capacity) {
      this.start = (this.start + 1) % this.capacity;
      this.size -= 1;
      this.dropped = true;
    }
    const slot = this.at(this.size);
    this.xs[slot] = x;
    this.ys[slot] = y ?? Number.NaN;
    this.size += 1;
    return true;
  }

  /** Begin anew with points that were fetched. */
  replace(x: readonly number[], y: readonly (number | null)[]): void {
    this.start = 0;
    this.size = 0;
    this.dropped = false;
    for (let i = 0; i < x.length; i++) this.push(x[i]!, y[i] ?? null);
  }

  /** Copies of both columns, oldest first. */
  columns(): { x: Float64Array; y: Float64Array } {
    return { x: this.unrolled(this.xs, this.size), y: this.unrolled(this.ys, this.size) };
  }

  /** The newest `limit` values, oldest first. */
  tail(limit: number): Float64Array {
    return this.unrolled(this.ys, Math.min(limit, this.size));
  }

  private unrolled(values: Float64Array, limit: number): Float64Array {
    const out = new Float64Array(limit);
    const first = this.at(this.size - limit);
    const head = Math.min(limit, this.capacity - first);
    out.set(values.subarray(first, first + head));
    out.set(values.subarray(0, limit - head), head);
    return out;
  }

  private at(index: number): number {
    return (this.start + index) % this.capacity;
  }
}
