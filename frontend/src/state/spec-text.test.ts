import { expect, test } from "vitest";
import { readSpec, valueAt, writeField, writeSpec } from "./spec-text";

const TEXT = `# my run
name: starter
training:
  learning_rate: 2.0e-5  # peak
  optimizer_steps: 40
`;

test("a spec written as YAML is read back the same", () => {
  const spec = {
    name: "a: b",
    tags: ["x", "中文"],
    training: { learning_rate: 2e-5, epochs: 1.5, betas: [0.9, 0.95] },
    offload: { param_block_size: "16MiB", disk: "off" },
    samples: { prompts: [] },
  };
  expect(readSpec(writeSpec(spec))).toEqual({ values: spec, faults: [] });
});

test("an edit of the form changes its value and keeps comments and everything else", () => {
  const text = writeField(TEXT, "training.optimizer_steps", 60);
  expect(text).toContain("# my run");
  expect(text).toContain("# peak");
  expect(readSpec(text).values).toEqual({ name: "starter", training: { learning_rate: 2e-5, optimizer_steps: 60 } });
});

test("an edit of a section that is not there makes it", () => {
  expect(readSpec(writeField("", "offload.prefetch_window", 3)).values).toEqual({ offload: { prefetch_window: 3 } });
  expect(readSpec(writeField(TEXT, "model.path", "models/x")).values.model).toEqual({ path: "models/x" });
});

test("taking the last key out takes its section out", () => {
  const text = writeField("name: a\noffload:\n  prefetch_window: 3\n", "offload.prefetch_window", undefined);
  expect(readSpec(text).values).toEqual({ name: "a" });
  expect(writeField("name: a\n", "name", undefined)).toBe("");
});

test("small numbers keep an exponent", () => {
  expect(writeField("", "training.learning_rate", 2e-5)).toContain("2e-5");
});

test.each([
  ["name: a\ntraining: {x: 1\n", 2],
  ["name: a\n  bad: b\n", 1],
  ["a: 1\na: 2\n", 2],
])("a broken text names the line: %j", (text, line) => {
  const { faults } = readSpec(text);
  expect(faults[0]?.line).toBe(line);
  expect(faults[0]?.message).not.toBe("");
});

test("a text that is no mapping is a fault, an empty one is an empty spec", () => {
  expect(readSpec("- a\n- b\n").faults).toHaveLength(1);
  expect(readSpec("just words").faults).toHaveLength(1);
  expect(readSpec("\n# nothing yet\n")).toEqual({ values: {}, faults: [] });
});

test("values are found by their path", () => {
  expect(valueAt({ a: { b: 0 } }, "a.b")).toBe(0);
  expect(valueAt({ a: 3 }, "a.b")).toBeUndefined();
});
