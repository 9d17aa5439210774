// Writes src/api/schema.gen.ts from the server's OpenAPI document, or with --check says whether it is fresh.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const OUT = fileURLToPath(new URL("../src/api/schema.gen.ts", import.meta.url));
const venv = fileURLToPath(
  new URL(process.platform === "win32" ? "../../.venv/Scripts/python.exe" : "../../.venv/bin/python", import.meta.url),
);
const python = process.env.PYTHON || (existsSync(venv) ? venv : "python3");

const document = JSON.parse(
  execFileSync(python, ["-m", "horizon_app.api.openapi_export"], { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 26 }),
);
// `paths` only repeats the routes; what the UI needs are the shapes.
const types = astToString(
  await openapiTS({ ...document, paths: {} }, { alphabetize: true, defaultNonNullable: false }),
);
const text = `// Made by scripts/types.mjs from the server's OpenAPI document. Do not edit.\n\n${types}`;

if (!process.argv.includes("--check")) {
  writeFileSync(OUT, text);
  console.log("types: written");
} else if (!existsSync(OUT) || readFileSync(OUT, "utf8") !== text) {
  console.error("types: src/api/schema.gen.ts is stale; run `npm run types`");
  process.exit(1);
} else {
  console.log("types: fresh");
}
