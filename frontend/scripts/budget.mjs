// The JavaScript of the whole UI stays within its budget, and nothing that was built names another host.
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const BUDGET = 150 * 1024;
const folder = new URL("../dist/assets/", import.meta.url);
// Names of XML namespaces are written like addresses but never asked for.
const NAMESPACES = /https?:\/\/(www\.)?w3\.org\//g;

let total = 0;
const foreign = [];
for (const name of readdirSync(folder).sort()) {
  const content = readFileSync(new URL(name, folder));
  if (/\.(js|css)$/.test(name)) {
    const text = content.toString("utf8").replace(NAMESPACES, "");
    for (const found of text.matchAll(/(?:import|fetch|url)\(["']?https?:\/\/[^"')]*/g))
      foreign.push(`${name}: ${found[0]}`);
  }
  if (!name.endsWith(".js")) continue;
  const size = gzipSync(content, { level: 9 }).length;
  total += size;
  console.log(`${String(size).padStart(8)}  ${name}`);
}
console.log(`${String(total).padStart(8)}  bytes of JavaScript, gzip; the budget is ${BUDGET}`);
if (foreign.length > 0) {
  console.error(`The build asks another host:\n${foreign.join("\n")}`);
  process.exit(1);
}
if (total > BUDGET) {
  console.error(`The JavaScript is ${total - BUDGET} bytes over its budget.`);
  process.exit(1);
}
