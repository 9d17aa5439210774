/** The run spec as YAML text and as values, each made from the other; comments survive edits of the form. */
import { Document, parseDocument, Scalar, stringify, YAMLMap } from "yaml";
import type { SpecDocument } from "../api/types";

export interface TextFault {
  line: number;
  message: string;
}

export interface SpecReading {
  values: SpecDocument;
  faults: TextFault[];
}

/** The values of a YAML text; with faults, the values are empty. An empty text is an empty spec. */
export function readSpec(text: string): SpecReading {
  const document = parseDocument(text, { prettyErrors: true });
  if (document.errors.length > 0) {
    // What is missing at the end is told at the last line that has something.
    const lines = text.trimEnd().split("\n").length;
    const faults = document.errors.map((error) => ({
      line: Math.min(lines, error.linePos?.[0].line ?? 1),
      message: error.message.split(" at line ")[0] ?? error.message,
    }));
    return { values: {}, faults };
  }
  const values: unknown = document.toJS();
  if (values === null || values === undefined) return { values: {}, faults: [] };
  if (typeof values !== "object" || Array.isArray(values)) return { values: {}, faults: [{ line: 1, message: "" }] };
  return { values: values as SpecDocument, faults: [] };
}

/** The text with one value changed; `undefined` takes the key out, and its section with the last one. */
export function writeField(text: string, path: string, value: unknown): string {
  const document = parseDocument(text);
  if (!(document.contents instanceof YAMLMap)) document.contents = new Document({}).contents as never;
  const keys = path.split(".");
  if (value === undefined) {
    document.deleteIn(keys);
    const section = keys.length > 1 ? document.getIn(keys.slice(0, 1)) : null;
    if (section instanceof YAMLMap && section.items.length === 0) document.delete(keys[0]);
  } else {
    if (keys.length > 1 && !(document.get(keys[0]) instanceof YAMLMap)) document.set(keys[0], document.createNode({}));
    document.setIn(keys, nodeOf(document, value));
  }
  return textOf(document);
}

/** A whole spec as text. */
export function writeSpec(values: SpecDocument): string {
  const document = new Document(values);
  return textOf(document);
}

/** Any value as YAML, for reading. */
export function showYaml(value: unknown): string {
  return stringify(value, { lineWidth: 100 });
}

function textOf(document: Document.Parsed | Document): string {
  const contents = document.contents;
  if (contents instanceof YAMLMap && contents.items.length === 0) return "";
  return document.toString({ lineWidth: 100, flowCollectionPadding: false });
}

/** Small numbers keep their exponent: 2e-5, not 0.00002. */
function nodeOf(document: Document, value: unknown): unknown {
  const node = document.createNode(value);
  const small = typeof value === "number" && value !== 0 && Math.abs(value) < 0.001;
  if (small && node instanceof Scalar) node.format = "EXP";
  return node;
}

/** The value at a dotted path. */
export function valueAt(values: SpecDocument, path: string): unknown {
  let here: unknown = values;
  for (const key of path.split(".")) {
    if (typeof here !== "object" || here === null) return undefined;
    here = (here as Record<string, unknown>)[key];
  }
  return here;
}
