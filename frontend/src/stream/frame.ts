/** The binary residency frame, decoded without allocating once the number of blocks is known. */

export const MAP_DEVICE_WEIGHT = 1;
export const MAP_DEVICE_GRAD = 2;
export const MAP_HOST = 3;
export const MAP_DISK = 4;

const MAGIC = 0x46525a48; // "HZRF", little-endian
const VERSION = 1;
const HEADER_BYTES = 40;

export class FrameError extends Error {}

/** One moment of the residency map. Its arrays are reused by the next frame: copy what must stay. */
export class ResidencyFrame {
  timeUs = 0;
  step = 0;
  computeStep = 0;
  stage = 0;
  direction = 0;
  window = 0;
  slotsUsed = 0;
  numBlocks = 0;
  deviceWeight = new Uint8Array(0);
  deviceGrad = new Uint8Array(0);
  host = new Uint8Array(0);
  /** All 0 where the run has no disk tier, and in recordings older than the map. */
  disk = new Uint8Array(0);

  /** Take the content of a frame. Throws FrameError on anything that is not a whole frame. */
  read(buffer: ArrayBuffer): void {
    if (buffer.byteLength < HEADER_BYTES) throw new FrameError(`residency frame of ${buffer.byteLength} bytes`);
    const view = new DataView(buffer);
    if (view.getUint32(0, true) !== MAGIC || view.getUint16(4, true) !== VERSION) {
      throw new FrameError(`not a residency frame of version ${VERSION}`);
    }
    const numMaps = view.getUint16(6, true);
    const numBlocks = view.getUint32(32, true);
    const packed = (numBlocks + 3) >> 2;
    const expected = HEADER_BYTES + numMaps * (1 + packed);
    if (buffer.byteLength !== expected) {
      throw new FrameError(`residency frame of ${buffer.byteLength} bytes, expected ${expected}`);
    }
    this.readHeader(view, numBlocks);
    const bytes = new Uint8Array(buffer);
    this.disk.fill(0);
    for (let i = 0; i < numMaps; i++) {
      const states = this.mapOf(bytes[HEADER_BYTES + i]!);
      if (states) unpack(bytes, HEADER_BYTES + numMaps + i * packed, states);
    }
  }

  private readHeader(view: DataView, numBlocks: number): void {
    this.timeUs = Number(view.getBigUint64(8, true));
    this.step = view.getUint32(16, true);
    this.computeStep = view.getUint32(20, true);
    this.stage = view.getUint32(24, true);
    this.direction = view.getUint8(28);
    this.window = view.getUint8(29);
    this.slotsUsed = view.getUint32(36, true);
    if (numBlocks !== this.numBlocks) {
      this.numBlocks = numBlocks;
      this.deviceWeight = new Uint8Array(numBlocks);
      this.deviceGrad = new Uint8Array(numBlocks);
      this.host = new Uint8Array(numBlocks);
      this.disk = new Uint8Array(numBlocks);
    }
  }

  private mapOf(id: number): Uint8Array | null {
    if (id === MAP_DEVICE_WEIGHT) return this.deviceWeight;
    if (id === MAP_DEVICE_GRAD) return this.deviceGrad;
    if (id === MAP_HOST) return this.host;
    return id === MAP_DISK ? this.disk : null; // a map of a later version: not for us
  }
}

/** Two bits a block, four blocks a byte, lowest bits first. */
function unpack(bytes: Uint8Array, start: number, states: Uint8Array): void {
  for (let i = 0; i < states.length; i++) states[i] = (bytes[start + (i >> 2)]! >> ((i & 3) * 2)) & 3;
}

/** The bytes of a base64 text. */
export function fromBase64(text: string): ArrayBuffer {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes.buffer;
}
