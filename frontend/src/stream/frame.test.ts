import { describe, expect, test } from "vitest";
import { FrameError, fromBase64, ResidencyFrame } from "./frame";
import cases from "./frame.fixture.json";

describe("residency frame", () => {
  test.each(cases)("of $header.num_blocks blocks as Python wrote it reads the same", ({ frame, header, maps }) => {
    const read = new ResidencyFrame();
    read.read(fromBase64(frame));
    expect(read.timeUs).toBe(header.time_us);
    expect([read.step, read.computeStep, read.stage]).toEqual([header.step, header.compute_step, header.stage]);
    expect([read.direction, read.window, read.slotsUsed]).toEqual([header.direction, header.window, header.slots_used]);
    expect(Array.from(read.deviceWeight)).toEqual(maps.DEVICE_WEIGHT);
    expect(Array.from(read.deviceGrad)).toEqual(maps.DEVICE_GRAD);
    expect(Array.from(read.host)).toEqual(maps.HOST);
    expect(Array.from(read.disk)).toEqual(maps.DISK ?? Array(header.num_blocks).fill(0));
  });

  test("without a disk map forgets the disk of the frame before", () => {
    const read = new ResidencyFrame();
    read.read(fromBase64(cases[3]!.frame));
    expect(read.disk.some((state) => state > 0)).toBe(true);
    read.read(fromBase64(cases[4]!.frame));
    expect(read.disk.every((state) => state === 0)).toBe(true);
  });

  test("read twice keeps its arrays while the number of blocks stays", () => {
    const read = new ResidencyFrame();
    read.read(fromBase64(cases[3]!.frame));
    const before = read.host;
    read.read(fromBase64(cases[3]!.frame));
    expect(read.host).toBe(before);
    read.read(fromBase64(cases[2]!.frame));
    expect(read.host).toHaveLength(7);
  });

  test.each([
    ["cut short", (bytes: Uint8Array) => bytes.slice(0, -1)],
    ["of another kind", (bytes: Uint8Array) => bytes.with(0, 0)],
    ["of another version", (bytes: Uint8Array) => bytes.with(4, 9)],
    ["smaller than a header", (bytes: Uint8Array) => bytes.slice(0, 12)],
  ])("%s is refused", (_, spoil) => {
    const bytes = new Uint8Array(fromBase64(cases[3]!.frame));
    expect(() => new ResidencyFrame().read(spoil(bytes).buffer as ArrayBuffer)).toThrow(FrameError);
  });
});
