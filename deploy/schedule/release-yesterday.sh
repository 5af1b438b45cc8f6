#!/bin/sh
# release-yesterday.sh: one day's release, for cron. Tries again while the input or a server is away, and says what to do.
# Crontab of the user hatstream (times are the machine's):
#   30 4 * * *  /opt/hatstream/deploy/schedule/release-yesterday.sh >> /srv/hatstream/release.log 2>&1
set -u
cd "${HATSTREAM_HOME:-/srv/hatstream}" || exit 4
hatstream=${HATSTREAM:-/opt/hatstream/.venv/bin/hatstream}
export HATSTREAM_LEDGER="${HATSTREAM_LEDGER:-$PWD/town.sqlite}"
tries=${TRIES:-4}
while :; do
    "$hatstream" release --spec town.toml --key town.key --input 'feed/*.csv' --yesterday --unattended --output out --quiet --json
    code=$?
    tries=$((tries - 1))
    if [ "$code" -ne 4 ] || [ "$tries" -le 0 ]; then break; fi
    sleep "${WAIT_S:-900}"
done
case $code in
0) ;;
1) echo "hatstream was called wrongly: mend this script" ;;
2) echo "the specification is bad: mend town.toml" ;;
3) echo "the account refuses, see above: hatstream ledger show says what was spent" ;;
4) echo "input or infrastructure failed: mend it, then run this again; nothing is released twice" ;;
5) echo "done, but input or code differs from what was released before; that stands" && code=0 ;;
*) echo "hatstream was killed (exit code $code): run this again" ;;
esac
exit "$code"
