/** Icons: a 16-unit box, one stroke. */
export const ICONS = {
  runs: "M2.5 4h11M2.5 8h11M2.5 12h7",
  plus: "M8 3v10M3 8h10",
  find: "M7 11.5a4.5 4.5 0 1 0 0-9a4.5 4.5 0 0 0 0 9zM10.3 10.3L14 14",
  play: "M5 3.5v9l7-4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  stop: "M4 4h8v8H4z",
  wait: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 5v3l2 1.5",
  check: "M3 8.5l3.5 3.5L13 4.5",
  x: "M4 4l8 8M12 4l-8 8",
  warn: "M8 2.5L14.5 13.5h-13zM8 6.5v3.5M8 12v.01",
  bad: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 5v4M8 11.2v.01",
  ok: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM5.3 8.2l2 2 3.5-4",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 9h6l.5-9",
  save: "M8 2.5v7.5M4.8 7L8 10.2 11.2 7M3 13.5h10",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  right: "M6.5 4L10.5 8 6.5 12",
  auto: "M8 2.5v11M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 1 1 0-11M10 4.5v7M12 6v4",
  light:
    "M8 10.8a2.8 2.8 0 1 0 0-5.6a2.8 2.8 0 0 0 0 5.6zM8 1.8v1.4M8 12.8v1.4M1.8 8h1.4M12.8 8h1.4M3.6 3.6l1 1M11.4 11.4l1 1M3.6 12.4l1-1M11.4 4.6l1-1",
  dark: "M13.2 9.6A5.6 5.6 0 0 1 6.4 2.8a5.6 5.6 0 1 0 6.8 6.8z",
  reset: "M3 8a5 5 0 1 0 1.6-3.7M3 2.5V5h2.5",
} as const;

export type IconName = keyof typeof ICONS;
