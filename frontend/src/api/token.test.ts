import { beforeEach, expect, test, vi } from "vitest";
import { authorization, keepToken, onTokenWanted, subprotocols, token, wantToken } from "./token";

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
  });
});

test("without a token nothing is sent", () => {
  expect(authorization()).toEqual({});
  expect(subprotocols()).toEqual([]);
});

test("a kept token goes with calls and sockets", () => {
  keepToken("abc");
  expect(authorization()).toEqual({ authorization: "Bearer abc" });
  expect(subprotocols()).toEqual(["horizon", "horizon.token.abc"]);
});

test("a refused token is forgotten and asked for, once", () => {
  const heard: boolean[] = [];
  const stop = onTokenWanted((refused) => heard.push(refused));
  wantToken(null);
  keepToken("old");
  wantToken("old");
  expect(token()).toBeNull();
  keepToken("new");
  wantToken("old"); // an answer that was on its way
  expect(token()).toBe("new");
  stop();
  wantToken("new");
  expect(heard).toEqual([false, true]);
});
