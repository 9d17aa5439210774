/** The server's REST calls. Every failure is an ApiProblem; what to show of it is the caller's choice. */

import { authorization, token, wantToken } from "./token";
import type {
  ChangedKnobs,
  DatasetsAnswer,
  EventsAnswer,
  ExampleAnswer,
  FieldProblem,
  Freed,
  KnobsAnswer,
  KnobValue,
  LogAnswer,
  ModelsAnswer,
  Problem,
  ResidencyAnswer,
  Run,
  RunDetail,
  RunPage,
  SeriesAnswer,
  SpecDocument,
  SystemAnswer,
} from "./types";

const ROOT = "/api/v1";

/** A call that did not succeed. `status` is 0 where the server could not be reached. */
export class ApiProblem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly errors: FieldProblem[],
  ) {
    super(detail || title);
  }

  get unreachable(): boolean {
    return this.status === 0;
  }
}

interface Call {
  method?: "GET" | "POST" | "PATCH" | "DELETE";
  body?: unknown;
  headers?: Record<string, string>;
  query?: Record<string, string | number | null | undefined>;
  signal?: AbortSignal;
}

async function call<T>(
  path: string,
  { method = "GET", body, headers = {}, query = {}, signal }: Call = {},
): Promise<T> {
  const pairs = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
  let response: Response;
  const tried = token();
  try {
    response = await fetch(`${ROOT}${path}${search ? `?${search}` : ""}`, {
      method,
      headers: {
        accept: "application/json",
        ...authorization(),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiProblem(0, "unreachable", "", []);
  }
  if (response.status === 401) wantToken(tried);
  if (!response.ok) throw await problemOf(response);
  return (await response.json()) as T;
}

async function problemOf(response: Response): Promise<ApiProblem> {
  try {
    const problem = (await response.json()) as Partial<Problem>;
    return new ApiProblem(
      response.status,
      problem.title ?? response.statusText,
      problem.detail ?? "",
      problem.errors ?? [],
    );
  } catch {
    return new ApiProblem(response.status, `${response.status} ${response.statusText}`.trim(), "", []);
  }
}

export interface RunQuery {
  state?: string;
  q?: string;
  sort?: string;
  limit?: number;
  cursor?: string | null;
}

export interface SeriesQuery {
  keys: readonly string[];
  from?: number | undefined;
  to?: number | undefined;
  maxPoints: number;
}

const at = (id: string) => `/runs/${encodeURIComponent(id)}`;

export const api = {
  runs: (query: RunQuery, signal?: AbortSignal) =>
    call<RunPage>("/runs", { query: { ...query }, ...(signal ? { signal } : {}) }),
  run: (id: string) => call<RunDetail>(at(id)),
  create: (spec: SpecDocument, key: string) =>
    call<RunDetail>("/runs", { method: "POST", body: { spec, start: true }, headers: { "idempotency-key": key } }),
  stop: (id: string, save: boolean) => call<Run>(`${at(id)}/stop`, { method: "POST", body: { save } }),
  pause: (id: string) => call<Run>(`${at(id)}/pause`, { method: "POST", body: {} }),
  saveNow: (id: string) => call<Run>(`${at(id)}/checkpoint`, { method: "POST" }),
  knobs: (id: string) => call<KnobsAnswer>(`${at(id)}/knobs`),
  setKnobs: (id: string, values: Partial<Record<string, KnobValue>>, version: number) =>
    call<ChangedKnobs>(`${at(id)}/knobs`, {
      method: "PATCH",
      body: values,
      headers: { "if-match": `"${version}"` },
    }),
  undoKnob: (id: string, number: number) =>
    call<ChangedKnobs>(`${at(id)}/knobs/undo`, { method: "POST", body: { number } }),
  resume: (id: string) => call<Run>(`${at(id)}/resume`, { method: "POST", body: {} }),
  remove: (id: string) => call<Freed>(at(id), { method: "DELETE" }),
  series: (id: string, { keys, from, to, maxPoints }: SeriesQuery) =>
    call<SeriesAnswer>(`${at(id)}/metrics`, { query: { keys: keys.join(","), from, to, max_points: maxPoints } }),
  residency: (id: string) => call<ResidencyAnswer>(`${at(id)}/residency`),
  logs: (id: string, query: { before?: number; limit: number }) => call<LogAnswer>(`${at(id)}/logs`, { query }),
  events: (id: string, query: { after: number; limit: number }) => call<EventsAnswer>(`${at(id)}/events`, { query }),
  system: () => call<SystemAnswer>("/system"),
  models: () => call<ModelsAnswer>("/models"),
  datasets: () => call<DatasetsAnswer>("/datasets"),
  schema: () => call<Record<string, unknown>>("/spec/schema"),
  example: () => call<ExampleAnswer>("/examples", { method: "POST" }),
};

/** Address of a WebSocket of this server. */
export function socketAddress(path: string): string {
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${ROOT}${path}`;
}
