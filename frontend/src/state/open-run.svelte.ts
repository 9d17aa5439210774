/** One run, live or past: its picture folded from frames, its curves in ring buffers, its newest residency frame. */
import { ApiProblem, api, socketAddress } from "../api/client";
import type { BlockLayout, LogLine, ResidencyWish, RunDetail, TextFrame } from "../api/types";
import { fold, isEnded } from "../stream/fold";
import { FrameError, fromBase64, ResidencyFrame } from "../stream/frame";
import { lineOf, mergeLines } from "../stream/log-lines";
import { ReconnectingSocket } from "../stream/socket";
import { Curves } from "./curves";
import { LiveKnobs } from "./live-knobs.svelte";

const HIDDEN_HZ = 0.2;
const VISIBLE_HZ = 5;

export class OpenRun {
  run = $state.raw<RunDetail | null>(null);
  problem = $state.raw<ApiProblem | null>(null);
  layout = $state.raw<BlockLayout | null>(null);
  /** Whether a residency frame is there; the frame itself is outside of the framework. */
  hasFrame = $state(false);
  frameStep = $state(0);
  frameStage = $state(0);
  frameDirection = $state(0);
  frameComputeStep = $state(0);
  frameSlots = $state(0);
  logs = $state.raw<LogLine[]>([]);
  /** Rises when the curves were fetched anew. */
  curvesReady = $state(0);

  readonly curves = new Curves();
  readonly frame = new ResidencyFrame();
  readonly knobs: LiveKnobs;

  private socket: ReconnectingSocket | null = null;
  private seq = 0;
  private closed = false;
  private refetching = false;
  private layoutAsked = false;
  private readonly frameListeners = new Set<() => void>();

  constructor(readonly id: string) {
    this.knobs = new LiveKnobs(id);
    document.addEventListener("visibilitychange", this.tellWish);
    void this.open();
  }

  /** Hear of each new residency frame; answers how to stop. */
  onFrame(listener: () => void): () => void {
    this.frameListeners.add(listener);
    return () => this.frameListeners.delete(listener);
  }

  /** Take over what an answer of the server said of the run. */
  merge(run: Partial<RunDetail>): void {
    if (this.run) this.run = { ...this.run, ...run, last_seq: this.run.last_seq };
  }

  /** Try again after a problem. */
  retry(): void {
    this.problem = null;
    void this.open();
  }

