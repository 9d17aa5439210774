/** The run spec's JSON schema as a list of fields that a form can show. Pure. */
import { parseSize, writeSize } from "../format/size";

export type FieldKind = "choice" | "switch" | "integer" | "number" | "size" | "text" | "list";

export interface SpecField {
  path: string;
  section: string;
  key: string;
  kind: FieldKind;
  description: string;
  unit: string;
  main: boolean;
  choices: { value: string; available: boolean }[];
  /** Nothing but the default can be chosen yet. */
  fixed: boolean;
  /** `auto` or another word is taken as well as a number. */
  words: boolean;
  optional: boolean;
  default: unknown;
  bounds: { least?: number; above?: number; most?: number; below?: number };
}

interface Node {
  $ref?: string;
  anyOf?: Node[];
  enum?: unknown[];
  const?: unknown;
  type?: string;
  pattern?: string;
  items?: Node;
  prefixItems?: Node[];
  properties?: Record<string, Node>;
  description?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  "x-unit"?: string;
  "x-main"?: boolean;
  "x-unavailable"?: unknown[];
  $defs?: Record<string, Node>;
}

/** Fields of all sections, in the schema's order. */
export function fieldsOf(schema: Record<string, unknown>): SpecField[] {
  const root = schema as Node;
  const fields: SpecField[] = [];
  for (const [section, node] of Object.entries(root.properties ?? {})) {
    const resolved = resolve(node, root);
    for (const [key, field] of Object.entries(resolved.properties ?? {}))
      fields.push(fieldOf(section, key, field, root));
  }
  return fields;
}

function resolve(node: Node, root: Node): Node {
  if (node.$ref) return root.$defs?.[node.$ref.replace("#/$defs/", "")] ?? {};
  return node;
}

function fieldOf(section: string, key: string, node: Node, root: Node): SpecField {
  const branches = (node.anyOf ?? [node]).map((branch) => resolve(branch, root));
  const real = branches.filter(({ type }) => type !== "null");
  const unavailable = (node["x-unavailable"] ?? []).map(String);
  const values = real.flatMap((branch) => branch.enum ?? []).map(String);
  const kind = kindOf(real, values);
  const numeric = real.find(({ type }) => type === "integer" || type === "number") ?? {};
  const bound = (name: "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum") => node[name] ?? numeric[name];
  const pairs = {
    least: bound("minimum"),
    above: bound("exclusiveMinimum"),
    most: bound("maximum"),
    below: bound("exclusiveMaximum"),
  };
  return {
    path: `${section}.${key}`,
    section,
    key,
    kind,
    description: node.description ?? "",
    unit: node["x-unit"] ?? "",
    main: node["x-main"] ?? false,
    choices: values.map((value) => ({ value, available: !unavailable.includes(value) })),
    fixed: unavailable.length > 0 && values.length === 0,
    words: kind !== "text" && real.some(({ type, const: word }) => type === "string" || word === "auto"),
    optional: branches.length > real.length,
    default: node.default ?? null,
    bounds: Object.fromEntries(Object.entries(pairs).filter(([, value]) => value !== undefined)),
  };
}

function kindOf(real: Node[], values: string[]): FieldKind {
  if (values.length > 0) return "choice";
  const types = real.map(({ type }) => type);
  if (types.length === 1 && types[0] === "boolean") return "switch";
  if (real.some(({ pattern }) => pattern?.includes("[Ii]"))) return "size";
  if (types.includes("array")) return types.length === 1 ? "list" : "text";
  if (types.includes("integer")) return "integer";
  return types.includes("number") ? "number" : "text";
}

/** A value as the form's input shows it. */
export function showValue(field: SpecField, value: unknown): string {
  if (value === null || value === undefined) return "";
  if (field.kind === "size" && typeof value === "number") return writeSize(value);
  if (typeof value === "number" && value !== 0 && Math.abs(value) < 0.001)
    return value.toExponential().replace("e+", "e");
  if (Array.isArray(value)) return value.join(", ");
  return String(value);
}

export type Fault =
  | { key: "launch.number" | "launch.integer" | "launch.size"; text: string }
  | { key: BoundKey; bound: number };
type BoundKey = "launch.least" | "launch.above" | "launch.most" | "launch.below";

/** What the reader typed, as the spec has it; an empty input means the default (undefined). */
export function readValue(field: SpecField, text: string): { value: unknown; fault: Fault | null } {
  const typed = text.trim();
  if (typed === "") return { value: undefined, fault: null };
  if (field.words && !/^[0-9.+-]/.test(typed)) return { value: typed, fault: null };
  switch (field.kind) {
    case "switch":
      return { value: typed === "true", fault: null };
    case "size":
      return { value: typed, fault: parseSize(typed) === null ? { key: "launch.size", text: typed } : null };
    case "integer":
    case "number":
      return readNumber(field, typed);
    case "list":
      return { value: readList(typed), fault: null };
    default:
      return { value: typed, fault: null };
  }
}

function readNumber(field: SpecField, typed: string): { value: unknown; fault: Fault | null } {
  const value = Number(typed.replaceAll(",", "").replaceAll("_", ""));
  if (Number.isNaN(value)) return { value: typed, fault: { key: "launch.number", text: typed } };
  if (field.kind === "integer" && !Number.isInteger(value))
    return { value, fault: { key: "launch.integer", text: typed } };
  const { least, above, most, below } = field.bounds;
  if (least !== undefined && value < least) return { value, fault: { key: "launch.least", bound: least } };
  if (above !== undefined && value <= above) return { value, fault: { key: "launch.above", bound: above } };
  if (most !== undefined && value > most) return { value, fault: { key: "launch.most", bound: most } };
  if (below !== undefined && value >= below) return { value, fault: { key: "launch.below", bound: below } };
  return { value, fault: null };
}

function readList(typed: string): (string | number)[] {
  const parts = typed
    .replace(/^\[|\]$/g, "")
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
  return parts.map((part) => (Number.isNaN(Number(part)) ? part : Number(part)));
}
