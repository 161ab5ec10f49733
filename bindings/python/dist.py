#!/usr/bin/env python3
"""Copies the sources that the package needs in the place of the link to this repository. Meson runs
this program for a source distribution."""

import os
import shutil

made = os.environ["MESON_PROJECT_DIST_ROOT"]
top = os.path.realpath(os.path.join(os.environ["MESON_PROJECT_SOURCE_ROOT"], "..", ".."))
target = os.path.join(made, "subprojects", "dfccl")
if os.path.islink(target):
    os.remove(target)
elif os.path.isdir(target):
    shutil.rmtree(target)
os.makedirs(target)
for name in ("LICENSE", "meson.build", "meson_options.txt"):
    shutil.copy(os.path.join(top, name), target)
os.makedirs(os.path.join(target, "bench"))
shutil.copy(os.path.join(top, "bench", "meson.build"), os.path.join(target, "bench"))
for name in (
    "include",
    "src",
    "traces",
    "simulator",
    "bench/common",
    "bench/info",
    "bench/synthesise",
    "bench/top",
    "bench/trace",
):
    shutil.copytree(os.path.join(top, name), os.path.join(target, name))
os.makedirs(os.path.join(target, "scripts"))
shutil.copy(os.path.join(top, "scripts", "after-install"), os.path.join(target, "scripts"))
