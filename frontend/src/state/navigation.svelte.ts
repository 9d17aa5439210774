/** Where the reader is: the browser's own history, observed. */
import { type Route, routeOf } from "./address";

const here = $state({ path: location.pathname, search: location.search });

addEventListener("popstate", () => update());

function update(): void {
  here.path = location.pathname;
  here.search = location.search;
}

/** The page to show. */
export const route = (): Route => routeOf(here.path);

/** What stands behind the question mark. */
export const search = (): URLSearchParams => new URLSearchParams(here.search);

/** Go to an address of this page; `replace` leaves no step to go back to. */
export function go(address: string, replace = false): void {
  if (address === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  update();
  if (!replace) scrollTo(0, 0);
}

/** For links: a plain click stays inside the page, everything else is the browser's business. */
export function follow(event: MouseEvent): void {
  const link = (event.currentTarget as HTMLElement).closest("a");
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !plain || event.defaultPrevented) return;
  event.preventDefault();
  go(link.pathname + link.search);
}
