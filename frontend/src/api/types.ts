/** The shapes of the wire under short names. All come from the server's own document. */
import type { components } from "./schema.gen";

type Schemas = components["schemas"];

export type Run = Schemas["Run"];
export type RunDetail = Schemas["RunDetail"];
export type RunPage = Schemas["RunPage"];
export type RunState = Schemas["RunState"];
export type BlockLayout = Schemas["BlockLayout"];
export type SystemAnswer = Schemas["SystemAnswer"];
export type ModelEntry = Schemas["ModelEntry"];
export type ModelsAnswer = Schemas["ModelsAnswer"];
export type DatasetEntry = Schemas["DatasetEntry"];
export type DatasetsAnswer = Schemas["DatasetsAnswer"];
export type SeriesAnswer = Schemas["SeriesAnswer"];
export type ResidencyAnswer = Schemas["ResidencyAnswer"];
export type LogLine = Schemas["LogLine"];
export type EventsAnswer = Schemas["EventsAnswer"];
export type LogAnswer = Schemas["LogAnswer"];
export type ExampleAnswer = Schemas["ExampleAnswer"];
export type Freed = Schemas["Freed"];
export type KnobName = Schemas["Knob"];
export type KnobValue = number | string;
export type KnobRange = Schemas["KnobRange"];
export type KnobChange = Schemas["KnobChange"];
export type KnobsAnswer = Schemas["KnobsAnswer"];
export type ChangedKnobs = Schemas["ChangedKnobs"];
export type FieldProblem = Schemas["FieldProblem"];
export type Problem = Schemas["Problem"];

type Tagged<Name extends keyof Schemas, Type extends string> = Schemas[Name] & { type: Type };

export type TextFrame =
  | Tagged<"StateFrame", "state">
  | Tagged<"MetricsFrame", "metrics">
  | Tagged<"LogFrame", "log">
  | Tagged<"FactFrame", "event">
  | Tagged<"CheckpointFrame", "checkpoint">
  | Tagged<"SampleFrame", "sample">
  | Tagged<"KnobFrame", "knobs">
  | Tagged<"CheckFrame", "check">
  | Tagged<"SnapshotFrame", "snapshot">;
export type OverviewFrame = Tagged<"RunFrame", "run"> | Tagged<"RunGone", "gone">;
export type ResidencyWish = Schemas["ResidencyWish"];

/** A run spec as a plain document: keys to values, sections to mappings. */
export type SpecDocument = Record<string, unknown>;
