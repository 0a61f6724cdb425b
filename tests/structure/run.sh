#!/bin/sh
# run.sh BUILD_FOLDER: the checks of the tree's structure, and that they see a planted violation.
set -eu
cd "$(dirname "$0")/../.."
folder=$1
check=tests/structure/check_dependencies.sh

ninja -C "$folder" -t deps | $check
planted() { # planted OBJECT HEADER
  if printf '%s: #deps 1, deps mtime 0 (VALID)\n    %s\n' "$1" "$2" | $check >/dev/null; then
    echo "the dependency check does not see $1 including $2" >&2
    exit 1
  fi
}
planted registry/CMakeFiles/x.dir/a.cpp.o /usr/include/ATen/ATen.h
planted kernel/host/CMakeFiles/x.dir/a.cpp.o /usr/include/c10/util/Exception.h
planted kernel/data/CMakeFiles/x.dir/a.cpp.o /usr/include/torch/script.h
planted plugins/CMakeFiles/top-k.dir/a.cpp.o /src/kernel/engine/model/gpt.h
planted kernel/engine/CMakeFiles/x.dir/a.cpp.o /src/plugins/routers/top_k/top_k.h
planted registry/CMakeFiles/x.dir/a.cpp.o /src/kernel/host/catalog.h

# No component's code lies in the worker: it comes from plugins alone.
if nm -C --defined-only "$folder/bin/moiety-worker" | grep -E 'moiety_plugin_v1|moiety_components' ; then
  echo "the worker holds a component" >&2
  exit 1
fi
tests/structure/check_packages.sh "$folder"
