#!/bin/sh
# Installs into a fresh folder and builds the examples against it, in the three ways that users have: pkg-config with the
# shared library, pkg-config with the static one, the CMake package. Each example runs with the path of mnist.oct as its
# one argument. The shared library exports octet_ names only, and a moved tree still works.
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2046 # pkg-config prints several words
[ -z "${OCTET_SANITIZED:-}" ] || { echo "skipped: a sanitized library needs the same flags in its users"; exit 77; }
examples=$OCTET_SOURCE_DIR/examples
cc=${OCTET_CC:-cc}
model=$examples/mnist/mnist.oct
work=$PWD/install-test
set -e
rm -rf "$work"
mkdir -p "$work"
cmake --install "$OCTET_BUILD_DIR" --prefix "$work/before" >"$work/install.log"
mv "$work/before" "$work/prefix"
export PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig"
export LD_LIBRARY_PATH="$work/prefix/lib"

"$work/prefix/bin/octet" ops >/dev/null
foreign=$(nm -D --defined-only "$work/prefix/lib/liboctet.so" | awk '$3 !~ /^octet_/ { print $3 }')
[ -z "$foreign" ] || { echo "exported beside octet_ names: $foreign"; exit 1; }

run() { (cd "$work" && "$@" "$model" >"$work/run.log") || { cat "$work/run.log"; echo "failed: $*"; exit 1; }; }

count=0
for source in "$examples"/*.c; do
  [ -e "$source" ] || continue
  name=$(basename "$source" .c)
  "$cc" -std=c17 -Wall -Wextra "$source" $(pkg-config --cflags octet) -o "$work/$name-shared" $(pkg-config --libs octet)
  run "$work/$name-shared"
  "$cc" -std=c17 -Wall -Wextra -DOCTET_STATIC "$source" $(pkg-config --cflags octet) -o "$work/$name-static" \
    "$work/prefix/lib/liboctet.a" $(pkg-config --static --libs octet | sed 's/-loctet//')
  run "$work/$name-static"
  mkdir -p "$work/$name"
  cat >"$work/$name/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.22)
project($name LANGUAGES C)
find_package(octet REQUIRED)
add_executable(with_shared $source)
target_link_libraries(with_shared PRIVATE octet::octet)
add_executable(with_static $source)
target_link_libraries(with_static PRIVATE octet::static)
EOF
  { cmake -G Ninja -S "$work/$name" -B "$work/$name/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_COMPILER="$cc" &&
    cmake --build "$work/$name/build"; } >"$work/$name/log" 2>&1 || { tail -n 30 "$work/$name/log"; exit 1; }
  run "$work/$name/build/with_shared"
  run "$work/$name/build/with_static"
  count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "skipped: no examples/*.c yet"; exit 77; }
