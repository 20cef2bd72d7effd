#!/bin/sh
# Makes a folder with a git repository of two commits, an agent that reviews the second one, and the script that stands for its
# model:
#
#   examples/review-agent/setup.sh ~/review
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || { printf 'usage: %s FOLDER\n' "$0" >&2; exit 2; }
mkdir "$1" # fails if it exists
root=$(cd "$1" && pwd -P)
cp "$here"/project/* "$root"
mkdir -p "$root/.orch/agents" "$root/.orch/models"
cp "$here/agent.yaml" "$root/.orch/agents/review.yaml"
sed "s|ROOT|$root|" "$here/script.yaml" >"$root/.orch/models/review.yaml"
cd "$root"
git init -q
printf '.orch/\n' >>.git/info/exclude
commit() { git add . && git -c user.name=Ada -c user.email=ada@example.com commit -q -m "$1"; }
commit 'feat: read items'
git apply "$here/change.patch"
commit 'feat: compute the average price'
