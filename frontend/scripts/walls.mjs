// The walls between the rooms of src/: each room may import itself and the rooms below it, and no module another in a circle.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

const SRC = fileURLToPath(new URL("../src/", import.meta.url));
const MAY_IMPORT = {
  format: [],
  i18n: ["format"],
  styles: [],
  canvas: ["format"],
  api: ["format", "i18n"],
  stream: ["format", "i18n", "api"],
  state: ["format", "i18n", "api", "stream"],
  components: ["format", "i18n", "api", "stream", "state", "canvas"],
  views: ["format", "i18n", "api", "stream", "state", "canvas", "components"],
};

function files(folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : /\.(ts|svelte)$/.test(name) ? [path] : [];
  });
}

function target(from, spec) {
  const path = resolve(dirname(from), spec);
  return [path, `${path}.ts`, join(path, "index.ts")].find((name) => existsSync(name) && statSync(name).isFile());
}

const IMPORT =
  /(?:import|export)\s+(?:type\s+)?(?:[\w*{}\s,$]+\s+from\s+)?["'](\.[^"']+)["']|import\(\s*["'](\.[^"']+)["']\s*\)/g;
const room = (path) => relative(SRC, path).split(sep)[0];
const edges = new Map();
const faults = [];

for (const file of files(SRC)) {
  const to = [];
  for (const [, plain, lazy] of readFileSync(file, "utf8").matchAll(IMPORT)) {
    const found = target(file, plain ?? lazy);
    if (found === undefined) {
      faults.push(`${relative(SRC, file)} imports ${plain ?? lazy}, which is not there`);
      continue;
    }
    to.push(found);
    const [here, there] = [room(file), room(found)];
    if (here in MAY_IMPORT && here !== there && !MAY_IMPORT[here].includes(there)) {
      faults.push(`${relative(SRC, file)} imports ${relative(SRC, found)}: ${here} may not see ${there}`);
    }
  }
  edges.set(file, to);
}

const done = new Set();
function visit(file, trail) {
  if (trail.includes(file)) {
    faults.push(
      `circle: ${[...trail.slice(trail.indexOf(file)), file].map((name) => relative(SRC, name)).join(" > ")}`,
    );
    return;
  }
  if (done.has(file)) return;
  for (const next of edges.get(file) ?? []) visit(next, [...trail, file]);
  done.add(file);
}
for (const file of edges.keys()) visit(file, []);

if (faults.length > 0) {
  console.error(faults.join("\n"));
  process.exit(1);
}
console.log(`walls: ${edges.size} modules, none crossed`);