  close(): void {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.tellWish);
    this.socket?.close();
  }

  private async open(): Promise<void> {
    try {
      const run = await api.run(this.id);
      if (this.closed) return;
      this.run = run;
      this.seq = run.last_seq;
      await Promise.all([this.fetchCurves(), this.fetchResidency(), this.fetchLogs(), this.knobs.load()]);
    } catch (error) {
      this.problem = error instanceof ApiProblem ? error : new ApiProblem(0, String(error), "", []);
      return;
    }
    if (!this.closed) this.listen();
  }

  private listen(): void {
    if (!this.run || isEnded(this.run.state)) return;
    this.socket = new ReconnectingSocket({
      address: () => socketAddress(`/runs/${encodeURIComponent(this.id)}/stream?after=${this.seq}`),
      text: (message) => this.take(message as TextFrame),
      binary: (data) => this.takeFrame(data),
      opened: this.tellWish,
      gone: () => {
        this.problem = new ApiProblem(404, "", "", []);
      },
    });
  }

  private readonly tellWish = () => {
    const wish: ResidencyWish = { residency_hz: document.hidden ? HIDDEN_HZ : VISIBLE_HZ };
    this.socket?.send(wish);
  };

  private take(frame: TextFrame): void {
    if (!this.run) return;
    if (frame.type !== "snapshot") {
      if (frame.seq <= this.seq) return; // seen before the line broke
      this.seq = frame.seq;
    }
    const before = this.run;
    this.run = fold(before, frame);
    if (frame.type === "metrics") {
      this.curves.take(frame.step, frame.values, frame.nonfinite ?? {});
      if (this.curves.overflowed) void this.refetchCurves();
    } else if (frame.type === "knobs" || (frame.type === "event" && frame.kind === "plan")) {
      void this.knobs.load();
    } else if (frame.type === "event" && frame.kind === "resumed") {
      this.beginAgain();
    } else if (this.run.layout_ready && this.layout === null) {
      void this.fetchResidency();
    }
    const line = lineOf(frame);
    if (line !== null) this.logs = mergeLines(this.logs, [line]);
    if (isEnded(this.run.state) && !isEnded(before.state)) void this.settle();
  }

  /** Another worker goes on from a checkpoint, with blocks of its own. */
  private beginAgain(): void {
    this.curves.forget();
    void this.refetchCurves();
    this.layout = null;
    this.layoutAsked = false;
    void this.fetchResidency();
  }

  /** The run ended: fetch the last word on it, then hang up. */
  private async settle(): Promise<void> {
    this.socket?.close();
    this.socket = null;
    try {
      this.run = await api.run(this.id);
      await Promise.all([this.fetchCurves(), this.fetchResidency(), this.fetchLogs(), this.knobs.load()]);
    } catch {
      // What the stream told stands.
    }
  }

  private takeFrame(data: ArrayBuffer): void {
    try {
      this.frame.read(data);
    } catch (error) {
      if (error instanceof FrameError) return; // a frame of a later version: the curves go on without the map
      throw error;
    }
    if (!this.hasFrame) this.hasFrame = true;
    this.frameStep = this.frame.step;
    this.frameStage = this.frame.stage;
    this.frameDirection = this.frame.direction;
    this.frameComputeStep = this.frame.computeStep;
    this.frameSlots = this.frame.slotsUsed;
    if (this.layout === null) void this.fetchResidency();
    for (const listener of this.frameListeners) listener();
  }

  private async fetchCurves(): Promise<void> {
    await this.curves.fetch(this.id);
    this.curvesReady += 1;
  }

  private async refetchCurves(): Promise<void> {
    if (this.refetching) return;
    this.refetching = true;
    try {
      await this.curves.fetch(this.id);
    } finally {
      this.refetching = false;
    }
  }

  private async fetchResidency(): Promise<void> {
    if (!this.run?.layout_ready || this.layoutAsked) return;
    this.layoutAsked = true;
    try {
      const { layout, frame } = await api.residency(this.id);
      this.layout ??= layout; // it changes only when a run is resumed
      if (frame !== null) this.takeFrame(fromBase64(frame));
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
    } finally {
      this.layoutAsked = false;
    }
  }

  private async fetchLogs(): Promise<void> {
    const [written, happened] = await Promise.all([newestLines(this.id), allEvents(this.id)]);
    const told = happened.map(lineOf).filter((line) => line !== null);
    this.logs = mergeLines(this.logs, [...written, ...told]);
  }
}

const PAGE = 500;
const MOST_PAGES = 40;

/** The newest log lines, page by page from the end: of a long log the beginning is what can be missed. */
async function newestLines(id: string): Promise<LogLine[]> {
  let all: LogLine[] = [];
  for (let i = 0; i < MOST_PAGES; i++) {
    const first = all[0];
    const { lines } = await api.logs(id, first ? { before: first.seq, limit: PAGE } : { limit: PAGE });
    all = [...lines, ...all];
    if (lines.length < PAGE) break;
  }
  return all;
}

/** What happened from the beginning on. */
async function allEvents(id: string): Promise<TextFrame[]> {
  const all: TextFrame[] = [];
  for (let i = 0; i < MOST_PAGES; i++) {
    const { events } = await api.events(id, { after: all.at(-1)?.seq ?? 0, limit: PAGE });
    all.push(...(events as TextFrame[]));
    if (events.length < PAGE) break;
  }
  return all;
}
