/** The page's address as a route and back. Pure: all of a view's state that is worth a link lies in it. */

export type Route = { page: "runs" } | { page: "new" } | { page: "run"; id: string } | { page: "missing" };

export interface RunsState {
  tab: RunsTab;
  q: string;
  sort: string;
}

export const RUNS_TABS = ["all", "live", "queued", "finished", "stopped", "failed", "interrupted"] as const;
export type RunsTab = (typeof RUNS_TABS)[number];
export const DEFAULT_SORT = "-created_at";

export const RUN_TABS = ["overview", "log", "config"] as const;
export type RunTab = (typeof RUN_TABS)[number];

/** Which page a path means. */
export function routeOf(path: string): Route {
  const parts = path.split("/").filter(Boolean);
  if (parts.length === 0 || (parts.length === 1 && parts[0] === "runs")) return { page: "runs" };
  if (parts.length === 1 && parts[0] === "new") return { page: "new" };
  if (parts.length === 2 && parts[0] === "runs") return { page: "run", id: decodeURIComponent(parts[1]!) };
  return { page: "missing" };
}

/** The path of a run's page. */
export function runPath(id: string, tab: RunTab = "overview"): string {
  return `/runs/${encodeURIComponent(id)}${tab === "overview" ? "" : `?tab=${tab}`}`;
}

/** What the history shows, from the address. Words it does not know mean the default. */
export function readRuns(search: URLSearchParams): RunsState {
  const tab = search.get("state") as RunsTab | null;
  return {
    tab: tab !== null && RUNS_TABS.includes(tab) ? tab : "all",
    q: search.get("q") ?? "",
    sort: search.get("sort") ?? DEFAULT_SORT,
  };
}

/** The address of the history in a state; defaults are left out. */
export function writeRuns({ tab, q, sort }: RunsState): string {
  const search = new URLSearchParams();
  if (tab !== "all") search.set("state", tab);
  if (q !== "") search.set("q", q);
  if (sort !== DEFAULT_SORT) search.set("sort", sort);
  const text = search.toString();
  return text === "" ? "/" : `/?${text}`;
}

/** The server's `state` filter of a tab; none for all. */
export function statesOf(tab: RunsTab): string | undefined {
  if (tab === "all") return undefined;
  return tab === "live" ? "starting,running,paused,stopping" : tab;
}

/** The sort order after a click on a column: the same column turns round, another begins as asked. */
export function nextSort(current: string, key: string, descendingFirst: boolean): string {
  if (current === key) return `-${key}`;
  if (current === `-${key}`) return key;
  return descendingFirst ? `-${key}` : key;
}
