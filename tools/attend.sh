# shellcheck shell=bash
# Commands that end when this shell is told to. By itself bash acts on a signal only once the command that it waits
# for has ended, and tells that command nothing. An attended command, with all below it, hears SIGTERM for each SIGINT
# or SIGTERM of this shell, which then waits for its end and exits with 128 + the signal's number. Sourced by ./yard.

attended=''  # the process that is waited for
heard=''     # the name of the last signal
times=0      # how many there were; those that come together count once, for many tell the process and its group
heard_at=0   # when, in microseconds

listen() {
  trap 'hear INT' INT
  trap 'hear TERM' TERM
}

hear() {
  local pids=() now=${EPOCHREALTIME/[.,]/}
  [ $((now - heard_at)) -gt 2000000 ] || return 0
  heard=$1 times=$((times + 1)) heard_at=$now
  [ -z "$attended" ] || mapfile -t pids < <(below "$attended")
  [ ${#pids[@]} -eq 0 ] || kill -TERM "${pids[@]}" 2>/dev/null || true
}

# below PID: it and its descendants. What apt does is left to its end: half an installation is a broken system.
below() {
  { cat /proc/[0-9]*/stat 2>/dev/null || true; } | sed -n 's/^\([0-9]*\) (\(.*\)) . \([0-9]*\) .*/\1 \3 \2/p' |
    awk -v top="$1" '
      { parent[$1] = $2; is_left_alone[$1] = ($3 == "apt-get" || $3 == "sudo") }
      END {
        found[top]
        do {
          has_grown = 0
          for (pid in parent)
            if (!(pid in found) && parent[pid] in found && !is_left_alone[pid]) { found[pid]; has_grown = 1 }
        } while (has_grown)
        for (pid in found) print pid
      }'
}

# attend COMMAND...: its status. In the background, where bash lets a command ignore SIGINT: the terminal sends Ctrl-C
# to everybody, and the command would hear of it twice.
attend() {
  local status=0
  if [ -z "$heard" ]; then
    "$@" &
    attended=$!
    while :; do
      status=0
      wait "$attended" || status=$?
      kill -0 "$attended" 2>/dev/null || break  # it has ended; otherwise a signal has ended the wait
    done
    attended=''
  fi
  [ -z "$heard" ] || exit $((128 + $(kill -l "$heard")))
  return "$status"
}
