// The project's Python: the clone's own environment, else the one that PYTHON names.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const inVenv = process.platform === "win32" ? "../../.venv/Scripts/python.exe" : "../../.venv/bin/python";
const own = fileURLToPath(new URL(inVenv, import.meta.url));
const python = process.env.PYTHON || (existsSync(own) ? own : "python3");

/** What Python prints, run in the clone's top folder. */
export function runPython(...args) {
  return execFileSync(python, args, { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 26 });
}
