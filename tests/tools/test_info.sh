# shellcheck shell=sh
# lint: allow-file(columns) the expectations are Python expressions of one line
#
# Promises of dfccl-info files and plan: Each plan that can be expressed in MSCCL's XML is printed,
# read again and proved. Each file of a directory is shown, or the reason why it was refused, with
# FILE:LINE. With any content of the directory the program ends soon, and prints one line for each
# file, without control characters. The output of --json is one object. Promises of dfccl-info net:
# The security that it prints agrees with the settings. Each pair of ranks has its path, address and
# security, and each rank its interfaces. A job that cannot form has an object with the error.

. "$(dirname "$0")/check.sh"
info=$1 plugin=${2:-}

run 0 "$info" --help; out_has '^usage: dfccl-info'
usage_error "$info"
usage_error "$info" everything
usage_error "$info" plan allreduce
usage_error "$info" plan allreduce ring --xml
usage_error "$info" plan allreduce ring -n 4
usage_error "$info" plan allreduce ring -n 65 --xml
usage_error "$info" files one two
usage_error "$info" files --env
usage_error "$info" net -n 4 --xml; err_has "option -n means nothing to 'net'"
usage_error "$info" net --xml; err_has "option --xml means nothing to 'net'"
usage_error "$info" plan allreduce ring -n 4 --xml --json
run 1 "$info" plan allreduce bruck -n 4 --xml; err_has 'allreduce has no algorithm "bruck"; allreduce has ring,'
run 1 "$info" plan reduce ring -n 4 --root 4 --xml; err_has 'it must be less than -n, 4'
run 1 "$info" plan barrier flat -n 4 --xml; err_has "has no form in MSCCL's files"
run 1 env DFCCL_ALGORITHMS= "$info" files; err_has 'name a directory'
run 1 "$info" files "$work/nothing"; err_has 'No such file'

# ---- the network
unset DFCCL_SECRET DFCCL_SECRET_FILE DFCCL_NET_SECURITY DFCCL_NET
secret=0123456789abcdef0123456789abcdef
security() { # LEVEL PATTERN: checks the text of the level, also in the JSON object
  run 0 env DFCCL_NET_SECURITY="$1" "$info" net; out_has "^security  $1 .*$2"
  run 0 env DFCCL_NET_SECURITY="$1" "$info" net --json
  json "o['security']['level'] == '$1' and '$2' in o['security']['control'] + o['security']['data'] and not o['secret']"
}
security auth 'authenticated; data is in the clear'
security integrity 'protected against changes'
security encrypt 'data is encrypted'
security none 'every process that reaches a job'
security none 'a key that is public'
run 0 env DFCCL_NET_SECURITY=none "$info" net; out_has '^secret +none: every process may join'
run 0 env DFCCL_NET_SECURITY=none DFCCL_SECRET=$secret "$info" net
out_has '^secret +is set'
out_has 'are authenticated'
run 0 env DFCCL_NET_SECURITY=none DFCCL_SECRET=$secret "$info" net --json
json "o['secret'] and o['security']['level'] == 'none'"
run 0 "$info" net; out_has '^secret +none: jobs of several hosts need'

pair() { # COMMAND...: runs two ranks of this host; the output of rank 0 is left as by run
  port=$((20000 + $$ % 20000))
  timeout 100 env RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$@" >"$work/other" \
    2>&1 &
  run 0 env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$@"
  wait $! || fail "rank 1: $*: $(cat "$work/other")"
}
pair "$info" net --env; out_has '^ +0 +1  shared memory +within the host +[0-9.]+ +[0-9.]+$'
pair "$info" net --env --json
json "o['pairs'][0]['security'] == 'within the host' and o['pairs'][0]['address'] == ''"
json "all(i.keys() == {'name', 'address', 'prefix', 'mbit_per_s', 'used'} for r in o['ranks'] for i in r['interfaces'])"
json "all('lo' in (i['name'] for i in r['interfaces']) for r in o['ranks'])"
pair env DFCCL_NET=tcp DFCCL_NET_SECURITY=encrypt "$info" net --env
out_has '^ +0 +1  tcp +127.0.0.1:[0-9]+ +encrypt +[0-9.]+ +[0-9.]+$'
pair env DFCCL_NET=tcp "$info" net --env --json
json "o['pairs'][0]['way'] == 'tcp' and o['pairs'][0]['security'] == 'auth'"
json "o['pairs'][0]['connections'][0]['ends'].endswith(' to ' + o['pairs'][0]['address']) and o['pairs'][0]['address']"
if [ -n "$plugin" ]; then
  pair env DFCCL_NET="plugin:$plugin" "$info" net --env --json
  json "o['pairs'][0]['way'] == 'plugin:$plugin' and o['pairs'][0]['address'].startswith('127.0.0.1:')"
