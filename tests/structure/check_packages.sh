#!/bin/sh
# Every file that the build read (`ninja -t deps`) and every library that the programs load (`ldd`) must come from a package in the
# dependency closure of the groups build and test of kernel/packages.txt: so a machine that holds more hides nothing.
#   check_packages.sh BUILD_FOLDER
set -eu
folder=$1
. kernel/setup.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# shellcheck disable=SC2046
apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances $(packages build test) 2>/dev/null |
  sed -n 's/^\([a-z0-9][^ :]*\).*$/\1/p' | sort -u >"$scratch/closure"
dpkg-query -W -f='${Essential} ${binary:Package}\n' | sed -n 's/^yes \([^:]*\).*/\1/p' >>"$scratch/closure"
sort -u -o "$scratch/closure" "$scratch/closure"

ninja -C "$folder" -t deps | sed -n 's/^  *\(\/.*\)$/\1/p' | sort -u >"$scratch/files"
for program in "$folder"/bin/moiety "$folder"/bin/moiety-data "$folder"/bin/moiety-worker "$folder"/lib/moiety/*.moiety.so; do
  ldd "$program" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p'
done | sort -u >>"$scratch/files"

root=$(pwd)
while read -r file; do
  real=$(readlink -f "$file")
  case $real in "$root"/*) continue ;; esac
  echo "$real"
done <"$scratch/files" | sort -u >"$scratch/real"
# Before the merge of /lib into /usr/lib, dpkg knows some files under their old place.
{ cat "$scratch/real"; sed -n 's|^/usr/lib/|/lib/|p' "$scratch/real"; } | xargs -n 400 dpkg-query -S 2>/dev/null |
  sed -n 's|^\([^:,]*\)[^/]*: \(/.*\)$|\2 \1|p' | sed 's|^/lib/|/usr/lib/|' >"$scratch/owners" || true
awk -v closure="$scratch/closure" -v owners="$scratch/owners" '
  BEGIN {
    while ((getline line < closure) > 0) known[line] = 1
    while ((getline line < owners) > 0) { split(line, part, " "); owner[part[1]] = part[2] }
  }
  !($0 in owner) { print $0 " belongs to no package"; next }
  !(owner[$0] in known) { print $0 " belongs to " owner[$0] ", which kernel/packages.txt does not bring" }' "$scratch/real" >"$scratch/bad"
count=$(wc -l <"$scratch/real")
[ "$count" -gt 100 ] || { echo "only $count files found: is $folder built with Ninja?" >&2; exit 1; }
cat "$scratch/bad"
echo "$count files of $(wc -l <"$scratch/closure") packages, $(wc -l <"$scratch/bad") not accounted for"
[ ! -s "$scratch/bad" ]
