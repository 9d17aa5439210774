"""Reports of runs: self-contained HTML files without a script, with the curves drawn here as SVG."""
