#!/bin/sh
# deploy.sh ENV VERSION stands for a deployment: it notes in the workspace of the task what is on an environment.
set -eu
echo "$2" >"on.$1"
echo "deployed $2 to $1"
