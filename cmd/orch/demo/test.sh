#!/bin/sh
# test.sh checks add.sh.
cd "$(dirname "$0")" || exit
got=$(sh ./add.sh 2 3)
if [ "$got" != 5 ]; then
	echo "FAIL: 2 + 3 is $got"
	exit 1
fi
echo "PASS"
