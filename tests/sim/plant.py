#!/usr/bin/env python3
"""Plants bugs in a copy of the library's sources, to test the simulation itself.

    plant.py ROOT OUTPUT_DIRECTORY DEPFILE SOURCE...     one self-contained file planted_NUMBER_NAME.c for each source
    plant.py --list                                      number and name of each bug
    plant.py --check SIMULATE ROOT                       looks for each, MOST schedules long; WANTED of them must be found
    plant.py --quick SIMULATE ROOT                       every bug must be plantable, and each that is not in SLOW found soon
    plant.py --rates SIMULATE KIND...                    how often worlds of each kind (--large, --small) find each bug, by processor time

A bug is a replacement of a text of the sources; in the replacement, PLANTED stands for "this bug was chosen", which the
running program decides (sim_planted). A text that is no longer there, or is there twice, fails the test, which names it: plant
that bug anew, at the place that does the same now.
"""
import os
import re
import subprocess
import sys

SEEDS, MOST, WANTED, LIMIT_S = (1,), 8_000, 20, int(os.environ.get("DF_PLANT_LIMIT_S", "120"))


def weaker(call, weak):
    """The call with a weaker order."""
    name = call.split("(", 1)[0]
    return "(PLANTED ? %s : %s)(%s" % (weak, name, call.split("(", 1)[1])


# In --quick: so many schedules for each (of those that end: some bugs are rarer there), and what they do not suffice for.
SOON, SOON_WITH_ENDINGS = 4_000, 20_000
SLOW = {
    "a full SQ is told by a load", "between two turns the lock is only tried", "the completion counter is set back after the CQE",
    "the poller and the waiters' bell are rung without a fence", "a waiting run is no longer listed while room is looked for",
    "a lent buffer is read without being held", "what another process reads of a failed run counts", "a common slot is written again while it is read", "a broken context does not tell its runs",
    "what had failed before all is given up is not told again", "runs beyond a member's last are looked at before it is counted", "a deadline begins without a fence",
    "a slot is released before the rest of it is stored",
    "a free slot of the CQ is taken for the next one", "an executor sleeps with a block that has not left",
}


def order(name, path, call, weak, context=None):
    old = context or call
    return (name, [(path, old, old.replace(call, weaker(call, weak), 1))])


def ends(name, path, old, new):
    """One that only schedules with failures and closed contexts can find."""
    return (name, [(path, old, new)], "--endings")


SQ, CQ, LINK = "queues/sq.h", "queues/cq.h", "primitives/link.h"
STEP, LANES, DAEMON = "primitives/step.h", "primitives/lanes.h", "daemon_kernel/daemon.h"
EXECUTOR, BELL = "devices/cpu/executor.c", "base/bell.c"
SUBMIT, COMPLETION, WAIT = "host/submit.c", "host/completion.c", "host/wait.c"
FAILURE, SERVICE, INIT = "host/failure.c", "control/service.c", "host/init.c"

