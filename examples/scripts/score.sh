#!/bin/sh
# score.sh FILE doubles the number in a file. It fails now and then, as scripts do: the first time for every fourth number,
# and always for a file without a number.
set -eu
number=$(cat "$1")
case $number in *[!0-9]*) echo "$1 has no number" >&2; exit 1 ;; esac
if [ $((number % 4)) -eq 0 ] && [ ! -e "seen.$number" ]; then touch "seen.$number"; exit 1; fi
echo $((number * 2))
