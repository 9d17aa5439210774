/** A WebSocket that comes back: with a growing pause, and with an address asked anew each time (so that `after` is right). */

import { subprotocols } from "../api/token";

export type SocketState = "connecting" | "open" | "waiting" | "closed";

export interface SocketHandlers {
  address: () => string;
  text?: (message: unknown) => void;
  binary?: (data: ArrayBuffer) => void;
  state?: (state: SocketState) => void;
  opened?: () => void;
  /** What the socket looks at is not there any more: it does not come back. */
  gone?: () => void;
}

const GONE = 4404;
const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 8000;

/** Pause before attempt number `attempt` (from 0), with `chance` (0 to 1) spreading it by a quarter to both sides. */
export function pauseBefore(attempt: number, chance: number): number {
  const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempt);
  return pause * (0.75 + 0.5 * chance);
}

export class ReconnectingSocket {
  private socket: WebSocket | null = null;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private attempt = 0;
  private ended = false;

  constructor(private readonly handlers: SocketHandlers) {
    this.connect();
    addEventListener("online", this.hurry);
  }

  /** Send an object, if the socket is open; whoever needs it sent again does so in `opened`. */
  send(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  close(): void {
    this.ended = true;
    removeEventListener("online", this.hurry);
    if (this.timer !== null) clearTimeout(this.timer);
    this.socket?.close();
    this.handlers.state?.("closed");
  }

  private readonly hurry = () => {
    if (this.timer === null) return;
    clearTimeout(this.timer);
    this.connect();
  };

  private connect(): void {
    this.timer = null;
    this.handlers.state?.("connecting");
    const socket = new WebSocket(this.handlers.address(), subprotocols());
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => {
      this.attempt = 0;
      this.handlers.state?.("open");
      this.handlers.opened?.();
    };
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (this.ended) return;
      if (typeof data === "string") this.handlers.text?.(JSON.parse(data));
      else this.handlers.binary?.(data);
    };
    socket.onclose = ({ code }) => {
      if (this.ended || this.socket !== socket) return;
      if (code === GONE) {
        this.close();
        this.handlers.gone?.();
        return;
      }
      this.handlers.state?.("waiting");
      this.timer = setTimeout(() => this.connect(), pauseBefore(this.attempt, Math.random()));
      this.attempt += 1;
    };
  }
}
