#!/bin/sh
# Makes the secrets that compose.yaml mounts, where they are not there yet. The folder is closed to other users; the
# files in it are not, because containers read them as users of their own.
set -eu
umask 022
cd "$(dirname "$0")/secrets"
chmod 700 .

make() {
    [ -s "$1" ] || printf '%s%s\n' "$2" "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" > "$1"
}

make admin.key sk-penstock-admin-
make scrape.key sk-penstock-scrape-
make grafana.password ''
