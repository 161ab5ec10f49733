# shellcheck shell=bash disable=SC2154 # the variables of scripts/gpu-suite
# The stage behaviour: are the results right. It comes before any figure.

[ "$list" = 1 ] || take_over
group "variants"
for relay in 1 0; do
  for cq in ring packed slots; do
    disorder 25 "relay $relay, cq $cq" DFCCL_TUNING=set:cuda_relay=$relay,cq=$cq \
      -n "$several" -c "$collectives" -i $((runs / 20 + 1))
  done
done
disorder 30 "preempted at every step" DFCCL_TUNING=set:preempt_every=1 \
  -n "$several" -c "$collectives" -i $((runs / 40 + 1))
disorder 40 "more blocks than multiprocessors" DFCCL_MAX_BLOCKS=32 \
  DFCCL_TUNING=set:block_min=512 -n "$many" -c "$collectives" -i $((runs / 40 + 1))
disorder 25 "words of 64 KB" DFCCL_TUNING=set:words_max=65536 \
  -n "$several" -c "$collectives" -i $((runs / 20 + 1))
disorder 25 "no words" DFCCL_TUNING=set:words_max=0 \
  -n "$several" -c "$collectives" -i $((runs / 20 + 1))

group "behaviour"
for name in "${behaviours[@]}"; do
  if [ ! -x "$tests/behaviour_$name" ] && [ "$list" = 0 ]; then
    skip "behaviour: $name" "not built"; continue
  fi
  KIND=tap part 120 "behaviour: $name" env TEST_SECONDS=300 "$tests/behaviour_$name" "${tap[@]}"
done

group "random programs"
part 60 "random" "$property" --seed 1 --programs "$programs" --seconds 50
part 60 "random, preempted" "$property" --seed 2 --programs $(((programs + 1) / 2)) --seconds 50 \
  --preempt

group "compute-sanitizer"
sanitizer=$(command -v compute-sanitizer ||
  find /usr/local/cuda*/bin /opt/nvidia -maxdepth 3 -name compute-sanitizer -type f 2>/dev/null |
  head -n 1)
for tool in memcheck racecheck synccheck initcheck; do
  if [ "$emulated" = 1 ] || { [ -z "$sanitizer" ] && [ "$list" = 0 ]; }; then
    skip "sanitizer: $tool" "compute-sanitizer is not installed, or there is no GPU"
  else
    TAIL=3 part 90 "sanitizer: $tool" "${tiny[@]}" "$sanitizer" --tool $tool --error-exitcode 9 \
      "$demo" disorder -n 2 -c 2 -i 1 "${cuda[@]}"
  fi
done
