# Runs checks, some of them side by side, and tells of each when it has ended. To be sourced by sh after deploy/setup.sh.
#
#   check NAME COMMAND...   runs it; its output is shown when it ends, and its name is kept when it fails
#   side_by_side LANE...    runs functions at once, each a lane of checks, and waits for all of them
#   finish                  the last line, and the exit status: did all checks pass? It counts from `began_s`, in seconds.
#
# A line each half minute says what is running. Each check is a process group of its own, which ends when this program is interrupted.

stages=$(mktemp -d)
heartbeat_s=30

go_on() {
    [ -d "$stages" ] && [ ! -e "$stages/interrupted" ]
}

check() {
    go_on || return 0
    name=$1
    shift
    check_began_s=$(date +%s)
    setsid "$@" >"$stages/$name.log" 2>&1 </dev/null &
    printf '%s %s\n' "$!" "$check_began_s" >"$stages/$name.running"
    status=0
    wait "$!" || status=$?
    rm -f "$stages/$name.running"
    go_on || return 0
    outcome=passed
    if [ "$status" -ne 0 ]; then
        outcome="FAILED with status $status"
        printf '%s\n' "$name" >>"$stages/failed"
    fi
    # Lanes end checks at the same time; one speaks after the other.
    until mkdir "$stages/speaking" 2>/dev/null; do
        go_on || return 0
        sleep 0.1
    done
    say "== $name"
    cat "$stages/$name.log"
    say "== $name $outcome after $(($(date +%s) - check_began_s)) s"
    rmdir "$stages/speaking"
}

side_by_side() {
    lanes=
    for lane in "$@"; do
        "$lane" &
        lanes="$lanes $!"
    done
    for lane in $lanes; do wait "$lane" || printf 'a lane of checks\n' >>"$stages/failed"; done
}

# What runs, for how long, and the last that it printed: where pytest shows its progress.
tell_what_runs() {
    for file in "$stages"/*.running; do
        [ -e "$file" ] || continue
        read -r _ running_since_s <"$file" || continue
        name=$(basename "$file" .running)
        say "-- $name: $(($(date +%s) - running_since_s)) s$(tail -n 1 "$stages/$name.log" | tail -c 100 | sed 's/^/, /')"
    done
}

beat() {
    seconds=0
    while sleep 1; do
        seconds=$((seconds + 1))
        [ $((seconds % heartbeat_s)) -ne 0 ] || tell_what_runs
    done
}

# signal_checks SIGNAL : to all that runs; the status is 1 when nothing does.
signal_checks() {
    found=1
    for file in "$stages"/*.running; do
        [ -e "$file" ] && read -r group _ <"$file" && kill -s "$1" -- "-$group" 2>/dev/null && found=0
    done
    return "$found"
}

end_stages() {
    kill "$beating" 2>/dev/null || true
    : >"$stages/interrupted"
    if signal_checks TERM; then
        for _ in $(seq 100); do
            signal_checks 0 || break
            sleep 0.1
        done
        signal_checks KILL || true
    fi
    rm -rf "$stages"
    stop_docker
}

finish() {
    took_s=$(($(date +%s) - began_s))
    if [ -e "$stages/failed" ]; then
        say "deploy/test: FAILED after $took_s s: $(paste -s -d, "$stages/failed" | sed 's/,/, /g')"
        exit 1
    fi
    say "deploy/test: all checks passed in $took_s s"
    exit 0
}

beat &
beating=$!
trap end_stages EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
