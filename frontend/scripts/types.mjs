// What is made from the server's own code: src/api/schema.gen.ts from its OpenAPI document, and the frames that the
// decoder is tested against. With --check it only says whether both are fresh.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";
import { runPython } from "./python.mjs";

const OUT = fileURLToPath(new URL("../src/api/schema.gen.ts", import.meta.url));
const FRAMES = "frontend/scripts/frame_fixture.py";

const document = JSON.parse(runPython("-m", "horizon_app.api.openapi_export"));
// `paths` only repeats the routes; what the UI needs are the shapes.
const types = astToString(
  await openapiTS({ ...document, paths: {} }, { alphabetize: true, defaultNonNullable: false }),
);
const text = `// Made by scripts/types.mjs from the server's OpenAPI document. Do not edit.\n\n${types}`;

if (!process.argv.includes("--check")) {
  writeFileSync(OUT, text);
  runPython(FRAMES);
  console.log("types: written");
} else if (!existsSync(OUT) || readFileSync(OUT, "utf8") !== text) {
  console.error("types: src/api/schema.gen.ts is stale; run `npm run types`");
  process.exit(1);
} else {
  runPython(FRAMES, "--check");
  console.log("types: fresh");
}
