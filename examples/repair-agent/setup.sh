#!/bin/sh
# Makes a folder with a git repository, an agent that mends it, and the script that stands for its model:
#
#   examples/repair-agent/setup.sh ~/repair
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || { printf 'usage: %s FOLDER\n' "$0" >&2; exit 2; }
mkdir "$1" # fails if it exists
root=$(cd "$1" && pwd -P)
cp "$here"/project/* "$root"
mkdir -p "$root/.orch/agents" "$root/.orch/models"
cp "$here/agent.yaml" "$root/.orch/agents/repair.yaml"
sed "s|ROOT|$root|" "$here/script.yaml" >"$root/.orch/models/repair.yaml"
cd "$root"
git init -q
printf '.orch/\n' >>.git/info/exclude
git add .
git -c user.name=Ada -c user.email=ada@example.com commit -q -m 'feat: every third piece is free'
