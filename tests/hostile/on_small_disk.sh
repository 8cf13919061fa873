#!/bin/sh
# on_small_disk.sh BASE SIZE OUT COMMAND...: runs a command with a tmpfs of SIZE at BASE, which only
# it sees (call through `unshare -m`), and copies what was recorded there to OUT.
base=$1 size=$2 out=$3
shift 3
mount -t tmpfs -o size="$size" tmpfs "$base" || exit 99
mkdir -m 700 "$base/rec" "$base/live"
ln -s "$base/live" "$base/rec/active"
"$@"
code=$?
mkdir -p "$out"
cp "$base"/rec/*.flr "$base"/live/*.flr "$out" 2>/dev/null
exit $code
