#!/bin/sh
# A memory node on one machine and YCSB on another, over RDMA. Both are reached by ssh, and have Node
# and a clone of Stepwell in the same folder, after `npm ci`. No test runs this,
# because it needs RDMA cards.
#
#   examples/rdma/both-ends.sh NODE CLIENT [DEVICE [TRANSPORTS]]
#   examples/rdma/both-ends.sh localhost localhost lo tcp     # tries the script itself
set -eu

node=${1:?the memory node, a name for ssh}
client=${2:?the client, a name for ssh}
device=${3:-mlx5_0:1}
transports=${4:-rc}
place=${STEPWELL_HOME:-$PWD}
port=${PORT:-7471}
size=${SIZE:-8g}
records=${RECORDS:-100000}
secret=$(head -c 24 /dev/urandom | base64 | tr -d '/+=\n')

on() {
  host=$1
  shift
  if [ "$host" = localhost ]; then sh -c "$*"; else ssh "$host" "$*"; fi
}

check='command -v ucx_info >/dev/null || { echo "apt install libucx0 ucx-utils" >&2; exit 1; }'
for host in "$node" "$client"; do
  echo "$host:"
  on "$host" "$check; ucx_info -v | head -1; echo locked memory: \$(ulimit -l) kB"
done

run="cd '$place' && ulimit -l unlimited 2>/dev/null; STEPWELL_SECRET=$secret"
listen=0.0.0.0
[ "$node" != localhost ] || listen=127.0.0.1
on "$node" "$run exec node dist/cli/main.js memory-node --fabric ucx --device $device \
  --transports $transports --listen $listen:$port --size $size" &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
sleep 3

pool=ucx://$node:$port
[ "$device" = lo ] || run="$run UCX_NET_DEVICES=$device"
on "$client" "$run node dist/cli/main.js set $pool/try key value"
on "$client" "$run node dist/cli/main.js inspect $pool"
on "$client" "$run npm run lab -- bench-tcp --at $pool --clients 1 --records $records \
  --only ${INDEXES:-race,chime}"
