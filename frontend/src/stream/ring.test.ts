import { expect, test } from "vitest";
import { RingColumn } from "./ring";

const filled = (capacity: number, points: number) => {
  const ring = new RingColumn(capacity);
  for (let i = 1; i <= points; i++) ring.push(i, i * 10);
  return ring;
};

test("ring below its capacity gives all points in order", () => {
  const ring = filled(4, 3);
  expect(Array.from(ring.columns().x)).toEqual([1, 2, 3]);
  expect(Array.from(ring.columns().y)).toEqual([10, 20, 30]);
  expect(ring.dropped).toBe(false);
});

test("ring beyond its capacity keeps the newest and says that it dropped", () => {
  const ring = filled(4, 11);
  expect(Array.from(ring.columns().x)).toEqual([8, 9, 10, 11]);
  expect(Array.from(ring.columns().y)).toEqual([80, 90, 100, 110]);
  expect(ring.dropped).toBe(true);
  expect([ring.lastX, ring.lastY]).toEqual([11, 110]);
});

test("ring given a step again or an older one does not take it", () => {
  const ring = filled(4, 3);
  expect(ring.push(3, 99)).toBe(false);
  expect(ring.push(1, 99)).toBe(false);
  expect(Array.from(ring.columns().y)).toEqual([10, 20, 30]);
});

test("ring given null holds a gap", () => {
  const ring = filled(4, 1);
  ring.push(2, null);
  expect(ring.columns().y[1]).toBeNaN();
});

test("ring tail that wraps gives the newest in order", () => {
  expect(Array.from(filled(4, 6).tail(3))).toEqual([40, 50, 60]);
  expect(Array.from(filled(4, 2).tail(3))).toEqual([10, 20]);
});

test("ring replaced begins anew", () => {
  const ring = filled(2, 9);
  ring.replace([5, 6], [1, null]);
  expect(Array.from(ring.columns().x)).toEqual([5, 6]);
  expect(ring.dropped).toBe(false);
  expect(ring.lastY).toBeNaN();
});

test("empty ring has no points and nothing newest", () => {
  const ring = new RingColumn(3);
  expect(ring.columns().x).toHaveLength(0);
  expect(ring.lastX).toBe(Number.NEGATIVE_INFINITY);
  expect(ring.tail(5)).toHaveLength(0);
});