BUGS = [
    order("an SQE is published without order", SQ, "df_publish_u64(&slot->commit, (uint64_t)(uint32_t)(sq->ticket + 1)",
          "df_store_relaxed_u64"),
    order("an SQE is observed without order", SQ, "df_observe_u64(&slot->commit)", "df_load_relaxed_u64"),
    ("the first of two readers frees an SQ slot", [(SQ, "df_system_sub_u32(&slot->readers_left, 1)",
     "(PLANTED ? df_system_exchange_u32(&slot->readers_left, 0) + 1 : df_system_sub_u32(&slot->readers_left, 1))")]),
    ("a full SQ is told by a load", [(SQ, "df_system_sub_u32(&slot->readers_left, 0) != 0", "(PLANTED || df_system_sub_u32(&slot->readers_left, 0) != 0)")], "--crowds"),
    ("a run is lost when the SQ is full", [(SUBMIT, "        sq_full = 1;\n", "        sq_full = 1;\n        if (PLANTED) { df_backlog_pop(context, coll); }\n")]),
    ("between two turns the lock is only tried", [(SUBMIT, "  pthread_mutex_lock(&context->lock); /* no try",
     "  if (PLANTED) {\n    if (pthread_mutex_trylock(&context->lock) != 0) return;\n  } else\n    pthread_mutex_lock(&context->lock); /* no try")], "--crowds"),
    order("a message is published without order", LINK, "df_publish_fenced_u64((uint64_t *)df_link_slot(link, sequence)", "df_store_relaxed_u64"),
    order("a message is observed without order", LINK, "df_observe_u64((const uint64_t *)df_link_slot(link, sequence)", "df_load_relaxed_u64"),
    order("a slot is released without order", LINK, "df_publish_fenced_u64(link->credit, sequence", "df_store_relaxed_u64"),
    order("a credit is observed without order", LINK, "df_observe_u64(link->credit)", "df_load_relaxed_u64",
          "  link->credit_seen = df_observe_u64(link->credit);\n  return"),
    ("a slot is released before it is read", [(STEP, "  df_move_execute(lanes, move);",
     "  if (PLANTED && move->recv_link) df_link_release(move->recv_link, move->recv_sequence);\n  df_move_execute(lanes, move);")]),
    ("a message is published before it is written", [(STEP, "  df_move_execute(lanes, move);\n",
     "  if (PLANTED && move->send_link && move->announces)\n    df_link_publish(move->send_link, move->send_sequence, (int)move->lends);\n  df_move_execute(lanes, move);\n")]),
    ("a slot is released before the rest of it is stored", [(STEP, "  df_move_finish(lanes, move);",
     "  if (PLANTED && move->recv_link) df_link_release(move->recv_link, move->recv_sequence);\n  df_move_finish(lanes, move);")]),
    ("a slot is written without credit", [(STEP, "move->announces && !df_link_may_send(", "!PLANTED && move->announces && !df_link_may_send(")]),
    ("a run completes while what it lent is read", [(STEP, "  if (!(cursor->flags & DF_CURSOR_DIRECT_SENT)) return NULL;\n  for",
     "  if (!(cursor->flags & DF_CURSOR_DIRECT_SENT) || PLANTED) return NULL;\n  for")]),
    order("blocks count themselves done without order", DAEMON, "df_device_add_u32(&desc->counters->blocks_done[slot], 1)", "sim_add_relaxed"),
    ("the completion counter is set back after the CQE", [(DAEMON, "    df_store_relaxed_u32(&desc->counters->blocks_done[slot],\n",
     "    if (!PLANTED) df_store_relaxed_u32(&desc->counters->blocks_done[slot],\n"),
     (DAEMON, "  df_cq_push_mpsc(&block->device->cq, block->index, cqe);",
      "  df_cq_push_mpsc(&block->device->cq, block->index, cqe);\n  if (PLANTED && n_blocks > 1) df_store_relaxed_u32(&desc->counters->blocks_done[slot], 0);")], "--crowds"),
    order("a packed CQE is published without order", CQ, "df_publish_u64(&ring->words[tail & mask], df_cqe_encode(cqe, (tail + 1)", "df_store_relaxed_u64"),
    order("a CQE is observed without order", CQ, "df_observe_u64(&ring->words[index & cq->mask])", "df_load_relaxed_u64"),
    ("a CQ ring's tail is published without order", [(CQ, "  df_wake_fence(); /* the plain", "  if (!PLANTED) df_wake_fence(); /* the plain"),
     (CQ, "  df_publish_u64(&ring->tail, tail + 1);", "  (PLANTED ? df_store_relaxed_u64 : df_publish_u64)(&ring->tail, tail + 1);")]),
    ("a sleeper announces itself without a fence", [(BELL, "  df_wake_fence();\n  return ticket;", "  if (!PLANTED) df_wake_fence();\n  return ticket;")]),
    ("peers are rung without a fence", [(LANES, "  df_wake_fence();", "  if (!PLANTED) df_wake_fence();")]),
    ("a submission rings without a fence", [(EXECUTOR, "  if (unlocked)\n    df_wake_fence_unlocked();\n  else\n    df_wake_fence();",
     "  if (unlocked && !PLANTED)\n    df_wake_fence_unlocked();\n  else if (!PLANTED)\n    df_wake_fence();")]),
    ("the poller and the waiters' bell are rung without a fence", [("base/bell.h", "  df_wake_fence();\n  if (DF_UNLIKELY", "  if (!PLANTED) df_wake_fence();\n  if (DF_UNLIKELY")]),
    ("peers are not rung", [(LANES, "  if (lanes->n_noted == 0) return;", "  if (lanes->n_noted == 0 || PLANTED) return;")]),
    ("a stuck executor looks before it announces its sleep", [(EXECUTOR,
     "  uint32_t ticket = df_bell_prepare(executor->work_bell);\n  int reason = df_lifecycle_has_reason(eb->block) ||",
     "  int early = PLANTED ? df_lifecycle_has_reason(eb->block) : 0;\n  uint32_t ticket = df_bell_prepare(executor->work_bell);\n"
     "  int reason = (PLANTED ? early : df_lifecycle_has_reason(eb->block)) ||")]),
    ("a stuck executor does not look again", [(EXECUTOR, "  if (reason)\n    df_bell_cancel(executor->work_bell);",
     "  if (!PLANTED && reason)\n    df_bell_cancel(executor->work_bell);")]),
    ("a waiter does not look again", [(WAIT,
     "  if (is_true(condition) || context->device.executor->drive_has_reason(context, driver) ||\n      df_completion_is_due(context))",
     "  if (!PLANTED && (is_true(condition) || context->device.executor->drive_has_reason(context, driver) ||\n      df_completion_is_due(context)))")]),
    ("the poller does not look again", [(COMPLETION, "    if (finished > 0 || df_completion_is_due(context) ||", "    if ((!PLANTED && (finished > 0 || df_completion_is_due(context))) ||")]),
    ("a block leaves without saving its contexts", [("daemon_kernel/lifecycle.h", "  df_context_flush(&block->cache);", "  if (!PLANTED) df_context_flush(&block->cache);")]),
    ("a progress is not marked to be saved", [(DAEMON, "      slot->dirty = 1;\n      block->quiet_polls", "      if (!PLANTED) slot->dirty = 1;\n      block->quiet_polls")]),
    order("a block changes hands without order", EXECUTOR, "df_publish_u32(&eb->owner, 0)", "df_store_relaxed_u32"),
    ("a synchronisation forgets what it held back", [(WAIT, "  context->runs.held -= holds;\n  df_admit_listed(context);", "  context->runs.held -= holds;\n  if (!PLANTED) df_admit_listed(context);")]),
    ("a retired run does not make room", [(COMPLETION, "  if (coll->backlog_length > 0) {", "  if (!PLANTED && coll->backlog_length > 0) {")]),
    # Was real: found by the simulation, see found.txt.
    ("a waiting run is no longer listed while room is looked for", [
        (SUBMIT, "  int sq_full = 0;\n  while", "  int sq_full = 0;\n  if (PLANTED) df_store_relaxed_u32(&context->runs.has_listed, 0);\n  while"),
        (SUBMIT, "    context->runs.listed_last = kept_last;\n  }",
         "    context->runs.listed_last = kept_last;\n    if (PLANTED) df_store_relaxed_u32(&context->runs.has_listed, 1);\n  }")]),
    # Was real: its newest contexts are in its cache, and older ones are looked at.
    ("an executor sleeps with a block that has not left", [(EXECUTOR, "if (df_load_relaxed_u32(&executor->wanted) || df_load_relaxed_u32(&eb->block->running))",
     "if (df_load_relaxed_u32(&executor->wanted) || (!PLANTED && df_load_relaxed_u32(&eb->block->running)))")]),
    # Was real, too: an older index of the consumer is that of a slot that is free again.
    ("a free slot of the CQ is taken for the next one", [(CQ, "  if (cq->variant == DF_CQ_SLOTS_CAS && cq->ticket == NULL)\n    return df_load", "  if (!PLANTED && cq->variant == DF_CQ_SLOTS_CAS && cq->ticket == NULL)\n    return df_load")]),
    # First turns by submitters.
    ("a first turn is taken of a block that another thread executes", [(EXECUTOR, ">= DF_FIRST_TURNS_AHEAD || !try_own(eb))",
     ">= DF_FIRST_TURNS_AHEAD || (!PLANTED && !try_own(eb)))")]),
    ("a first turn is taken before earlier runs in the task queue", [(EXECUTOR, "block->tasks.pending[collective] == 0 &&", "(PLANTED || block->tasks.pending[collective] == 0) &&")]),
    ("peers are not rung after a first or last turn", [(SUBMIT, "    df_ring_noted(&bells);", "    if (!PLANTED) df_ring_noted(&bells);"), (COMPLETION, "  df_ring_noted(bells);", "  if (!PLANTED) df_ring_noted(bells);")]),
    ("peers are rung without a fence after a first or last turn", [(SUBMIT, "    df_wake_fence(); /* after what it has", "    if (!PLANTED) df_wake_fence(); /* after what it has"), (COMPLETION, "  df_wake_fence_unlocked(); /* before the looks", "  if (!PLANTED) df_wake_fence_unlocked(); /* before the looks")]),
    ("a run that is stuck in its first turn is not queued", [(DAEMON, "  df_scheduler_enqueue(block, collective);\n  if", "  if (!PLANTED) df_scheduler_enqueue(block, collective);\n  if")]),
    # Last turns by waiters.
    ("a last turn is taken of a block that another thread executes", [(EXECUTOR, "int done = 0;\n  if (!try_own(eb)) return 0;", "int done = 0;\n  if (!PLANTED && !try_own(eb)) return 0;")]),
    ("a run stays in the task queue after its last turn", [(DAEMON, "    df_scheduler_retire(block);\n    df_count(&block->stats.cqes_written, 1); /* as if */", "    if (!PLANTED) df_scheduler_retire(block);\n    df_count(&block->stats.cqes_written, 1); /* as if */")]),
    # Of schedules that end (endings.c).
    ends("a cancellation is not observed", STEP, "  if (DF_UNLIKELY(df_lanes_attend(lanes) &&", "  if (DF_UNLIKELY(!PLANTED && df_lanes_attend(lanes) &&"),
    ends("a lent buffer is not taken back", STEP, "  if (cursor->phase == DF_PHASE_BEGIN || !(cursor->flags", "  if (PLANTED || cursor->phase == DF_PHASE_BEGIN || !(cursor->flags"),
    ends("a lent buffer is taken back while it is read", STEP, "if (!link->sends || df_link_revoke(link)) continue;", "if (!link->sends || df_link_revoke(link) || (PLANTED && link->same_process)) continue;"),
    # Was real: what another process was reading was not taken from it.
    ends("what another process reads of a failed run counts", STEP, "if (move->borrows && !df_link_return(move->recv_link)) return", "if (move->borrows && !df_link_return(move->recv_link) && !PLANTED) return"),
    ("a lent buffer is read without being held", [
        (STEP, "if (received_direct && !df_link_borrow(", "if (!PLANTED && received_direct && !df_link_borrow("),
        (LINK, "  return df_system_claim_u64(link->credit + 1, DF_HOLD_READING, 0);", "  return PLANTED || df_system_claim_u64(link->credit + 1, DF_HOLD_READING, 0);")],
     "--endings"),
    ends("a common slot is written again while it is read", STEP, "  if (cursor->loop < depth) return NULL;", "  if (PLANTED || cursor->loop < depth) return NULL;"),
    ends("runs that wait on the host are forgotten on failure", FAILURE, "  df_list(context, coll);\n  if (coll->taken", "  if (!PLANTED) df_list(context, coll);\n  if (coll->taken"),
    ends("a failure rings nobody", FAILURE, "    context->device.executor->submitted(context, 1, 0);", "    if (!PLANTED) context->device.executor->submitted(context, 1, 0);"),
    # Was real: the count that was compared grew only after the look.
    ends("runs beyond a member's last are looked at before it is counted", FAILURE, "coll->retired < coll->run_limit", "(PLANTED ? coll->taken : coll->retired) < coll->run_limit"),
    ends("runs beyond a member's last wait for it", "host/match.c", "    coll->limit_rank_leaves = leaves;\n  }\n  df_check", "    coll->limit_rank_leaves = leaves;\n  }\n  if (!PLANTED) df_check"),
    ends("an abort is not told", FAILURE, "    if (peer != context->rank) df_send(context, peer, &message, sentence,", "    if (peer != context->rank && !PLANTED) df_send(context, peer, &message, sentence,"),
    # Was real: the failure's own message was the one that was lost for want of memory.
    ends("what had failed before all is given up is not told again", FAILURE, "    if (coll->failed != dfcclSuccess) {\n      df_message message", "    if (coll->failed != dfcclSuccess && !PLANTED) {\n      df_message message"),
    ends("a broken context does not tell its runs", FAILURE, "    if (coll == NULL) continue;\n    df_message limit", "    if (coll == NULL || PLANTED) continue;\n    df_message limit"),
    ends("the end of a connection is not told", SERVICE, "  else if (peer->state != DF_PEER_LEFT)", "  else if (!PLANTED && peer->state != DF_PEER_LEFT)"),
    ends("the service thread does not look at deadlines", SERVICE, "  if (context->settings.timeout_ms == 0) return -1;", "  if (context->settings.timeout_ms == 0 || PLANTED) return -1;"),
    ends("a deadline begins, and nobody is woken", SUBMIT, "    if (df_load_relaxed_u32(&context->control.service_idle)) df_service_wake", "    if (!PLANTED && df_load_relaxed_u32(&context->control.service_idle)) df_service_wake"),
    ends("a deadline begins without a fence", SUBMIT, "    df_wake_fence(); /* after runs_accepted", "    if (!PLANTED) df_wake_fence(); /* after runs_accepted"),
    ends("a callback's collective is not kept", COMPLETION, "  coll->references++; /* the callback may", "  if (!PLANTED || coll->references > 1) coll->references++; /* the callback may"),
    ends("a context is closed with runs outstanding", INIT, "  df_wait_settled(context);\n  df_log", "  if (!PLANTED) df_wait_settled(context);\n  df_log"),
    ends("a leaving rank does not deregister", INIT, "    if (coll == NULL) continue;\n    df_message message = {\n        .kind = DF_MESSAGE_DEREGISTER", "    if (coll == NULL || PLANTED) continue;\n    df_message message = {\n        .kind = DF_MESSAGE_DEREGISTER"),
    ends("links of a closed context go while peers write to them", INIT, "    df_world_bury(context->control.world, links);", "    for (df_segment *next; links && PLANTED; links = next) {\n      next = links->next;\n      df_segment_destroy(links);\n    }\n    df_world_bury(context->control.world, links);"),
    ends("a service thread that stops is not woken", SERVICE, "  df_service_wake(context);\n  pthread_join", "  if (!PLANTED) df_service_wake(context);\n  pthread_join"),
    ends("a place in the order of registrations is not kept", "host/match.c", "      if (i != coll->position) expect(", "      if (i != coll->position && !PLANTED) expect("),
    ends("registrations are not compared", "host/match.c", "  if (describe_difference(coll, remote, difference, sizeof difference)) {", "  if (!PLANTED && describe_difference(coll, remote, difference, sizeof difference)) {"),
    ends("a mismatch is told as another error", SERVICE, "message->a == dfcclMismatch || message->a", "(!PLANTED && message->a == dfcclMismatch) || message->a"),
    # For the simulation's watchdog.
    ("an endless loop without any access", [(STEP, "  df_move_execute(lanes, move);\n",
     "  if (PLANTED)\n    for (;;) __asm__ volatile(\"\");\n  df_move_execute(lanes, move);\n")]),
]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def planted_sources(root):
    """Path below src -> text with every bug; which bugs could be planted; and why the others could not."""
    texts, plantable, why = {}, [], {}
    for number, (_, edits, *_) in enumerate(BUGS, 1):
        trial = dict(texts)
        for path, old, new in edits:
            text = trial.get(path) or read(os.path.join(root, "src", path))
            if text.count(old) != 1:
                why[number] = "%s has this text %d times: %s" % (path, text.count(old), old.strip().split("\n")[0])
                break
            at = text.find(old)
            trial[path] = text[:at] + new.replace("PLANTED", "(sim_planted == %d)" % number) + text[at + len(old):]
        else:
            texts = trial
            plantable.append(number)
    return texts, plantable, why


