#!/bin/sh
# add.sh A B prints the sum of two numbers.
echo $(($1 - $2))