fi
ranks() { # RANK WORLD_SIZE COMMAND...: runs one rank
  of_rank=$1 of=$2
  shift 2
  run 1 env RANK="$of_rank" WORLD_SIZE="$of" MASTER_ADDR=127.0.0.1 \
    MASTER_PORT=$((20000 + $$ % 20000)) "$@"
}
ranks 0 65 "$info" net --env; err_has '^dfccl-info: 65 ranks are too many: at most 64$'
ranks 0 65 "$info" net --env --json; json "o['error'] == '65 ranks are too many: at most 64'"
ranks 0 2 env DFCCL_INIT_TIMEOUT_MS=300 "$info" net --env; err_has 'rank 1 of 2 did not come'
ranks 0 2 env DFCCL_INIT_TIMEOUT_MS=300 "$info" net --env --json; err_has 'rank 1 of 2 did not come'
json "'rank 1 of 2 did not come' in o['error'] and o['ranks'][0]['interfaces'] and o['pairs'] == []"
ranks 1 2 env DFCCL_INIT_TIMEOUT_MS=300 "$info" net --env --json; [ ! -s "$work/out" ] ||
  fail 'another rank than 0 has printed'
ranks 1 2 env DFCCL_NET_SECURITY=some "$info" net --env --json; [ ! -s "$work/out" ] ||
  fail 'another rank than 0 has printed'
run 1 "$info" net --env --json; json "'no launcher' in o['error'] and o['ranks'] == []"

run 0 "$info" plan allreduce ring -n 2 --xml
if ! "$info" files "$work" >/dev/null; then fail 'an empty directory'; fi
printf '<algo/>' >"$work/probe.xml"
if "$info" files "$work" | grep -q 'built without'; then
  echo 'skipped: built without libxml2'; exit 0
fi
rm "$work/probe.xml"

# ---- files that the tool wrote can be read
mkdir "$work/plans"
operations='allreduce reduce broadcast allgather reducescatter alltoall gather scatter'
algorithms='ring allpairs doubling rabenseifner doubletree direct flat twolevel hierarchical bcube binaryblocks trees
  halving  binomial scatter-allgather bruck pairwise pat ordered'
for operation in $operations; do
  for algorithm in $algorithms; do
    for ranks in 2 5 8; do
      file="$work/plans/$operation-$algorithm-$ranks.xml"
      "$info" plan "$operation" "$algorithm" -n "$ranks" --root 1 --xml >"$file" 2>"$work/err" &&
        continue
      rm "$file"
      grep -q 'has no algorithm' "$work/err" ||
        fail "$operation by $algorithm of $ranks: $(cat "$work/err")"
    done
  done
done
written=$(find "$work/plans" -type f | wc -l)
[ "$written" -ge 130 ] || fail "$written plans"
run 0 "$info" files "$work/plans"; out_has "^$written files, 0 refused$"
out_has '^allreduce-ring-8.xml +allreduce +8 ranks, 8 chunks'
run 0 env DFCCL_ALGORITHMS="$work/plans" "$info" files --json
json "len(o['files']) == $written and o['refused'] == []"
json "all(set(f) >= {'file', 'title', 'hash', 'operation', 'ranks', 'chunks', 'slots', 'lends', 'same_bits', 'ms'} for f in o['files'])"
lost_output "$info" files "$work/plans"
lost_output "$info" plan allreduce ring -n 8 --xml

