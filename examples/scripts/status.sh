#!/bin/sh
# status.sh ENV says whether an environment answers. It does as soon as deploy.sh has noted something there.
set -eu
[ -e "on.$1" ] && echo ready || echo starting
