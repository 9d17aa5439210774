/** The access token of a server that others can reach: typed in once, kept until the tab is closed, never in an address. */

const KEY = "horizon-token";
const listeners = new Set<(refused: boolean) => void>();

export function token(): string | null {
  return sessionStorage.getItem(KEY);
}

export function keepToken(value: string): void {
  sessionStorage.setItem(KEY, value);
}

/** The header of a call; none where no token is kept. */
export function authorization(): Record<string, string> {
  const kept = token();
  return kept === null ? {} : { authorization: `Bearer ${kept}` };
}

/** What a WebSocket offers: a browser can set no header on one, and the server answers the first. */
export function subprotocols(): string[] {
  const kept = token();
  return kept === null ? [] : ["horizon", `horizon.token.${kept}`];
}

/** Hear that the server wants a token, with whether it refused the one that was kept; answers how to stop. */
export function onTokenWanted(listener: (refused: boolean) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The server let us not in: forget the token, and have somebody ask for it. `tried` is the one that it refused. */
export function wantToken(tried: string | null): void {
  if (tried !== token()) return; // an answer to a call from before it was typed in
  sessionStorage.removeItem(KEY);
  for (const listener of listeners) listener(tried !== null);
}