# ---- hostile files
bad=$work/bad
mkdir "$bad"
ring=$work/plans/allreduce-ring-2.xml
put() { cat >"$bad/$1.xml"; }
printf '' | put empty
head -c 100000 /dev/urandom | put noise
sed 's/ ngpus="2"//' "$ring" | put no_ngpus
sed 's/ ngpus="2"/ ngpus="99999999999999999999"/' "$ring" | put many_gpus
sed 's/nchunksperloop="2"/nchunksperloop="1000000000"/' "$ring" | put many_chunks
sed '0,/type="s"/s//type="send"/' "$ring" | put unknown_type
sed '0,/<gpu id="1"/s//<gpu id="0"/' "$ring" | put gpu_twice
sed '0,/srcoff="[0-9]*"/s//srcoff="-7"/' "$ring" | put negative
sed '0,/send="[0-9]"/s//send="7"/' "$ring" | put nobody
sed 's/type="s"/type="nop"/' "$ring" | put unsent
sed 's/type="r"/type="nop"/' "$ring" | put unreceived
head -c 400 "$ring" | put cut_off
printf '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">]><algo name="&b;"/>' |
  put entities
printf '<!DOCTYPE a SYSTEM "file:///etc/passwd"><algo/>' | put outside
awk 'BEGIN { for (i = 0; i < 20000; i++) printf "<algo>" }' | put deep
{ printf '<algo name="x" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce"><gpu id="0"><tb id="0" send="-1" recv="-1" chan="0">'
  awk 'BEGIN { for (i = 0; i < 300000; i++) printf "<step s=\"%d\" type=\"nop\" depid=\"-1\" deps=\"-1\"/>\n", i }'; } | put many_steps
truncate -s 65M "$bad/large.xml"
mkfifo "$bad/pipe.xml"
mkdir "$bad/directory.xml"
ln -s loop.xml "$bad/loop.xml"
cp "$bad/empty.xml" "$bad/$(printf 'two\nlines \033[31mred').xml"
files=$(find "$bad" -mindepth 1 -maxdepth 1 -print0 | tr -dc '\0' | wc -c)
run 1 "$info" files "$bad"
out_has "^$files files, $files refused$"
[ "$(wc -l <"$work/out")" -eq $((files + 1)) ] ||
  fail "not one line for each file: $(cat "$work/out")"
[ "$(tr -d '\n' <"$work/out" | tr -dc '\000-\037' | wc -c)" -eq 0 ] || fail 'control characters'
out_has 'no_ngpus.xml:[0-9]+: <algo> has no attribute ngpus'
out_has 'many_gpus.xml:[0-9]+: ngpus="99999999999999999999" of <algo>: it must be a whole number'
out_has 'many_chunks.xml:[0-9]+: nchunksperloop="1000000000"'
out_has 'unknown_type.xml:[0-9]+: type="send" is none of'
out_has 'gpu_twice.xml:[0-9]+: <gpu id="0"> is there a second time'
out_has 'unsent.xml:[0-9]+: '
out_has 'entities.xml:[0-9]+: a document type'
out_has 'outside.xml:[0-9]+: a document type'
out_has 'many_steps.xml:[0-9]+: more than 262144 steps'
out_has 'large.xml: it has 68157440 bytes'
out_has 'pipe.xml: it is no regular file'
out_has 'two\\nlines'
run 1 "$info" files "$bad" --json
json "len(o['refused']) == $files and o['files'] == [] and all(r['why'] for r in o['refused'])"

# A block without peers may have no channel; a block with a peer must have one.
printf '<algo name="old" nchannels="1" nchunksperloop="1" ngpus="2" coll="broadcast"><gpu id="0"><tb id="0" send="-1" recv="-1" chan="-1"><step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0"/></tb><tb id="1" send="1" recv="-1" chan="0"><step s="0" type="s" srcbuf="i" srcoff="0"/></tb></gpu><gpu id="1"><tb id="0" send="-1" recv="0" chan="CHAN"><step s="0" type="r" dstbuf="o" dstoff="0"/></tb></gpu></algo>' >"$work/old"
mkdir "$work/old_files"
sed 's/CHAN/0/' "$work/old" >"$work/old_files/fine.xml"
sed 's/CHAN/-1/' "$work/old" >"$work/old_files/wrong.xml"
run 1 "$info" files "$work/old_files"; out_has '^fine.xml +broadcast'
out_has 'wrong.xml:1: chan="-1"'

finish