def amalgamate(root, texts, path, seen):
    """The file with the project's own headers in the place of their inclusion."""
    seen.append(path)
    below = os.path.relpath(path, os.path.join(root, "src"))
    out = ['#line 1 "%s"' % path]
    for number, line in enumerate((texts.get(below) or read(path)).split("\n"), 1):
        match = re.match(r'#include "([^"]+)"', line)
        found = None
        if match:
            for folder in ("src", "include", "tests/sim"):
                if os.path.exists(os.path.join(root, folder, match[1])):
                    found = os.path.join(root, folder, match[1])
        if not found:
            out.append(line)
        elif found not in seen:
            out += amalgamate(root, texts, found, seen)
            out.append('#line %d "%s"' % (number + 1, path))
    return out


def generate(root, directory, depfile, sources):
    texts, _, _ = planted_sources(root)
    outputs, inputs = [], set()
    for number, source in enumerate(sources):
        seen = []
        body = amalgamate(root, texts, os.path.abspath(source), seen)
        inputs.update(seen)
        output = os.path.join(directory, "planted_%d_%s" % (number, os.path.basename(source)))
        outputs.append(output)
        head = ("extern int sim_planted;\nstatic inline unsigned sim_add_relaxed(unsigned *p, unsigned n) {\n"
                "  return __atomic_fetch_add(p, n, __ATOMIC_RELAXED);\n}\n")
        with open(output, "w", encoding="utf-8") as file:
            file.write(head + "\n".join(body) + "\n")
    with open(depfile, "w", encoding="utf-8") as file:
        file.write("%s: %s\n" % (outputs[0], " ".join(sorted(inputs))))


