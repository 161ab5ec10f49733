# shellcheck shell=bash disable=SC2154 # the variables of scripts/gpu-suite
# The stage smoke: does anything work, and if not, why. No part takes more than a minute.

group "the machine, without DFCCL"
probe_part 40 "probe: facts, bus, slices" "$probe" --json slice facts bus
probe_part 20 "probe: pages" "$probe" --json pages
probe_part 25 "probe: locks" "${lazy[@]}" "$probe" --json lock
for connections in default 1 32; do
  probe_part 25 "probe: queues, connections $connections" env \
    ${connections:+$([ $connections = default ] || echo CUDA_DEVICE_MAX_CONNECTIONS=$connections)} \
    "$probe" --json queues
done
probe_part 20 "probe: relaunches" "$probe" --json relaunch
probe_part 30 "probe: copies" "$probe" --json copy

group "smallest things"
disorder 15 "one rank, one collective" -n 1 -c 1 -i 1
disorder 15 "two ranks, one collective" -n 2 -c 1 -i 1
disorder 20 "two ranks, some in disorder" -n 2 -c 4 -i 3
disorder 20 "two ranks, synchronised" -n 2 -c 4 -i 3 --sync
disorder 30 "all ranks in disorder" -n "$many" -c "$collectives" -i 3
part 30 "CUDA_LAUNCH_BLOCKING is refused" sh -c '
  CUDA_LAUNCH_BLOCKING=1 "$0" disorder -n 2 -c 1 -i 1 --backend cuda 2>&1 |
    grep CUDA_LAUNCH_BLOCKING' "$demo"

group "patience"
for turn in 1 2; do
  for words in "${patience[@]}"; do
    # shellcheck disable=SC2086 # an environment is words
    table 30 "patience $turn: ${words:-default}" $words disorder -n $several --rounds 3 \
      "${batches[@]}"
  done
done

group "streams"
# With few queues a stream waits behind the wait of another stream, and may fail or hang.
for connections in $connections_tried; do
  TRIAL=$((connections < 32)) KIND=tap part 40 "streams, connections $connections" env \
    CUDA_DEVICE_MAX_CONNECTIONS="$connections" TEST_SECONDS=300 \
    "$tests/behaviour_streams" "${tap[@]}"
done

group "loading"
disorder 30 "lazy loading" CUDA_MODULE_LOADING=LAZY -n "$several" -c 4 -i 3 --sync

if [ "$list" = 0 ] && command -v python3 >/dev/null &&
  grep -q "patience\|streams" "$work/parts"; then
  "$tools/report" learn "$work" "$version" "$gpu" >"$out/learnt"
  [ ! -e "$folder/gpu-suite" ] || cp "$out/learnt" "$folder/learnt"
  # shellcheck disable=SC2034 # parts.sh reads it
  learnt_from=$out/learnt
  say "saved settings: $(grep -v '^#' "$out/learnt" |
    tr '\n' ' ')($out/learnt; the other stages use it)"
fi
