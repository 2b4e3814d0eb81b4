#!/usr/bin/env python3
# Checks the include rules of include_rules.txt, and that each header compiles alone (the public one also as C++).
# Prints FILE:LINE for each violation and exits with 1 if there is one. Reads nothing but the tree it stands in.
# SPDX-License-Identifier: MIT
"""Usage: check_includes.py [--root DIR] [--no-compile]; OCTET_CC or CC, and CXX, name the compilers (gcc, g++)."""
import argparse
import fnmatch
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
PUBLIC = "octet/octet.h"


def read_rules(path):
    """({folder or file pattern: set of folders it may include}, [patterns of template headers])"""
    rules, templates = {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        if line.startswith("template "):
            templates.append(line.split()[1])
            continue
        key, colon, allowed = line.partition(":")
        if not colon:
            sys.exit(f"{path}:{number}: expected FOLDER: ALLOWED...")
        rules[key.strip()] = set(allowed.split())
    return rules, templates


def sources(root, folder):
    base = root / folder
    return sorted(p for p in base.rglob("*") if p.suffix in (".c", ".h", ".inc")) if base.is_dir() else []


def rule_of(rules, relative):
    """(name of the file's own folder, what it may include) or None when no rule speaks of it."""
    for pattern, allowed in rules.items():
        if "/" in pattern and fnmatch.fnmatch(str(relative), pattern):
            return pattern, allowed
    parts = relative.parts
    folder = parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]
    return (folder, rules[folder]) if folder in rules else None


def resolve(root, file, quoted, name):
    """The file of this project that an #include means, relative to the root, or None for a system header."""
    places = [root / "src", root / "include"]
    if quoted:
        places.insert(0, file.parent)
    for place in places:
        candidate = pathlib.Path(os.path.normpath(place / name))
        if candidate.is_file() and candidate.is_relative_to(root):
            return candidate.relative_to(root)
    return None


def problem(root, rules, file, quoted, name):
    """Why this #include is against the rules, or None."""
    relative = file.relative_to(root)
    rule = rule_of(rules, relative)
    if rule is None:
        return "this file's folder has no line in include_rules.txt"
    own, allowed = rule
    target = resolve(root, file, quoted, name)
    if target is None:
        return None  # a system header, or one that the build makes
    parts = target.parts
    if parts[0] == "include":
        return None  # the public header is for everybody
    if parts[0] == "cli":
        return None if own == "cli" else "only cli may include cli"
    folder = parts[1] if len(parts) > 2 else "src"
    if folder == own or folder in allowed or (folder == "src" and "/" in own):
        return None
    listed = ", ".join(sorted(allowed)) or "nothing else"
    return f"{own} may not include {folder} (\"{name}\"); it may include: {listed}"


def check_rules(root, rules):
    failures = 0
    for file in sources(root, "src") + sources(root, "include") + sources(root, "cli"):
        if file.relative_to(root).parts[0] == "include":
            continue
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            reason = problem(root, rules, file, match.group(1) == '"', match.group(2)) if match else None
            if reason:
                print(f"{file.relative_to(root)}:{number}: {reason}")
                failures += 1
    return failures


def compiles(root, command, header, suffix):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / f"alone{suffix}"
        # Twice, for the include guard; the declaration because an empty translation unit is no C.
        source.write_text(f'#include "{header}"\n#include "{header}"\nextern int octet_header_alone;\n')
        flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-psabi", f"-I{root}/src", f"-I{root}/include", f"-I{root}/cli"]
        result = subprocess.run([*command, *flags, str(source)], capture_output=True, text=True)
    return "" if result.returncode == 0 else "\n".join(result.stderr.strip().splitlines()[:8])


def check_headers(root, templates):
    failures = 0
    env = os.environ
    c, cxx = shlex.split(env.get("OCTET_CC") or env.get("CC") or "gcc"), shlex.split(env.get("CXX") or "g++")
    jobs = [(c + ["-std=c17"], PUBLIC, ".c"), (cxx + ["-std=c++11"], PUBLIC, ".cc")]
    if not shutil.which(cxx[0]):
        print(f"{PUBLIC} as C++: skipped, there is no {cxx[0]}")
        jobs.pop()
    for folder in ("src", "cli"):
        for path in sources(root, folder):
            template = any(fnmatch.fnmatch(str(path.relative_to(root)), pattern) for pattern in templates)
            if path.suffix == ".h" and not template:
                jobs.append((c + ["-std=c17"], str(path.relative_to(root / folder)), ".c"))
    for command, header, suffix in jobs:
        error = compiles(root, command, header, suffix)
        if error:
            print(f"{header}:1: does not compile alone with {' '.join(command)}:\n{error}")
            failures += 1
    return failures


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=here.parent)
    parser.add_argument("--no-compile", action="store_true", help="only the include rules")
    options = parser.parse_args()
    root = options.root.resolve()
    rules, templates = read_rules(here / "include_rules.txt")
    failures = check_rules(root, rules)
    if not options.no_compile:
        failures += check_headers(root, templates)
    print(f"include rules: {failures} violation{'' if failures == 1 else 's'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