def look_for(simulate, number, seed, most, flags):
    """After how many schedules it was found, None if it was not, and what was said."""
    try:
        result = subprocess.run([simulate, "--planted", str(number), "--schedules", str(most), "--each", "20", "--seed", str(seed),
                                 "--brief", *flags], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, "no end in %d s" % LIMIT_S
    needed = re.search(r"(\d+) schedules", result.stdout)
    how = re.search(r"FAILED: (.*)", result.stdout)
    return (int(needed[1]) if result.returncode and needed and how else None), how[1][:100] if how else result.stdout[-100:]


def check(simulate, root, quick):
    _, plantable, why = planted_sources(root)
    found, missed, looked = 0, [], 0
    for number, (name, _, *flags) in enumerate(BUGS, 1):
        if number not in plantable:
            print("NOT PLANTED: %2d %s: the source has changed, plant it anew in tests/sim/plant.py (%s)" % (number, name, why[number]))
            continue
        if quick and name in SLOW:
            continue
        looked += 1
        for seed in SEEDS:
            needed, how = look_for(simulate, number, seed, (SOON_WITH_ENDINGS if flags else SOON) if quick else MOST, flags)
            if needed is not None:
                print("found: %2d %-58s after %6d schedules: %s" % (number, name, needed, how), flush=True)
                found += 1
                break
        else:
            missed.append(name)
            print("NOT FOUND: %2d %s (%s)" % (number, name, how.strip()), flush=True)
    print("planted bugs: %d of %d found, %d could not be planted" % (found, looked, len(why)))
    return 0 if not why and (found == looked if quick else found >= WANTED) else 1


def rate(simulate, number, flags):
    """Failures, schedules, and seconds of processor time."""
    run = subprocess.run([simulate, "--planted", str(number), "--schedules", "3000", "--each", "6", "--seed", "77", "--failures", "20", "--brief",
                          *flags], capture_output=True, text=True, check=False, timeout=600)
    said = re.search(r"(\d+) schedules, .* ([0-9.]+) s of processor time.*: (\d+) failure", run.stdout)
    return (int(said[3]), int(said[1]), float(said[2])) if said else (0, 0, 0.0)


def rates(simulate, *kinds):
    """How often worlds of each kind find each bug: the kinds' flags, separated by commas."""
    kinds = [kind.split(",") for kind in kinds]
    costs = {}
    for number, (name, _, *flags) in enumerate(BUGS, 1):
        line = []
        for kind in kinds:
            of = tuple(flags + kind)
            if of not in costs:
                _, schedules, seconds = rate(simulate, 0, of)
                costs[of] = seconds / max(schedules, 1)
                print("%s: %.1f us a schedule" % (" ".join(of), costs[of] * 1e6), flush=True)
            failures, schedules, _ = rate(simulate, number, of)
            line.append("%4d of %4d, %7.2f a s" % (failures, schedules, failures / max(schedules, 1) / max(costs[of], 1e-9)))
        print("%2d %-60s %s" % (number, name[:60], " | ".join(line)), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        for index, bug in enumerate(BUGS, 1):
            print(index, bug[0])
    elif sys.argv[1] == "--check":
        sys.exit(check(sys.argv[2], sys.argv[3], False))
    elif sys.argv[1] == "--rates":
        rates(*sys.argv[2:])
    elif sys.argv[1] == "--quick":
        sys.exit(check(sys.argv[2], sys.argv[3], True))
    else:
        generate(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
