# shellcheck shell=bash
# The verbs of ./yard that are about the server in the background: up, down, status, env. Sourced by it,
# which knows `binary` and the `caller`'s folder, and how to say, die, setup and build.
: "${binary:?}" "${caller:?}"

state_home() {
  if [ -n "${TRAINYARD_HOME:-}" ]; then
    echo "$TRAINYARD_HOME"
  elif [ "$(id -u)" -eq 0 ]; then
    echo /var/lib/trainyard
  else
    echo "${XDG_DATA_HOME:-$HOME/.local/share}/trainyard"
  fi
}

# said NAME: what the server of this home has written about itself; fails where it has said nothing of that.
said() {
  sed -n "s/^ *\"$1\" *: *\"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$(state_home)/server.json" 2>/dev/null | grep .
}

endpoint_of() { said endpoint; }

# By its command line: the verb that it was started with. A zombie has no words left.
is_server() {
  local words=()
  mapfile -d '' -t words 2>/dev/null <"/proc/$1/cmdline"
  [ "${words[1]:-}" = server ]
}

# The server of this home, of whatever checkout it is, ready or still starting: the process whose number stands in the
# home's lock and that has it open. Trying the lock would keep a server from starting meanwhile.
server_pid() {
  local lock pid file
  lock=$(realpath -- "$(state_home)/lock" 2>/dev/null) && pid=$(head -n 1 "$lock" 2>/dev/null) || return 1
  if [[ $pid =~ ^[0-9]+$ ]] && is_server "$pid"; then
    for file in "/proc/$pid/fd"/*; do
      if [ "$file" -ef "$lock" ]; then
        echo "$pid"
        return 0  # without a number it would be, in a trap, what was before the trap
      fi
    done
  fi
  return 1
}

# Whether this home's server answers. At its own address, and whoever vouches for its certificate: which process it is
# stands fixed, and the question carries no secret.
is_up() {
  local pid
  pid=$(server_pid) && [ "$pid" = "$(said pid)" ] &&
    curl -fsSk --noproxy '*' -m 2 "$(said local_url || endpoint_of)/yard/health" >/dev/null 2>&1
}

# tls_flags HOME: the flags of a server with the certificate in HOME/tls, which is made when missing.
tls_flags() {
  local folder=$1/tls
  if [ ! -e "$folder/tls-cert.pem" ]; then
    "$binary" certificate --out "$folder" >&2 || return 1
  fi
  printf '%s\n' --tls-cert "$folder/tls-cert.pem" --tls-key "$folder/tls-key.pem"
}

# The region that this home's ARNs name, once an `up` was told one.
last_region() { echo "$(state_home)/client/region"; }

# What the last `up` of this home was told about TLS, a word a line, and the address that it listened at, which only
# a server of https may have again without being told: the next one does the same.
last_tls() { echo "$(state_home)/client/tls"; }
last_address() { echo "$(state_home)/client/address"; }

# remember_tls ADDRESS:PORT WORD...: no word, as of a start with --insecure-http alone, changes nothing for later ones.
remember_tls() {
  case ${*:2} in
    '') ;;
    --no-tls) rm -f "$(last_tls)" "$(last_address)" ;;
    *)
      sed -n 's/:[0-9]*$//p' <<<"$1" | put "$(last_address)"
      printf '%s\n' "${@:2}" | put "$(last_tls)"
      ;;
  esac
}

# That the server which is up serves https, and what follows.
tell_tls() {
  if [ -e "$(last_tls)" ] && [[ $(endpoint_of) == https:* ]]; then
    say "It serves https, as later ones of this home will. To end that: ./yard down && ./yard up --no-tls"
  fi
}

# is_already WORD...: whether the server that is up is as these arguments of `up` want it.
is_already() {
  case $* in
    '') ;;
    --tls) [[ $(endpoint_of) == https:* ]] ;;
    --no-tls) [[ $(endpoint_of) == http:* ]] ;;
    *) false ;;
  esac
}

# is_free PORT: whether nobody listens on it here.
is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

last_port() { echo "$(state_home)/client/port"; }

# free_address ADDRESS: where a server without --listen goes: where this home's last one was, so that exported
# endpoints stay true; else the usual port; else any.
free_address() {
  local port
  for port in $(cat "$(last_port)" 2>/dev/null) 8321; do
    if is_free "$port"; then
      echo "$1:$port"
      return
    fi
    say "Port $port belongs to another program"
  done
  echo "$1:0"
}

# up_words ARGUMENT...: sorts the arguments of `up` into `tls`, what they say about TLS, with files as the caller means
# them, `listen`, `region`, and `flags`, the rest, which is the server's.
up_words() {
  while [ $# -gt 0 ]; do
    case $1 in
      --tls | --no-tls) tls=("$1") ;;
      --tls-cert=* | --tls-key=* | --listen=* | --region=*) set -- "${1%%=*}" "${1#*=}" "${@:2}"; continue ;;
      --tls-cert | --tls-key)
        [ $# -ge 2 ] || misused "$1: which file?"
        # Not where a link leads: who renews a certificate may let it lead elsewhere.
        tls+=("$1" "$(cd "$caller" && realpath -ms -- "$2")")
        shift
        ;;
      --listen) [ $# -ge 2 ] || misused "$1: which address?"; listen=$2; shift ;;
      --region) [ $# -ge 2 ] || misused "$1: which region?"; region=$2; shift ;;
      *) flags+=("$1") ;;
    esac
    shift
  done
}

# await_up PID: waits until the server answers, and says now and then that it is still at it. Fails when it has ended.
await_up() {
  local since=$SECONDS told=0
  until is_up; do
    kill -0 "$1" 2>/dev/null || return 1
    if [ $((SECONDS - since - told)) -ge 10 ]; then
      told=$((SECONDS - since))
      say "The server (process $1) is still starting, for $told s now: a large or interrupted home takes its time"
    fi
    [ $((SECONDS - since)) -lt 1800 ] || die "the server (process $1) does not answer: see $(state_home)/server.log"
    sleep 0.05
  done
}

up() {
  local home log logged pid listen='' region='' address=127.0.0.1 flags=() tls=() served=()
  home=$(state_home)
  log=$home/server.log
  pid=$(server_pid || true)
  if [ -n "$pid" ]; then
    is_up || [ $# -eq 0 ] || die "a server (process $pid) is starting in $home: stop it first (./yard down)"
    await_up "$pid" || die "the server (process $pid) that was starting has ended: see $log"
    is_already "$@" || die "the server is up already, without \`$*\`: stop it first (./yard down; jobs go on)"
    say "The server is up already: $(endpoint_of)"
    return
  fi
  up_words "$@"
  setup run
  [ -x "$binary" ] || build bin/trainyard
  mkdir -p "$home/client"
  chmod 0700 "$home"
  if [ ${#tls[@]} -eq 0 ] && [[ " ${flags[*]} " != *" --insecure-http "* ]] && [ -e "$(last_tls)" ]; then
    mapfile -t tls <"$(last_tls)"
    address=$(grep . "$(last_address)" || echo "$address")
  fi
  case ${tls[*]} in
    --no-tls) ;;
    --tls)
      mapfile -t served < <(tls_flags "$home")
      [ ${#served[@]} -gt 0 ] || die "no certificate could be made: the reason stands above"
      ;;
    *) served=("${tls[@]}") ;;
  esac
  [ -n "$listen" ] || listen=$(free_address "$address")
  region=${region:-$(cat "$(last_region)" 2>/dev/null || true)}
  logged=$(stat -c %s "$log" 2>/dev/null || echo 0)
  setsid "$binary" server --home "$home" --listen "$listen" ${region:+--region "$region"} "${flags[@]}" "${served[@]}" \
    >>"$log" 2>&1 </dev/null &
  pid=$!
  if await_up "$pid"; then
    say "The server is up: $(endpoint_of) (log: $log)"
    endpoint_of | sed -n 's/.*:\([0-9]*\)$/\1/p' >"$(last_port)"
    [ -z "$region" ] || put "$(last_region)" <<<"$region"
    remember_tls "$listen" "${tls[@]}"
    tell_tls
    # What keeps every job from running is said here, not only when the first one fails.
    tail -c "+$((logged + 1))" "$log" | sed -n 's/.*\(no job can run: .*\)/yard: \1/p' | head -1 >&2 || true
    return
  fi
  tail -c "+$((logged + 1))" "$log" | tail -n 20 >&2
  die "the server did not start; what it wrote to $log stands above"
}

# Of this home's server, whatever server the shell's exports speak of.
ours() { env -u AWS_ENDPOINT_URL -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY TRAINYARD_HOME="$(state_home)" "$binary" "$@"; }

status() {
  is_up || die "no server is running in $(state_home): start it with ./yard up"
  say "The server is up: $(endpoint_of) (home: $(state_home))"
  tell_tls
  ours list "$@"
}

# Stops every job that runs or waits, and waits until each has ended.
stop_jobs() {
  local listed running job
  listed=$(ours list --json --limit 100000) ||
    die "its jobs cannot be listed (the reason stands above), so nothing was stopped; ./yard down leaves them running"
  running=$(/usr/bin/python3 -c 'import json, sys
for job in json.load(sys.stdin)["TrainingJobSummaries"]:
    if job["TrainingJobStatus"] in ("InProgress", "Stopping"):
        print(job["TrainingJobName"])' <<<"$listed")
  for job in $running; do
    ours stop "$job" || true
  done
  for job in $running; do
    say "Waiting for $job to stop"
    ours logs -f "$job" >/dev/null 2>&1 || true
  done
}

down() {
  local home pid left="running jobs go on"
  home=$(state_home)
  pid=$(server_pid || true)
  if [ -z "$pid" ]; then
    say "No server is running in $home"
    return
  fi
  if [ "${1:-}" = --jobs ]; then
    [ -x "$binary" ] || die "build/ is gone, which stopping jobs needs: ./yard build (down without --jobs works)"
    is_up || die "the server (process $pid) does not answer, so its jobs cannot be stopped; ./yard down leaves them running"
    stop_jobs
    left="its jobs have ended"
  fi
  kill -TERM "$pid"
  for _ in $(seq 300); do
    [ "$(server_pid || true)" = "$pid" ] || { say "The server is down; $left"; return; }
    sleep 0.1
  done
  die "the server (process $pid) does not stop"
}

# put FILE: standard input becomes the file in one step, since a client may be reading it.
put() {
  cat >"$1.$$"
  mv "$1.$$" "$1"
}

# What both SageMaker Python SDKs read: their defaults, and botocore's rules for where STS is. The
# SDKs ask for https://sts.<region>.amazonaws.com by name, which beats AWS_ENDPOINT_URL; the rules,
# found by AWS_DATA_PATH, beat that.
# write_client_files FOLDER ENDPOINT REGION ACCOUNT
write_client_files() {
  local folder=$1 endpoint=$2 region=$3 account=$4 sts=$1/botocore/sts/2011-06-15
  mkdir -p "$sts"
  put "$folder/sagemaker.yaml" <<EOF
SchemaVersion: "1.0"
SageMaker:
  PythonSDK:
    Modules:
      TelemetryOptOut: true
      Session:
        DefaultS3Bucket: sagemaker-$region-$account
  TrainingJob:
    RoleArn: arn:aws:iam::$account:role/trainyard
EOF
  put "$sts/endpoint-rule-set-1.json" <<EOF
{"version": "1.0",
 "parameters": {"Region": {"builtIn": "AWS::Region", "required": false, "type": "String"}},
 "rules": [{"type": "endpoint", "conditions": [], "endpoint": {"url": "$endpoint", "headers": {},
   "properties": {"authSchemes": [{"name": "sigv4", "signingName": "sts", "signingRegion": "$region"}]}}}]}
EOF
}

# with_first ITEM LIST SEPARATOR: the list with the item in front, and nowhere else.
with_first() {
  local item=$1 separator=$3 rest
  rest=$(tr "$separator" '\n' <<<"$2" | grep -vxF -e "$item" -e '' | paste -sd "$separator" || true)
  echo "$item${rest:+$separator$rest}"
}

# Where the clients' aws and a python with boto3 are; nothing for those who have an aws of their own.
clients_path() {
  local environment
  if ! command -v aws >/dev/null && environment=$(tools/python_env clients); then
    echo ":$environment/bin"
  fi
}

print_env() {
  local home endpoint client clients ca host region
  home=$(readlink -f "$(state_home)")
  is_up || die "no server is running: start it with ./yard up"
  endpoint=$(endpoint_of)
  ca=$(said ca_bundle || true)
  region=$(said region || echo us-east-1)
  host=${endpoint#*://}
  host=${host%:*}
  clients=$(clients_path)
  client=$home/client
  write_client_files "$client" "$endpoint" "$region" "$(said account || echo 123456789012)"
  key() { sed -n "s/^ *$1 *= *//p" "$home/credentials"; }
  cat <<EOF
export AWS_ENDPOINT_URL=$endpoint
export AWS_ACCESS_KEY_ID=$(key aws_access_key_id)
export AWS_SECRET_ACCESS_KEY=$(key aws_secret_access_key)
export AWS_DEFAULT_REGION=$region
export AWS_REGION=$region
export AWS_EC2_METADATA_DISABLED=true
export AWS_DATA_PATH="$(with_first "$client/botocore" "${AWS_DATA_PATH:-}" :)"
export SAGEMAKER_USER_CONFIG_OVERRIDE="$client/sagemaker.yaml"
export NO_PROXY="$(with_first 127.0.0.1 "$(with_first "$host" "${NO_PROXY:-${no_proxy:-}}" ,)" ,)"
export no_proxy="\$NO_PROXY"
unset AWS_SESSION_TOKEN AWS_PROFILE AWS_DEFAULT_PROFILE AWS_IGNORE_CONFIGURED_ENDPOINT_URLS
unset AWS_ENDPOINT_URL_S3 AWS_ENDPOINT_URL_SAGEMAKER AWS_ENDPOINT_URL_STS AWS_ENDPOINT_URL_IAM
unset AWS_ENDPOINT_URL_CLOUDWATCH AWS_ENDPOINT_URL_CLOUDWATCH_LOGS
export PATH="$(dirname "$binary"):\$PATH$clients"
EOF
  # What an earlier `env` of this home has exported is taken back, should the server have another certificate now.
  if [ -n "$ca" ]; then
    put "$client/ca-bundle" <<<"$ca"
    echo "export AWS_CA_BUNDLE=\"$ca\""
  elif [ -n "${AWS_CA_BUNDLE:-}" ] && [ "$AWS_CA_BUNDLE" = "$(cat "$client/ca-bundle" 2>/dev/null)" ]; then
    echo "unset AWS_CA_BUNDLE"
  fi
}
