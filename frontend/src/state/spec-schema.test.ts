import { expect, test } from "vitest";
import { fieldsOf, readValue, type SpecField, showValue } from "./spec-schema";

const schema = {
  $defs: {
    Policy: { enum: ["clock_pro", "lru", "optimal"], type: "string" },
    Offload: {
      properties: {
        policy: {
          $ref: "#/$defs/Policy",
          default: "optimal",
          "x-main": true,
          "x-unavailable": ["clock_pro"],
          description: "who leaves",
        },
        prefetch_window: {
          type: "integer",
          minimum: 0,
          maximum: 64,
          default: 3,
          "x-unit": "compute steps",
          "x-main": true,
        },
        max_gpu_blocks: { anyOf: [{ type: "integer" }, { type: "string" }], default: "auto" },
        param_block_size: {
          anyOf: [
            { const: "auto" },
            { type: "string", pattern: "^\\s*[0-9.]+\\s*([KkMmGg][Ii])?[Bb]?\\s*$" },
            { type: "integer", minimum: 1 },
          ],
          default: 16777216,
        },
        disk_path: { anyOf: [{ type: "string" }, { type: "null" }], default: null, "x-unavailable": ["path"] },
        fuse: { type: "boolean", default: false },
        rate: { type: "number", exclusiveMinimum: 0, exclusiveMaximum: 1, default: 2e-5 },
        betas: { type: "array", prefixItems: [{ type: "number" }, { type: "number" }], default: [0.9, 0.95] },
      },
    },
  },
  properties: { offload: { $ref: "#/$defs/Offload" }, name: { type: "string" } },
};

const fields = fieldsOf(schema);
const field = (key: string): SpecField => fields.find((one) => one.key === key)!;

test("fields have the kind that their schema means", () => {
  expect(fields.map(({ key, kind }) => [key, kind])).toEqual([
    ["policy", "choice"],
    ["prefetch_window", "integer"],
    ["max_gpu_blocks", "integer"],
    ["param_block_size", "size"],
    ["disk_path", "text"],
    ["fuse", "switch"],
    ["rate", "number"],
    ["betas", "list"],
  ]);
});

test("values that can't be chosen yet are marked, and fields without any choice are fixed", () => {
  expect(
    field("policy")
      .choices.filter(({ available }) => !available)
      .map(({ value }) => value),
  ).toEqual(["clock_pro"]);
  expect([field("policy").fixed, field("disk_path").fixed, field("rate").fixed]).toEqual([false, true, false]);
});

test.each([
  ["prefetch_window", "5", 5],
  ["prefetch_window", " 1,0 ", 10],
  ["prefetch_window", "", undefined],
  ["max_gpu_blocks", "auto", "auto"],
  ["max_gpu_blocks", "50", 50],
  ["param_block_size", "4MiB", "4MiB"],
  ["param_block_size", "auto", "auto"],
  ["fuse", "true", true],
  ["rate", "2e-5", 2e-5],
  ["betas", "0.8, 0.9", [0.8, 0.9]],
])("%s typed as %j is %j", (key, text, value) => expect(readValue(field(key), text)).toEqual({ value, fault: null }));

test.each([
  ["prefetch_window", "1.5", "launch.integer"],
  ["prefetch_window", "many", "launch.number"],
  ["prefetch_window", "-1", "launch.least"],
  ["prefetch_window", "65", "launch.most"],
  ["rate", "0", "launch.above"],
  ["rate", "1", "launch.below"],
  ["param_block_size", "16MB", "launch.size"],
])("%s typed as %j is a fault", (key, text, fault) => expect(readValue(field(key), text).fault?.key).toBe(fault));

test("values are shown as people write them", () => {
  expect(showValue(field("param_block_size"), 16777216)).toBe("16MiB");
  expect(showValue(field("rate"), 2e-5)).toBe("2e-5");
  expect(showValue(field("betas"), [0.9, 0.95])).toBe("0.9, 0.95");
  expect(showValue(field("disk_path"), null)).toBe("");
});
