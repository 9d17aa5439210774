/** The run that the form describes: one YAML text, from which everything else follows. */
import { ApiProblem, api } from "../api/client";
import type { DatasetEntry, FieldProblem, ModelsAnswer, RunDetail, SpecDocument } from "../api/types";
import { newKey } from "./request-key";
import { type Fault, fieldsOf, readValue, type SpecField, showValue } from "./spec-schema";
import { readSpec, type TextFault, valueAt, writeField, writeSpec } from "./spec-text";

export class Draft {
  text = $state("");
  fields = $state.raw<SpecField[]>([]);
  models = $state.raw<ModelsAnswer | null>(null);
  datasets = $state.raw<DatasetEntry[] | null>(null);
  problem = $state.raw<ApiProblem | null>(null);
  refusal = $state.raw<ApiProblem | null>(null);
  starting = $state(false);
  /** What was typed into inputs that do not hold a value yet. */
  private typed = $state.raw<Record<string, { text: string; fault: Fault }>>({});

  private readonly reading = $derived(readSpec(this.text));
  private lastGood: SpecDocument = {};
  readonly textFaults: TextFault[] = $derived(this.reading.faults);
  readonly values: SpecDocument = $derived.by(() => {
    if (this.reading.faults.length === 0) this.lastGood = this.reading.values;
    return this.lastGood;
  });
  readonly faultCount = $derived(Object.keys(this.typed).length);

  private filledFromRun = false;
  private key = "";
  private keyFor = "";

  /** Fetch what the form is made from. */
  async load(): Promise<void> {
    this.problem = null;
    try {
      const [schema, models, datasets] = await Promise.all([api.schema(), api.models(), api.datasets()]);
      this.fields = fieldsOf(schema);
      this.models = models;
      this.datasets = datasets.datasets;
      this.dropDefaults();
    } catch (error) {
      this.problem = problemOf(error);
    }
  }

  /** Fill the form with the example, written to the home folder first. */
  async useExample(): Promise<void> {
    try {
      const { spec } = await api.example();
      this.fill(spec as SpecDocument);
      const [models, datasets] = await Promise.all([api.models(), api.datasets()]);
      this.models = models;
      this.datasets = datasets.datasets;
    } catch (error) {
      this.refusal = problemOf(error);
    }
  }

  /** Fill the form with the spec of another run. */
  async fillFrom(runId: string): Promise<void> {
    try {
      this.fill((await api.run(runId)).spec as SpecDocument);
      this.filledFromRun = true;
      if (this.fields.length > 0) this.dropDefaults();
    } catch (error) {
      this.refusal = problemOf(error);
    }
  }

  /** Take out of the text what the defaults say anyway: a run keeps its spec with every value filled in. */
  private dropDefaults(): void {
    if (!this.filledFromRun) return;
    this.filledFromRun = false;
    for (const field of this.fields) {
      if (this.value(field.path) !== undefined && !this.differs(field)) this.set(field.path, undefined);
    }
  }

  /** Replace the whole spec. */
  fill(spec: SpecDocument): void {
    this.setText(writeSpec(spec));
  }

  /** Take an edited or pasted text. */
  setText(text: string): void {
    this.text = text;
    this.typed = {};
    this.refusal = null;
  }

  /** The value at a path, as asked; undefined where the default holds. */
  value(path: string): unknown {
    return valueAt(this.values, path);
  }

  /** Whether the draft asks for something else than the default. */
  differs(field: SpecField): boolean {
    const value = this.value(field.path);
    return value !== undefined && showValue(field, value) !== showValue(field, field.default);
  }

  /** What a field's input shows. */
  shown(field: SpecField): string {
    return this.typed[field.path]?.text ?? showValue(field, this.value(field.path));
  }

  fault(path: string): Fault | null {
    return this.typed[path]?.fault ?? null;
  }

  /** What the server said against a field the last time. */
  refusedAt(path: string): FieldProblem | null {
    return this.refusal?.errors.find(({ field }) => field === path) ?? null;
  }

  /** Take what was typed into a field's input. */
  type(field: SpecField, text: string): void {
    const { value, fault } = readValue(field, text);
    const { [field.path]: _, ...others } = this.typed;
    if (fault !== null) {
      this.typed = { ...others, [field.path]: { text, fault } };
      return;
    }
    this.typed = others;
    this.set(field.path, value);
  }

  /** Set one value; undefined returns to the default. */
  set(path: string, value: unknown): void {
    if (this.textFaults.length > 0) return;
    this.text = writeField(this.text, path, value === "" ? undefined : value);
    this.refusal = null;
  }

  /** Start the run; the same draft sent twice is one run. */
  async start(): Promise<RunDetail | null> {
    if (this.starting) return null;
    this.starting = true;
    this.refusal = null;
    if (this.keyFor !== this.text || this.key === "") {
      this.key = newKey();
      this.keyFor = this.text;
    }
    try {
      const run = await api.create($state.snapshot(this.values) as SpecDocument, this.key);
      this.key = "";
      return run;
    } catch (error) {
      this.refusal = problemOf(error);
      return null;
    } finally {
      this.starting = false;
    }
  }
}

function problemOf(error: unknown): ApiProblem {
  return error instanceof ApiProblem ? error : new ApiProblem(0, String(error), "", []);
}
