# shellcheck shell=bash disable=SC2154 # the variables of scripts/gpu-suite
# The stage performance: how fast. A figure is worth reading only if the stage behaviour has passed.

[ "$list" = 1 ] || take_over
group "disorder"
disorder 90 "disorder" -n "$many" -c "$collectives" -i "$runs"
disorder 90 "disorder, synchronised" -n "$many" -c "$collectives" -i "$runs" --sync

group "overheads (the paper's 6.1 and 6.2)"
warm_up "overheads"
table 60 "overhead" overhead -i "$iterations"
table 40 "overhead, every block polls" DFCCL_TUNING=set:cuda_relay=0 overhead -i $((iterations / 2))

table 60 "events by collective" events -n "$many" -i $((runs / 2)) "${event_sizes[@]}"

group "sizes beside the device's copy rate"
warm_up "sizes"
for ranks in $ranks_tried; do
  table 75 "table: allreduce, $ranks ranks" allreduce -n "$ranks" "${all_sizes[@]}"
done
for ranks in $ranks_tried; do
  for operation in allgather reducescatter alltoall; do
    table 40 "table: $operation, $ranks ranks" $operation -n "$ranks" "${sizes[@]}"
  done
done

group "disorder beside order"
table 90 "disorder table" disorder -n "$several" --rounds "$rounds" "${batches[@]}"

group "what the defaults cost"
warm_up "settings"
for blocks in 8 16 32; do
  for slot in 131072 1048576; do
    table 20 "blocks $blocks, slots of $slot" DFCCL_MAX_BLOCKS=$blocks \
      DFCCL_TUNING=set:slot_bytes=$slot allreduce -n 2 "${large[@]}" --check=0
  done
done
for threads in 128 256 512; do
  table 15 "threads $threads" DFCCL_TUNING=set:cuda_threads=$threads allreduce -n 2 "${sizes[@]}" \
    --check=0
done
for words in 0 4096 65536; do
  table 15 "words up to $words" DFCCL_TUNING=set:words_max=$words allreduce -n 2 \
    "${words_sizes[@]}" --check=0
done
