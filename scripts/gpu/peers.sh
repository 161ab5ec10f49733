# shellcheck shell=bash disable=SC2154 # the variables of scripts/gpu-suite
# The stage peers: ranks as processes, NCCL, other operations, and a table of algorithms.

[ "$list" = 1 ] || take_over
group "processes, taking turns"
disorder 40 "disorder, processes" -n "$several" -c "$collectives" -i $((runs / 40 + 1)) --sync \
  --processes
for polls in 4000 100 50; do
  disorder 40 "processes that leave after $polls us" DFCCL_TUNING=set:quit_polls=$polls \
    -n "$several" -c "$collectives" -i $((runs / 40 + 1)) --processes
done
part 60 "random, processes" "$property" --seed 3 --programs $(((programs + 1) / 2)) --seconds 50 \
  --processes

group "NCCL, several ranks on one GPU"
# The blocks of all ranks must be on the GPU at one time, or NCCL hangs: an H100 has 132
# multiprocessors, and NCCL's default allows for two ranks.
nccl_settings() { # RANKS
  local most=$((132 / $1))
  [ "$most" -le 32 ] || most=32
  echo NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=$most NCCL_NVLS_ENABLE=0 NCCL_NET_GDR_LEVEL=LOC
}
warm_up "NCCL"
nccl=${NCCL_LIBRARY:-$("$tools/report" nccl 2>/dev/null)}
for ranks in $ranks_tried; do
  if [ "$list" = 0 ] && { [ ! -x "$nccl_ranks" ] || [ -z "$nccl" ]; }; then
    skip "NCCL: allreduce, $ranks ranks" \
      "no libnccl.so.2 on this machine (NCCL_LIBRARY=FILE names one), or no gpu-nccl in this build"
  else
    # shellcheck disable=SC2046 # the settings are words
    KIND=probe part 40 "NCCL: allreduce, $ranks ranks" env $(nccl_settings "$ranks") \
      "$nccl_ranks" --json "$nccl" allreduce "$ranks" 8 "$nccl_most"
  fi
  table 40 "beside NCCL: allreduce, $ranks ranks" allreduce -n "$ranks" "${sizes[@]}" --check=0
done
if [ "$list" = 1 ] || { [ -x "$nccl_ranks" ] && [ -n "$nccl" ]; }; then
  # shellcheck disable=SC2046
  TAIL=1 part 40 "NCCL: in disorder, does it hang" env $(nccl_settings "$many") "$nccl_ranks" \
    "$nccl" disorder "$many" "$collectives" 20
fi

group "other operations"
for ranks in $ranks_tried; do
  for operation in broadcast reduce; do
    table 30 "table: $operation, $ranks ranks" $operation -n "$ranks" "${sizes[@]}"
  done
done

group "algorithms"
for ranks in $ranks_tried; do
  for algorithm in ring allpairs doubling rabenseifner doubletree direct flat twolevel; do
    table 12 "allreduce, $ranks ranks, $algorithm" allreduce -n "$ranks" -a $algorithm \
      "${sizes[@]}" --check=0
  done
done
