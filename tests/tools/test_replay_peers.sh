# shellcheck shell=sh
# Promise: the engines mpi and gloo of dfccl-bench replay execute the calls of a trace on another
# library, in the order of the file and with no element wrong. Calls that the library does not have
# are counted and named. Without the module one sentence says how to get it, with status 2.
#
#   test_replay_peers.sh DFCCL_BENCH REPLAY_TRACES LIBRARY_DIRECTORY [MODULE]...
#
# Modules are replay-openmpi.so, replay-mpich.so and replay-gloo.so, as far as they were built.
set -u
. "$(dirname "$0")/check.sh"
bench=$1 traces=$2 libraries=$3
shift 3
python3 "$traces" "$work" || fail "no traces"
OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_rmaps_base_oversubscribe

# complete_run MODULE ENGINE CALLS LACKED FILE...
complete_run() {
  module=$1 engine=$2 calls=$3 lacked=$4
  shift 4
  run 0 "$bench" replay "$@" --engine "$engine" --peer "$module" --iterations 1 --json
  json "o['runs'] == o['calls'] == $calls - $lacked and o['lacked'] == $lacked and o['wrong'] == 0"
  json "o['file_calls'] == $calls and o['left_out'] == 0 and o['seconds'] > 0"
}

refused() {
  pattern=$1
  shift
  usage_error "$bench" replay "$@"
  err_has "$pattern"
}

# Ranks that make the same calls in other orders.
for rank in 0 1; do
  {
    echo "{\"trace\": \"crosswise\", \"ranks\": 2, \"rank\": $rank}"
    echo "{\"collective\": \"allreduce\", \"bytes\": $((4096 + rank * 4096))}"
    echo "{\"collective\": \"allreduce\", \"bytes\": $((8192 - rank * 4096))}"
  } >"$work/crosswise_rank$rank.jsonl"
done

# Every operation among three ranks; the reductions are of bfloat16, which no other library has.
{
  echo '{"trace": "three", "ranks": 3}'
  for operation in allreduce reducescatter reduce allgather alltoall broadcast gather scatter; do
    echo "{\"collective\": \"$operation\", \"bytes\": 30000, \"type\": \"bfloat16\"}"
  done
  echo '{"collective": "barrier"}'
} >"$work/three.jsonl"

# check_engine MODULE ENGINE LACKED NAME: of the 76 calls of program.jsonl it lacks so many.
check_engine() {
  module=$1 engine=$2 lacked=$3 name=$4
  complete_run "$module" "$engine" 76 "$lacked" "$work/program.jsonl"
  json "o['engine'] == '$engine' and o['library'].startswith('$name')"
  [ "$lacked" -eq 0 ] || json "'has no reduce of half with max' in o['lacked_calls'][0]"
  [ "$lacked" -eq 0 ] || err_has "^note: $lacked of 76 calls do not exist in the engine's library"
  complete_run "$module" "$engine" 27 0 "$work/three.jsonl" --float float --compute sleep
  # MPICH needs seconds for each start of ranks that share cores.
  [ "$name" = MPICH ] || complete_run "$module" "$engine" 18 0 "$work"/param_rank?.json
  refused "no common order, which engine $engine needs: rank 0 has .* and rank 1 " \
    "$work"/crosswise_rank?.jsonl --engine "$engine" --peer "$module"
}
run 0 "$bench" replay "$work"/crosswise_rank?.jsonl --iterations 1

for module in "$@"; do
  case $module in
    *openmpi.so) check_engine "$module" mpi 4 'Open MPI' ;;
    *mpich.so) check_engine "$module" mpi 4 MPICH ;;
    *mpi.so) check_engine "$module" mpi 4 '' ;;
    *gloo.so) check_engine "$module" gloo 0 Gloo ;;
  esac
done
for module in "$@"; do
  case $module in
    *gloo.so) engine=gloo ;;
    *) engine=mpi ;;
  esac
  run 0 "$bench" replay "$work/three.jsonl" --engine $engine --peer "$module" --json
  json "o['lacked'] == 9 and o['runs'] == 18 and len(o['lacked_calls']) == 3 and o['wrong'] == 0"
done
for name in mpi gloo; do
  case $* in
    *"$name"*) ;;
    *) echo "skipped: engine $name: its library is not installed, or sanitizers are on" ;;
  esac
done

# Ranks that a launcher starts: the library's own, then Gloo's. Nothing listens at MASTER_PORT,
# because 127.0.0.1 is of this host alone; the run's name distinguishes the job from others.
TORCHELASTIC_RUN_ID=$work
export TORCHELASTIC_RUN_ID
env_run() {
  for rank in 1 0; do
    RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 timeout 100 \
      "$bench" replay "$work"/flight_rank?.json --env --iterations 1 --json "$@" \
      >"$work/out$rank" 2>"$work/err$rank" </dev/null &
    eval "pid$rank=\$!"
  done
  # shellcheck disable=SC2154
  for pid in $pid0 $pid1; do
    wait "$pid" || fail "a rank of a job of two ended with status $?: $(cat "$work"/err?)"
  done
  [ ! -s "$work/out1" ] || fail "rank 1 prints"
  mv "$work/out0" "$work/out"
  json "o['runs'] == o['calls'] == 16 and o['wrong'] == 0 and o['ranks'] == 2"
}

# refused_env PATTERN RANK WORLD_SIZE MASTER_ADDR DIRECTORY
refused_env() {
  RANK=$2 WORLD_SIZE=$3 MASTER_ADDR=$4
  export RANK WORLD_SIZE MASTER_ADDR
  refused "$1" "$work"/flight_rank?.json --env --engine gloo --peer "$module" --rendezvous "$5"
  unset RANK WORLD_SIZE MASTER_ADDR
}

env_run --order shuffle
for module in "$@"; do
  case $module in
    *gloo.so)
      mkdir "$work/rendezvous"
      env_run --engine gloo --peer "$module" --rendezvous "$work/rendezvous"
      refused_env 'has files of an earlier job: rank 1' 1 2 127.0.0.1 "$work/rendezvous"
      refused_env 'nothing/.* cannot be created' 1 2 127.0.0.1 "$work/nothing"
      refused_env 'RANK is 2, and WORLD_SIZE 2' 2 2 127.0.0.1 "$work"
      refused_env "WORLD_SIZE must be a number from 1 to 1024, not 'two'" 1 two 127.0.0.1 "$work"
      refused_env "MASTER_ADDR must be the address .*, not ''" 1 2 '' "$work"
      refused_env "MASTER_ADDR 'a..b': " 1 2 a..b "$work"
      ;;
  esac
done

# Without a module, and with files that are no modules.
refused "engine mpi has the order of the file" x --engine mpi --order shuffle
refused "engine gloo has no priorities" x --engine gloo --order priority
refused "option --peer is for the engines" x --peer x
refused "wants --rendezvous" x --engine gloo --env
refused "option --rendezvous is for" x --rendezvous x
refused "option --float wants .* 'int8'" x --float int8
refused "option --rate wants a number above 0, not '0'" x --rate 0
refused "cannot be loaded: .*nothing.so" x --engine gloo --peer "$work/nothing.so"
for module in "$@"; do
  case $module in
    *gloo.so) refused 'is of another engine or version' x --engine mpi --peer "$module" ;;
  esac
done
cp "$bench" "$work/dfccl-bench"
LD_LIBRARY_PATH=$libraries:${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH
for engine in mpi gloo; do
  usage_error "$work/dfccl-bench" replay "$work/program.jsonl" --engine $engine
  err_has "engine $engine needs its module.*lib(openmpi|gloo)-dev"
done
finish
