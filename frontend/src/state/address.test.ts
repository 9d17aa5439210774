import { expect, test } from "vitest";
import { DEFAULT_SORT, nextSort, type RunsState, readRuns, routeOf, runPath, writeRuns } from "./address";

test.each([
  ["/", { page: "runs" }],
  ["/runs", { page: "runs" }],
  ["/new", { page: "new" }],
  ["/runs/20261129-150638-ecb4c8", { page: "run", id: "20261129-150638-ecb4c8" }],
  ["/elsewhere", { page: "missing" }],
])("path %s is its route", (path, route) => expect(routeOf(path)).toEqual(route));

test("a run's path leads back to the run", () => {
  expect(routeOf(runPath("a b/ü"))).toEqual({ page: "run", id: "a b/ü" });
  expect(runPath("x", "log")).toBe("/runs/x?tab=log");
});

test.each<RunsState>([
  { tab: "all", q: "", sort: DEFAULT_SORT },
  { tab: "failed", q: "llama & 中文 50%", sort: "loss" },
  { tab: "live", q: "", sort: "-step" },
])("history %j written into the address is read back", (state) => {
  expect(readRuns(new URL(writeRuns(state), "http://localhost").searchParams)).toEqual(state);
});

test("the plain history has a plain address, and unknown words mean the default", () => {
  expect(writeRuns({ tab: "all", q: "", sort: DEFAULT_SORT })).toBe("/");
  expect(readRuns(new URLSearchParams("state=nonsense")).tab).toBe("all");
});

test("clicks on columns turn the order round and begin as the column asks", () => {
  expect(nextSort("-created_at", "created_at", true)).toBe("created_at");
  expect(nextSort("created_at", "created_at", true)).toBe("-created_at");
  expect(nextSort("-created_at", "name", false)).toBe("name");
  expect(nextSort("name", "step", true)).toBe("-step");
});
