#!/usr/bin/env python3
"""Plants bugs in a copy of the library's sources, to test the simulation itself.

    plant.py ROOT OUTPUT_DIRECTORY DEPFILE SOURCE...
                                   writes a self-contained file planted_NUMBER_NAME.c for each source
    plant.py --list                prints the number and the name of each bug
    plant.py --places ROOT         checks that every bug has its place
    plant.py --check SIMULATE ROOT searches for each bug in MOST schedules; WANTED must be found
    plant.py --quick SIMULATE ROOT checks that every bug can be planted, and that each bug that is
                                   not in SLOW is found soon
    plant.py --rates SIMULATE KIND...
                                   measures how often worlds of each kind (--large, --small) find
                                   each bug, by processor time

A bug is a function of src/, an anchor in it (tests/functions.py), and the text that replaces the
anchor. In the text, PLANTED is the condition that this bug was chosen, which the running program
decides (sim_planted). CALL, CONDITION and MEMBER are the replaced text, and NAME and ARGUMENTS the
parts of a call. If the function or the anchor does not exist, or exists twice, the test fails and
names the bug. Plant the bug again, at the place that has the same purpose now.

lint: allow-file(columns) a table with one line for each bug
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import functions

SEEDS, MOST, WANTED, LIMIT_S = (1, 2), 8_000, 20, int(os.environ.get("DF_PLANT_LIMIT_S", "120"))


# With --quick, each bug is searched in so many schedules, and the bugs in SLOW need more. With flags
# there are more schedules, since some bugs are rarer in the chosen worlds.
SOON, SOON_WITH_FLAGS = 4_000, 40_000
WITHOUT_BUG = 400
SLOW = {
    "a full SQ is told by a load", "between two turns the lock is only tried", "the completion counter is set back after the CQE",
    "the poller and the waiters' bell are rung without a fence", "a waiting run is no longer listed while room is looked for",
    "a lent buffer is read without being held", "what another process reads of a failed run counts", "a common slot is written again while it is read", "a broken context does not tell its runs",
    "what had failed before all is given up is not told again", "runs beyond a member's last are looked at before it is counted", "a deadline begins without a fence",
    "a slot is released before the rest of it is stored",
    "who only sends takes up what the endpoint's thread has asked for", "what the stream did not take is sent from where a lent buffer was",
    "an answer that was lost is not given again", "a credit does not pass messages that came late",
    "a relay leaves before what it passes on has arrived", "who is given up for a relay's word is not told",
    "a switch that was called off is not told", "a free slot of the CQ is taken for the next one", "an executor sleeps with a block that has not left",
    "a plan switch leaves the copies of inputs with its plan",
}


def without(function, call):
    """Omits the call."""
    return (function, call, "(PLANTED ? (void)0 : (void)CALL)")


def weaker(function, call, weak):
    """Gives the call a weaker memory order."""
    return (function, call, "(PLANTED ? %s : NAME)(ARGUMENTS)" % weak)


def returns(function, value=""):
    """Makes the function return at once."""
    return (function, "{", "if (PLANTED) return %s;" % value)


def always(function, call):
    return (function, call, "(PLANTED || CALL)")


def never(function, call):
    return (function, call, "(!PLANTED && CALL)")


# Flags of the worlds in which a bug is searched: without room, with an end (endings.c), large, with
# wires, with runs of varying counts, with changes of the algorithm, with ranks that die while the
# others go on (survive.c).
CROWDS, ENDINGS, LARGE, WIRES, HOSTS, RAILS, RELAYS, VARYING, SWITCHES, SURVIVE = (
    "--crowds", "--endings", "--large", "--wires", "--hosts", "--rails", "--relays", "--varying", "--switches", "--survive")

# For each bug: name, edits (FUNCTION, ANCHOR, TEXT), and flags.
BUGS = [
    ("an SQE is published without order", [weaker("df_sq_push_spmc", "df_publish_u64", "df_store_relaxed_u64")]),
    ("an SQE is observed without order", [weaker("df_sq_fetch_spmc", "df_observe_u64", "df_load_relaxed_u64")]),
    ("the first of two readers frees an SQ slot", [
        ("df_sq_fetch_spmc", "df_system_sub_u32", "(PLANTED ? df_system_exchange_u32(&slot->readers_left, 0) + 1 : CALL)")]),
    ("a full SQ is told by a load", [always("df_sq_push_spmc", "df_system_sub_u32")], CROWDS),
    ("a run is lost when the SQ is full", [("df_admit_listed", "push", "(CALL || (PLANTED && (df_backlog_pop(context, coll), 0)))")]),
    ("between two turns the lock is only tried", [
        ("df_between_turns", "df_rank_lock", "if (PLANTED ? !df_rank_trylock(ARGUMENTS) : (CALL, 0)) return")], CROWDS),
    ("a message is published without order", [weaker("df_link_publish", "df_publish_fenced_u64", "df_store_relaxed_u64")]),
    ("a message is observed without order", [weaker("df_link_has_message", "df_observe_u64", "df_load_relaxed_u64")]),
    ("a slot is released without order", [weaker("df_link_release", "df_publish_fenced_u64", "df_store_relaxed_u64")]),
    ("a credit is observed without order", [weaker("df_link_is_drained", "df_observe_u64", "df_load_relaxed_u64")]),
    ("a slot is released before it is read", [
        ("df_coll_step", "df_move_execute", "if (PLANTED && move->recv_link) df_link_release(move->recv_link, move->recv_sequence); CALL")]),
    ("a message is published before it is written", [
        ("df_coll_step", "df_move_execute",
         "if (PLANTED && move->send_link && move->announces & DF_MESSAGE_GOES)"
         " df_link_publish(move->send_link, move->send_sequence, (int)move->lends); CALL")]),
    ("an empty message keeps the tag of an earlier one", [
        ("df_measure_received", ".tag", "(*(PLANTED ? &(__typeof__(MEMBER)){0} : &MEMBER))")], VARYING, ENDINGS),
    ("a slot is released before the rest of it is stored", [
        ("df_step_commit", "df_move_finish", "if (PLANTED && move->recv_link) df_link_release(move->recv_link, move->recv_sequence); CALL")]),
    ("a slot is written without credit", [always("df_step_links_ready", "df_link_may_send")]),
    ("a run completes while what it lent is read", [returns("df_step_undrained", "NULL")]),
    ("blocks count themselves done without order", [weaker("df_daemon_complete", "df_device_add_u32", "sim_add_relaxed")]),
    ("the completion counter is set back after the CQE", [
        without("df_daemon_complete", "df_store_relaxed_u32 blocks_done"),
        ("df_daemon_complete", "df_cq_push_mpsc",
         "CALL; if (PLANTED && n_blocks > 1) df_store_relaxed_u32(&desc->counters->blocks_done[slot], 0)")], CROWDS),
    ("a packed CQE is published without order", [weaker("df_cq_push_packed", "df_publish_u64", "df_store_relaxed_u64")]),
    ("a CQE is observed without order", [weaker("df_cq_ring_peek", "df_observe_u64 words", "df_load_relaxed_u64")]),
    ("a CQ ring's tail is published without order", [
        without("df_cq_push_ring", "df_wake_fence"), weaker("df_cq_push_ring", "df_publish_u64", "df_store_relaxed_u64")]),
    ("a sleeper announces itself without a fence", [without("df_bell_prepare", "df_wake_fence")]),
    ("peers are rung without a fence", [without("df_lanes_ring_bells", "df_wake_fence")]),
    ("a submission rings without a fence", [
        without("df_executor_submitted", "df_wake_fence"), without("df_executor_submitted", "df_wake_fence_unlocked")]),
    ("the poller and the waiters' bell are rung without a fence", [without("df_bell_ring", "df_wake_fence")]),
    ("peers are not rung", [without("df_lanes_ring_bells", "df_carrier_wake")]),
    ("a stuck executor looks before it announces its sleep", [
        ("sleep_stuck", "{", "int early = PLANTED ? df_lifecycle_has_reason(eb->block) : 0;"),
        ("sleep_stuck", "df_lifecycle_has_reason", "(PLANTED ? early : CALL)")]),
    ("a stuck executor does not look again", [("sleep_stuck", "if reason", "!PLANTED && (CONDITION)")]),
    ("a waiter does not look again", [("sleep_until_news", "if is_true", "!PLANTED && (CONDITION)")]),
    ("the poller does not look again", [
        ("poller", "if df_completion_is_due", "PLANTED ? df_load_relaxed_u32(&context->control.stopping) : (CONDITION)")]),
    ("a block leaves without saving its contexts", [without("df_lifecycle_leave", "df_context_flush")]),
    ("a progress is not marked to be saved", [("df_daemon_note_step", ".dirty", "(*(PLANTED ? &(__typeof__(MEMBER)){0} : &MEMBER))")]),
    ("a block changes hands without order", [weaker("disown", "df_publish_u32", "df_store_relaxed_u32")]),
    ("a synchronisation forgets what it held back", [without("df_device_synchronize", "df_admit_listed")]),
    ("a retired run does not make room", [without("retire", "df_list"), without("retire", "df_admit_listed")]),
    # A real bug, found by the simulation; see found.txt.
    ("a waiting run is no longer listed while room is looked for", [
        ("df_admit_listed", "{", "if (PLANTED) df_store_relaxed_u32(&context->runs.has_listed, 0);"),
        ("df_admit_listed", "if kept_first",
         "(CONDITION) && (!PLANTED || (df_store_relaxed_u32(&context->runs.has_listed, 1), 1))")]),
    # A real bug: the newest contexts were in the cache, and older ones were read.
    ("an executor sleeps with a block that has not left", [
        ("background", "if wanted", "PLANTED ? df_load_relaxed_u32(&executor->wanted) : (CONDITION)")]),
    # A real bug: an older index of the consumer belonged to a slot that was free again.
    ("a free slot of the CQ is taken for the next one", [("df_cq_has_entry", "if DF_CQ_SLOTS_CAS", "!PLANTED && (CONDITION)")]),
    # Bugs of first turns by submitters.
    ("a first turn is taken of a block that another thread executes", [always("df_executor_claim_first_turn", "try_own")]),
    ("a first turn is taken before earlier runs in the task queue", [("takes_first_turn", ".pending", "(PLANTED ? 0 : MEMBER)")], LARGE),
    ("peers are not rung after a first or last turn", [
        without("take_first_turn", "df_ring_borrowed"), without("df_complete_borrowed", "df_ring_borrowed")]),
    ("peers are rung without a fence after a first or last turn", [
        without("take_first_turn", "df_wake_fence"), without("df_complete_borrowed", "df_wake_fence_unlocked")]),
    ("a run that is stuck in its first turn is not queued", [without("df_daemon_borrowed_turn", "df_scheduler_enqueue")]),
    # Bugs of last turns by waiters.
    ("a last turn is taken of a block that another thread executes", [always("df_executor_last_turn", "try_own")]),
    ("a run stays in the task queue after its last turn", [without("df_daemon_borrowed_turn", "df_scheduler_retire")]),
    ("a wait for a run looks before it is complete", [always("df_wait_run", "coll_done")]),
    # Bugs of schedules that end (endings.c).
    ("a cancellation is not observed", [never("df_step_decide", "df_lanes_attend")], ENDINGS),
    ("a lent buffer is not taken back", [returns("df_step_take_back", "1")], ENDINGS),
    ("a lent buffer is taken back while it is read", [
        ("df_step_take_back", "df_link_revoke", "(CALL || (PLANTED && link->same_process))")], ENDINGS),
    # A real bug: a buffer that another process was reading was not revoked.
    ("what another process reads of a failed run counts", [always("df_step_commit", "df_link_return")], ENDINGS),
    ("a lent buffer is read without being held", [
        always("df_step_decide", "df_link_borrow"), always("df_link_return", "df_system_claim_u64")], ENDINGS),
    ("a common slot is written again while it is read", [returns("df_step_common_reader", "NULL")], ENDINGS),
    ("runs that wait on the host are forgotten on failure", [without("df_fail_collective", "df_list")], ENDINGS),
    ("a failure rings nobody", [without("df_fail_collective", "submitted")], ENDINGS),
    # A real bug: the compared count was incremented only after the comparison.
    ("runs beyond a member's last are looked at before it is counted", [
        ("df_check_run_limit", "{", "if (PLANTED && coll->runs.taken < coll->members.run_limit) return;")], ENDINGS),
    ("runs beyond a member's last wait for it", [without("limit_runs", "df_check_run_limit")], ENDINGS),
    ("an abort is not told", [without("df_abort", "df_messenger_send_all")], ENDINGS),
    ("an abort of one collective is not told", [
        ("df_abort_collectives", "df_fail_collective", "NAME(context, coll, dfcclAborted, !PLANTED, sentence)")], ENDINGS),
    # A real bug: the message of the failure was lost because memory was exhausted.
    ("what had failed before all is given up is not told again", [without("df_give_up", "df_coll_send")], ENDINGS),
    ("a broken context does not tell its runs", [without("df_report_broken", "df_coll_send")], ENDINGS),
    ("the end of a connection is not told", [without("service.c/lose", "lost")], ENDINGS),
    ("the service thread does not look at deadlines", [("deadline_tick", "if timeout_ms", "PLANTED || (CONDITION)")], ENDINGS),
    ("a deadline begins, and nobody is woken", [without("submit_run", "df_service_wake")], ENDINGS),
    ("a deadline begins without a fence", [without("submit_run", "df_wake_fence")], ENDINGS),
    ("a callback's collective is not kept", [
        ("defer_callback", "{", "if (PLANTED && coll->references <= 1) coll->references--;")], ENDINGS),
    ("a context is closed with runs outstanding", [without("df_context_close", "df_wait_quiescent")], ENDINGS),
    ("a leaving rank does not deregister", [without("df_context_close", "df_coll_send")], ENDINGS),
    ("links of a closed context go while peers write to them", [
        ("df_shm_close", "df_segment_bury rings",
         "for (df_segment *next; rings && PLANTED; rings = next) { next = rings->next; df_segment_destroy(rings); } CALL")], ENDINGS),
    ("a service thread that stops is not woken", [without("df_service_stop", "df_service_wake")], ENDINGS),
    ("a place in the order of registrations is not kept", [without("df_match_unbind", "expect")], ENDINGS),
    ("registrations are not compared", [never("bind_one", "df_announcement_describe_difference")], ENDINGS),
    ("a mismatch is told as another error", [
        ("handle_failure", "df_message_payload",
         "(status = PLANTED && status == dfcclMismatch ? dfcclRemoteError : status, CALL)")], ENDINGS),
    # Bugs of ranks whose messages are sent over TCP (wire.c).
    ("a pump sends without credit, and gives slots back early", [
        ("has_sendable", "if next", "!PLANTED && (CONDITION)"),
        ("send_part", "df_pump_pass", "(PLANTED ? (void)df_link_release(&ring->end, ring->next) : (void)0, CALL)")], WIRES),
    ("a pump publishes a message before its bytes have come", [
        ("receive_payload", "df_channel_read",
         "(PLANTED && port->target ? df_link_publish(&port->target->rings[port->frame.block].end, port->sequence, 0) : (void)0, CALL)")],
     WIRES),
    ("a pump hands on no credit", [without("take_credit", "df_link_release")], WIRES),
    ("a pump wakes no block", [returns("note_bell")], WIRES),
    ("a loose credit is never due", [
        ("look_at_credit", "{", "if (PLANTED) return df_observe_u64(ring->end.credit) == ring->credit ? NO_CREDIT : LOOSE_CREDIT;")], WIRES),
    ("what blocks publish is left to nobody", [
        ("df_carrier_wake", "{", "if (PLANTED && carrier && carrier->bell == bell) return;")], WIRES),
    # Bugs of large messages over several connections.
    ("a part that comes twice goes into a slot that was published", [without("finish_part", "drop_duplicates")], RAILS),
    ("what waits in another port is sent from a slot that is the block's again", [without("take_credit", "disown_slots")], RAILS),
    ("an answer that was lost is not given again", [("df_pump_detach", "if asked", "!PLANTED && (CONDITION)")], RAILS, ENDINGS),
    ("a credit does not pass messages that came late", [without("take_credit", "df_pump_pass_to")], RAILS),
    ("late messages of a varying link are taken", [never("take_frame", "is_late")], RAILS, VARYING),
    ("a question of a lost connection counts", [("take_open", "if is_old", "!PLANTED && (CONDITION)")], RAILS),
    ("who finds the pump busy does not ask", [("run_pump", "if why", "!PLANTED && (CONDITION)")], WIRES),
    # A real bug, found by the simulation with broken connections.
    ("who only sends takes up what the endpoint's thread has asked for", [("run_pump", "if df_system_exchange_u32", "(CONDITION) && !PLANTED")], WIRES),
    ("what the stream did not take is sent from where a lent buffer was", [without("df_channel_write", "keep_lent")], WIRES, ENDINGS, LARGE),
    # A real bug: a connection broke while its rank left, and messages in transit were lost.
    ("a rank leaves before the remote end has all", [returns("is_in_doubt", "0")], WIRES, ENDINGS),
    # Bugs of the control channels between hosts.
    ("what a line had under way when it was lost is not sent again", [
        ("reconnect.c/attach", "df_messenger_flush", "(PLANTED ? (void)(peer->unsent = NULL) : (void)0, CALL)")], HOSTS, ENDINGS),
    ("what comes over a line is not acknowledged", [without("receive_channel", "df_messenger_flush")], HOSTS, ENDINGS),
    ("a dead rank's line is waited for", [returns("df_resume_has_failed", "0")], HOSTS, ENDINGS),
    # A real bug: the message that a channel has ended was lost together with the channel.
    ("a relay does not stay until all have left", [returns("messenger.c/is_needed", "0")], RELAYS, ENDINGS),
    ("a relay leaves before what it passes on has arrived", [
        ("must_have_the_rest", "{", "if (PLANTED) return control->peers[rank].first && control->peers[rank].state == DF_PEER_ALIVE;")], RELAYS, ENDINGS),
    ("with relays nobody tells neighbours who is lost", [returns("df_service_announce_lost")], RELAYS, ENDINGS),
    ("those behind a lost relay are not given up", [returns("peer_failure.c/lose_those_behind")], RELAYS, ENDINGS),
    ("a relay hears of itself, and passes nothing on", [without("handle_relayed", "df_relay_split")], RELAYS),
    ("who is given up for a relay's word is not told", [
        ("handle_lost", "df_peer_unreachable", "(PLANTED ? df_peer_lost(context, lost, DF_PEER_GIVEN_UP, \"lost\") : CALL)")], RELAYS, ENDINGS),
    ("who was cut off is not called again, and not told", [("need_not_call", "{", "if (PLANTED) return peer->cut_off;")], HOSTS, ENDINGS),
    # Bugs of runs of varying counts.
    ("counts of a run are not compared", [returns("df_step_counts_differ", "0")], VARYING, ENDINGS),
    ("an empty message that brings a count is not sent", [
        ("df_prepare_run", "df_brings_count send_ordinal", "((PLANTED ? p->count != 0 : 1) && CALL)")], VARYING),
    ("the numbers that a short run did not use are not given back", [without("df_step_ends_early", "df_link_release")], VARYING),
    ("members of a broadcast do not agree", [returns("df_plan_agree")], VARYING, ENDINGS),
    ("a difference of counts is not told", [
        ("df_fail_differing", "df_fail_collective", "df_fail_collective(context, coll, dfcclMismatch, !PLANTED, sentence)")], VARYING, ENDINGS),
    ("a pump takes each run for one of the registered count", [
        ("df_pump_take_up_run", "{", "if (PLANTED) count = ring->part.elements;")], VARYING, WIRES),
    # Bugs of plan switches.
    ("a switch is at the least floor", [("handle_member_answer", "DF_MAX", "(PLANTED && plan_switch->answers ? DF_MIN(ARGUMENTS) : CALL)")], SWITCHES),
    ("a member that has answered admits runs from its floor on", [("answer_leader", ".admit_below", "(*(PLANTED ? &(__typeof__(MEMBER)){0} : &MEMBER))")], SWITCHES),
    ("a switch that was called off is not told", [without("call_off", "send_to_members")], SWITCHES),
    ("the device's count of a variant's runs is taken for the collective's", [("exchange", "df_device_run", "(PLANTED ? 0 : CALL)")], SWITCHES),
    ("a member waits for a leader that has left the collective", [without("limited", "cancel")], SWITCHES, ENDINGS),
    ("memory that was given back is taken as it is", [returns("must_be_zero", "0")], SWITCHES),
    ("memory is free while it is made zero", [
        ("df_arena_clean", "clear", "(PLANTED ? (df_rank_lock(lock), make_free(arena, &range), df_rank_unlock(lock)) : (void)0, CALL)"),
        ("df_arena_clean", "make_free", "(PLANTED ? (void)0 : CALL)")], SWITCHES, ENDINGS),
    # A real bug: a run that waited for a synchronisation, and then for a switch, was in no list.
    ("no switch is made during a synchronisation", [
        ("df_admit_listed", "df_switch_perform", "(!(PLANTED && context->runs.held) && CALL)")], SWITCHES),
    # Bugs of jobs that go on without lost ranks.
    ("a run ends without the settling round", [returns("df_plan_settle")], SURVIVE),
    ("the input of a run in place is not kept", [returns("overwrites_input", "0")], SURVIVE),
    ("runs of a new home complete before the application is notified of the view", [
        ("may_take_over", ".told", "(PLANTED ? context->survival->view : MEMBER)")], SURVIVE),
    ("the application is notified of a view before earlier runs have had their callbacks", [
        returns("all_have_returned", "1")], SURVIVE),
    ("a run that was taken back with its data counts as one without", [("df_recall_hold", "if has_data", "!PLANTED && (CONDITION)")], SURVIVE),
    ("runs stand of which a survivor lacks the data", [returns("lower", "a > b ? a : b")], SURVIVE),
    ("suspicions are forgotten when a view is installed", [returns("view.c/go_on")], SURVIVE),
    ("runs that fail in a view are executed again", [returns("fail_range")], SURVIVE),
    # Real bugs: copies of inputs stayed with a plan that a switch had left.
    ("a plan switch leaves the copies of inputs with its plan", [("plan_switch.c/exchange", "EXCHANGE survivors", "if (!PLANTED) CALL")],
     SURVIVE, SWITCHES),
    ("a plan switch ends before inputs are restored", [
        ("become_quiet", "df_survival_note_news", "(PLANTED ? end_switch(context, coll) : (void)0, CALL)")], SURVIVE, SWITCHES),
    # A bug for the watchdog of the simulation.
    ("an endless loop without any access", [("df_coll_step", "df_move_execute", "if (PLANTED) for (;;) __asm__ volatile(\"\"); CALL")]),
]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def planted_sources(root, bugs=None, texts=None):
    """The texts with the bugs by their path below ROOT, and the errors of bugs that cannot be planted."""
    sources, by_path, why = functions.Sources(root, texts), {}, {}
    for number, (_, edits, *_) in enumerate(bugs or BUGS, 1):
        try:
            found = [(functions.find_place(sources, function, anchor), new) for function, anchor, new in edits]
        except functions.NotFound as error:
            why[number] = str(error)
            continue
        for place, new in found:
            by_path.setdefault(place.path, {}).setdefault((place.start, place.end), []).append((number, place.parts, new))
    return {path: planted(sources.texts[path], of_path) for path, of_path in by_path.items()}, why


def planted(text, of_path):
    """The text with the bugs of all places. Bugs of one place are nested."""
    out, at = [], 0
    for (start, end), bugs in sorted(of_path.items()):
        if start < at:
            raise SystemExit("plant.py: bugs %s are within the place of another" % [number for number, _, _ in bugs])
        whole = text[start:end]
        for number, parts, new in bugs:
            told = {**parts, "CALL": whole, "CONDITION": whole, "MEMBER": whole, "PLANTED": "(sim_planted == %d)" % number}
            whole = re.sub("PLANTED|CALL|CONDITION|MEMBER|NAME|ARGUMENTS", lambda word: told[word[0]], new)
        out += [text[at:start], whole]
        at = end
    return "".join(out) + text[at:]


def amalgamate(root, texts, path, seen):
    """The file in which the headers of the project replace their inclusion. A header is included
    once, a table (.def) each time."""
    seen.append(path)
    below = os.path.relpath(path, root)
    out = ['#line 1 "%s"' % path]
    for number, line in enumerate((texts.get(below) or read(path)).split("\n"), 1):
        match = re.match(r'#include "([^"]+)"', line)
        found = None
        if match:
            for folder in ("src", "include", "tests/schedules"):
                if os.path.exists(os.path.join(root, folder, match[1])):
                    found = os.path.join(root, folder, match[1])
        if not found:
            out.append(line)
        elif found not in seen or found.endswith(".def"):
            out += amalgamate(root, texts, found, seen)
            out.append('#line %d "%s"' % (number + 1, path))
    return out


def generate(root, directory, depfile, sources):
    texts, _ = planted_sources(root)
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
    """The number of schedules after which the bug was found (None: not found), and the output."""
    try:
        result = subprocess.run([simulate, "--planted", str(number), "--schedules", str(most), "--each", "20", "--seed", str(seed),
                                 "--brief", *flags], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, "no end in %d s" % LIMIT_S
    needed = re.search(r"(\d+) schedules", result.stdout)
    how = re.search(r"FAILED: (.*)", result.stdout)
    return (int(needed[1]) if result.returncode and needed and how else None), how[1][:100] if how else result.stdout[-100:]


def places(root):
    """Prints and returns the bugs that cannot be planted."""
    _, why = planted_sources(root)
    for number, reason in why.items():
        print("NOT PLANTED: %2d %s: plant it anew in tests/schedules/plant.py (%s)" % (number, BUGS[number - 1][0], reason))
    return why


def check(simulate, root, quick):
    why = places(root)
    found, missed, looked = 0, [], 0
    needed, how = look_for(simulate, 0, SEEDS[0], WITHOUT_BUG, ())
    if needed is not None: # otherwise each bug would count as found
        print("FAILED without any planted bug: %s" % how)
        return 1
    for number, (name, _, *flags) in enumerate(BUGS, 1):
        if number in why:
            continue
        if quick and name in SLOW:
            continue
        looked += 1
        for seed in SEEDS:
            needed, how = look_for(simulate, number, seed, (SOON_WITH_FLAGS if flags else SOON) if quick else MOST, flags)
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
    """The numbers of failures and schedules, and the seconds of processor time."""
    run = subprocess.run([simulate, "--planted", str(number), "--schedules", "3000", "--each", "6", "--seed", "77", "--failures", "20", "--brief",
                          *flags], capture_output=True, text=True, check=False, timeout=600)
    said = re.search(r"(\d+) schedules, .* ([0-9.]+) s of processor time.*: (\d+) failure", run.stdout)
    return (int(said[3]), int(said[1]), float(said[2])) if said else (0, 0, 0.0)


def rates(simulate, *kinds):
    """Prints how often worlds of each kind find each bug. A kind is a list of flags, separated by
    commas."""
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
    elif sys.argv[1] == "--places":
        sys.exit(1 if places(sys.argv[2]) else 0)
    elif sys.argv[1] == "--check":
        sys.exit(check(sys.argv[2], sys.argv[3], False))
    elif sys.argv[1] == "--rates":
        rates(*sys.argv[2:])
    elif sys.argv[1] == "--quick":
        sys.exit(check(sys.argv[2], sys.argv[3], True))
    else:
        generate(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
