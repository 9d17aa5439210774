import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

const server = "http://127.0.0.1:8321";

export default defineConfig({
  plugins: [svelte()],
  // Browsers that know light-dark(): the stylesheet keeps one token per colour and is not taken apart.
  build: {
    target: ["chrome123", "firefox128", "safari17.5"],
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": { target: server, ws: true } } },
  test: { environment: "node", include: ["src/**/*.test.ts"] },
});
