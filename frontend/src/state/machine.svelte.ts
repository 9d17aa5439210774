/** The machine and the line to the server: meters, the lamp, and every change of any run. */
import { api, socketAddress } from "../api/client";
import type { OverviewFrame, Run, SystemAnswer } from "../api/types";
import { isLive } from "../stream/fold";
import { ReconnectingSocket } from "../stream/socket";
import { whileVisible } from "./visibility";

export type Lamp = "live" | "reconnecting" | "offline";

const SYSTEM_MS = 3000;
const OFFLINE_AFTER_MS = 6000;

export const machine = $state<{
  system: SystemAnswer | null;
  lamp: Lamp;
  /** Milliseconds since anything was heard, while the lamp is not live. */
  ageMs: number;
  active: Run | null;
}>({ system: null, lamp: "reconnecting", ageMs: 0, active: null });

const listeners = new Set<(run: Run) => void>();
const departures = new Set<(id: string) => void>();
const returns = new Set<() => void>();
let heard = Date.now();
let socketOpen = false;

/** Hear of every run that changed; answers how to stop. */
export function onRunChange(listener: (run: Run) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Hear of every run that was deleted; answers how to stop. */
export function onRunGone(listener: (id: string) => void): () => void {
  departures.add(listener);
  return () => departures.delete(listener);
}

/** Hear when the server is back after it was gone; answers how to stop. */
export function onReturn(listener: () => void): () => void {
  returns.add(listener);
  return () => returns.delete(listener);
}

/** Begin to listen; answers how to stop. */
export function connectMachine(): () => void {
  const socket = new ReconnectingSocket({
    address: () => socketAddress("/stream"),
    text: (message) => take(message as OverviewFrame),
    state: (state) => {
      const wasOpen = socketOpen;
      socketOpen = state === "open";
      if (socketOpen) heard = Date.now();
      judge();
      if (socketOpen && !wasOpen) for (const listener of returns) listener();
    },
  });
  const stopPolling = whileVisible(SYSTEM_MS, () => void refresh());
  const stopJudging = whileVisible(1000, judge);
  return () => {
    socket.close();
    stopPolling();
    stopJudging();
  };
}

function take(frame: OverviewFrame): void {
  heard = Date.now();
  if (frame.type === "gone") {
    if (machine.active?.id === frame.id) machine.active = null;
    for (const listener of departures) listener(frame.id);
    return;
  }
  const { run } = frame;
  if (isLive(run.state)) machine.active = run;
  else if (machine.active?.id === run.id) machine.active = null;
  for (const listener of listeners) listener(run);
}

async function refresh(): Promise<void> {
  try {
    machine.system = await api.system();
    heard = Date.now();
    if (machine.system.active_run === null) machine.active = null;
    else if (machine.active?.id !== machine.system.active_run)
      machine.active = await api.run(machine.system.active_run);
  } catch {
    // The lamp tells: nothing was heard.
  }
  judge();
}

function judge(): void {
  const age = Date.now() - heard;
  const lamp: Lamp = socketOpen ? "live" : age > OFFLINE_AFTER_MS ? "offline" : "reconnecting";
  if (machine.lamp !== lamp) machine.lamp = lamp;
  const shown = lamp === "live" ? 0 : Math.round(age / 1000) * 1000;
  if (machine.ageMs !== shown) machine.ageMs = shown;
}
