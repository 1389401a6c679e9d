#!/bin/sh
# usage: send-to-sentry.sh DSN DICTIONARIES REPORTS…
# Sends crash reports to Sentry. The DSN is that of the project there: https://KEY@HOST/PROJECT
set -eu
dsn=$1
dictionaries=$2
shift 2
key=${dsn#*://}
place=${key#*@}
url=${dsn%%://*}://${place%/*}/api/${place##*/}/envelope/
pcce crash show --dicts "$dictionaries" --format sentry "$@" | while read -r event; do
    printf '%s\n' "$event" | jq -c '{event_id}, {type: "event"}, .' | curl --fail --silent --show-error \
        --header "X-Sentry-Auth: Sentry sentry_version=7, sentry_key=${key%%@*}" --data-binary @- "$url"
    echo
done
