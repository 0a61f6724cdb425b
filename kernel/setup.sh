# Shell functions shared by ./quickstart, ./test and .ci/run: install what is missing, configure, build. Sourced from the root.

say() { printf '\n== %s\n' "$*"; }

# packages GROUP... : the packages of these groups of kernel/packages.txt
packages() {
  awk -v groups=" $* " '/^#/ || !NF { next } /^\[/ { g = substr($0, 2, length($0) - 2); next } index(groups, " " g " ") { print $1 }' kernel/packages.txt
}

# install_packages GROUP... : installs those not there; without root and sudo it prints the one line to type and ends with 3.
install_packages() {
  missing=""
  for package in $(packages "$@"); do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $package"
  done
  [ -z "$missing" ] && return 0
  say "installing:$missing"
  install="apt-get install -y --no-install-recommends$missing"
  if [ "$(id -u)" = 0 ]; then
    as_root=""
  elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo"
  else
    echo "these packages are missing and this user may not install them; type: sudo apt-get update && sudo $install" >&2
    exit 3
  fi
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086
  { $as_root apt-get update -qq && $as_root $install -qq >/dev/null; } || {
    echo "apt-get could not install:$missing; look at its message above, then run the same command again" >&2
    exit 3
  }
}

# build PRESET [TARGET...] : configures once, then builds; quiet unless it fails or runs long on a terminal.
build() {
  preset=$1
  shift
  if [ ! -f "build/$preset/build.ninja" ]; then
    cmake --preset "$preset" >"build-$preset.log" 2>&1 || { cat "build-$preset.log" >&2; rm -f "build-$preset.log"; exit 3; }
    rm -f "build-$preset.log"
  fi
  cmake --build --preset "$preset" ${*:+--target "$@"}
}
