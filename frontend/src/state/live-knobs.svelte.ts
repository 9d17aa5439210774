/** The knobs of one run: what is in force, what the reader is about to ask for, and what came of it. */
import { ApiProblem, api } from "../api/client";
import type { KnobChange, KnobName, KnobRange, KnobsAnswer, KnobValue } from "../api/types";

/** A moment in a curve at which a knob changed. */
export interface KnobFlag {
  step: number;
  knob: KnobName;
  old: KnobValue;
  value: KnobValue;
}

export class LiveKnobs {
  answer = $state.raw<KnobsAnswer | null>(null);
  /** Values that were chosen and not asked for yet. */
  draft = $state.raw<Partial<Record<KnobName, KnobValue>>>({});
  asking = $state(false);
  problem = $state.raw<ApiProblem | null>(null);

  readonly changed = $derived(Object.keys(this.draft).length > 0);
  readonly pending = $derived((this.answer?.changes ?? []).some(({ status }) => status === "asked"));
  readonly flags = $derived(flagsOf(this.answer?.changes ?? []));
  readonly undoable = $derived(undoableOf(this.answer?.changes ?? []));
  private loads = 0;

  constructor(private readonly id: string) {}

  /** Ask the server what is in force; of two answers on their way the later question's counts. */
  async load(): Promise<void> {
    this.loads += 1;
    const mine = this.loads;
    try {
      const answer = await api.knobs(this.id);
      if (mine === this.loads) this.answer = answer;
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error; // the panel stays as it was; the page tells of a lost line
    }
  }

  rangeOf(knob: KnobName): KnobRange | undefined {
    return this.answer?.knobs.find((one) => one.knob === knob);
  }

  /** What is shown of a knob: the reader's choice, else what is in force. */
  shown(knob: KnobName): KnobValue | null {
    return this.draft[knob] ?? this.rangeOf(knob)?.value ?? null;
  }

  /** Choose a value; the one in force is no choice. */
  choose(knob: KnobName, value: KnobValue): void {
    const { [knob]: _, ...others } = this.draft;
    this.draft = value === this.rangeOf(knob)?.value ? others : { ...others, [knob]: value };
    this.problem = null;
  }

  reset(): void {
    this.draft = {};
    this.problem = null;
  }

  /** Ask the worker for what was chosen. */
  async apply(): Promise<void> {
    const version = this.answer?.knobs_version ?? 0;
    await this.ask(async () => {
      await api.setKnobs(this.id, this.draft, version);
      this.draft = {};
    });
  }

  /** Take a change back. */
  async undo(number: number): Promise<void> {
    await this.ask(async () => void (await api.undoKnob(this.id, number)));
  }

  private async ask(call: () => Promise<void>): Promise<void> {
    if (this.asking) return;
    this.asking = true;
    this.problem = null;
    try {
      await call();
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      this.problem = error;
    } finally {
      this.asking = false;
    }
    await this.load();
  }
}

/** Where a knob took another value, for marks in the curves. */
export function flagsOf(changes: readonly KnobChange[]): KnobFlag[] {
  return changes.flatMap(({ status, step, knob, old, new: value }) =>
    status === "holds" && step !== null && old !== null && old !== value ? [{ step, knob, old, value }] : [],
  );
}

/** Number of the newest change that can be taken back; null where there is none. */
export function undoableOf(changes: readonly KnobChange[]): number | null {
  const taken = new Set(changes.flatMap(({ status, undoes }) => (status === "refused" ? [] : [undoes])));
  const found = changes.findLast(
    ({ number, status, undoes }) => status === "holds" && undoes === null && !taken.has(number),
  );
  return found?.number ?? null;
}
