# shellcheck shell=bash
# Commands that end when this shell is told to. By itself bash acts on a signal only once the command that it waits
# for has ended, and tells that command nothing. An attended command, with all below it, hears SIGTERM for each SIGINT
# or SIGTERM of this shell, which then waits for its end and exits with 128 + the signal's number. Sourced by ./yard.

attended=''  # the process that is waited for
heard=''     # the name of the last signal
times=0      # how many there were; those that come together count once, for many tell the process and its group
heard_at=0   # when, in microseconds
apt=()       # its processes that were told

listen() {
  trap 'hear INT' INT
  trap 'hear TERM' TERM
}

hear() {
  local pid name now=${EPOCHREALTIME/[.,]/}
  # In one command: between two of them this handler may be called again.
  ((now - heard_at > 2000000 ? (heard_at = now, times += 1) : 0)) || return 0
  heard=$1
  [ -n "$attended" ] || return 0
  while read -r pid name; do
    case $name in
      # It ends a download then, and installs what it has begun to: half of that is a broken system.
      apt-get | sudo) apt+=("$pid"); kill -INT "$pid" 2>/dev/null || true ;;
      *) kill -TERM "$pid" 2>/dev/null || true ;;
    esac
  done < <(below "$attended")
}

# below PID: it and its descendants, with their names; none that apt has started.
below() {
  { cat /proc/[0-9]*/stat 2>/dev/null || true; } | sed -n 's/^\([0-9]*\) (\(.*\)) . \([0-9]*\) .*/\1 \3 \2/p' |
    awk -v top="$1" '
      { parent[$1] = $2; name[$1] = $3 }
      END {
        found[top]
        do {
          has_grown = 0
          for (pid in parent)
            if (!(pid in found) && parent[pid] in found && name[parent[pid]] !~ /^(apt-get|sudo)$/) {
              found[pid]
              has_grown = 1
            }
        } while (has_grown)
        for (pid in found) print pid, name[pid]
      }'
}

# attend COMMAND...: its status. In the background, where bash lets a command ignore SIGINT: the terminal sends Ctrl-C
# to everybody, and the command would hear of it twice.
attend() {
  local status=0 pid
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
  [ -n "$heard" ] || return "$status"
  for pid in "${apt[@]}"; do
    [ ! -e "/proc/$pid" ] || echo "Waiting for apt-get to end what it has begun" >&2
    while [ -e "/proc/$pid" ]; do sleep 0.1; done
  done
  exit $((128 + $(kill -l "$heard")))
}
