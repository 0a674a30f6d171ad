#!/bin/sh
# Copies one sealed segment of the audit journal to object storage, where nobody can change or remove it for a time.
#
#   observability: {journal: {ship: [/etc/penstock/ship-journal.sh, BUCKET, DAYS]}}
#
# Penstock adds the segment's path. The bucket must have been made with object lock; who runs this needs s3:PutObject
# and s3:PutObjectRetention and no other right. Anything but status 0 makes Penstock try again.
set -eu
bucket=$1 days=$2 segment=$3
chain=$(basename "$(dirname "$segment")")
until=$(date -u -d "+$days days" +%Y-%m-%dT%H:%M:%SZ)
exec aws s3api put-object \
  --bucket "$bucket" \
  --key "penstock/$(hostname)/$chain/$(basename "$segment")" \
  --body "$segment" \
  --checksum-algorithm SHA256 \
  --object-lock-mode COMPLIANCE \
  --object-lock-retain-until-date "$until" >/dev/null
