/* The verdict about a job: which ranks the others wait for. A run that was the oldest one of its
 * collective in two snapshots is stuck. From each stuck run, the search follows the awaited ranks:
 * a rank that has the same run under way leads on in this collective; a rank that lacks it and has
 * a thread in a call leads on to the runs that the call waits for. Each other rank is a culprit,
 * and a way that returns to itself through calls is a circle. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "top/top.h"

typedef enum { LACKS_RUN, LACKS_REGISTRATION, IS_SILENT, IS_GONE, CULPRITS } df_culprit_kind;

enum { MOST_CULPRITS = 1024, MOST_DEPTH = 1024 };

/* The rank is missed in the run of the collective by the rank `by`. */
typedef struct df_culprit {
  df_culprit_kind kind;
  uint32_t rank, by;
  const df_snapshot_coll *coll; /* as the rank `by` has it */
} df_culprit;

/* A stuck run on the way. through_call: the way has come here through a thread in a call. */
typedef struct df_step {
  uint32_t rank;
  const df_snapshot_coll *coll;
  bool through_call;
} df_step;

typedef struct df_search {
  const df_top_session *session;
  uint32_t *seen; /* by rank, one bit for each collective of its snapshot */
  df_step way[MOST_DEPTH];
  uint32_t depth;
  df_culprit culprits[MOST_CULPRITS];
  uint32_t n_culprits;
  df_step circle[MOST_DEPTH];
  uint32_t n_circle; /* 0: none was found */
} df_search;

static void add_culprit(df_search *search, df_culprit_kind kind, uint32_t rank) {
  const df_step *by = &search->way[search->depth - 1];
  if (search->n_culprits < MOST_CULPRITS)
    search->culprits[search->n_culprits++] =
        (df_culprit){.kind = kind, .rank = rank, .by = by->rank, .coll = by->coll};
}

/* Returns whether the run is on the way already. If each step from there on has a thread in a call,
 * the way is a circle. */
static bool closes(df_search *search, uint32_t rank, const df_snapshot_coll *coll,
                   bool through_call) {
  uint32_t first = 0;
  while (first < search->depth &&
         (search->way[first].rank != rank || search->way[first].coll != coll))
    first++;
  if (first == search->depth) return false;
  bool is_circle = through_call;
  for (uint32_t i = first + 1; i < search->depth; i++) is_circle &= search->way[i].through_call;
  if (is_circle && search->n_circle == 0)
    for (uint32_t i = first; i < search->depth; i++)
      search->circle[search->n_circle++] = search->way[i];
  return true;
}

static void follow(df_search *search, uint32_t rank, const df_snapshot_coll *coll,
                   bool through_call);

/* Whether a thread of the rank sleeps until the collective's runs are complete. */
static bool is_waited_for(const df_snapshot *s, const df_snapshot_coll *coll) {
  for (uint32_t i = 0; i < s->n_calls; i++) {
    const df_snapshot_call *call = &df_snapshot_calls(s)[i];
    if (!call->is_of_one || call->id == coll->id) return true;
  }
  return false;
}

/* Follows the runs that the threads of the rank wait for. Returns false if there are none. */
static bool follow_calls(df_search *search, uint32_t rank) {
  const df_top_rank *one = &search->session->ranks[rank];
  const df_snapshot *s = &one->now->snapshot;
  bool leads_on = false;
  for (uint32_t i = 0; i < s->n_colls; i++) {
    const df_snapshot_coll *coll = &df_snapshot_colls(s)[i];
    if (!df_top_is_stuck(one, coll) || !is_waited_for(s, coll)) continue;
    leads_on = true;
    follow(search, rank, coll, true);
  }
  return leads_on;
}

static const df_snapshot_state *state_of(const df_top_rank *rank, uint64_t id) {
  for (uint32_t i = 0; i < rank->now->snapshot.n_states; i++) {
    const df_snapshot_state *state = &df_snapshot_states(&rank->now->snapshot)[i];
    if (state->id == id) return state;
  }
  return NULL;
}

static void visit_awaited(df_search *search, uint32_t awaited, const df_snapshot_coll *coll) {
  const df_top_rank *one = &search->session->ranks[awaited];
  if (one->contact == RANK_SILENT || one->contact == RANK_GONE) {
    add_culprit(search, one->contact == RANK_SILENT ? IS_SILENT : IS_GONE, awaited);
    return;
  }
  /* The rank's peers have its announcements also if it answers nothing itself. */
  if (one->contact != RANK_ANSWERS) {
    if (coll->cause == DF_WAIT_REGISTRATION) add_culprit(search, LACKS_REGISTRATION, awaited);
    if (coll->cause == DF_WAIT_RUN) add_culprit(search, LACKS_RUN, awaited);
    return;
  }
  const df_snapshot_state *state = state_of(one, coll->id);
  if (state == NULL) return;
  if (state->is_registered && state->submitted > coll->taken) {
    const df_snapshot_coll *theirs = df_top_coll(one->now, coll->id);
    if (theirs && theirs->taken == coll->taken && df_top_is_stuck(one, theirs))
      follow(search, awaited, theirs, false);
    return;
  }
  if (!follow_calls(search, awaited))
    add_culprit(search, state->is_registered ? LACKS_RUN : LACKS_REGISTRATION, awaited);
}

static void follow(df_search *search, uint32_t rank, const df_snapshot_coll *coll,
                   bool through_call) {
  const df_snapshot *s = &search->session->ranks[rank].now->snapshot;
  const uint32_t bit = UINT32_C(1) << (coll - df_snapshot_colls(s));
  if (closes(search, rank, coll, through_call) || search->seen[rank] & bit ||
      search->depth == MOST_DEPTH)
    return;
  search->seen[rank] |= bit;
  search->way[search->depth++] = (df_step){rank, coll, through_call};
  for (uint32_t i = 0; i < coll->n_awaited; i++) visit_awaited(search, coll->awaited[i], coll);
  search->depth--;
}

/* ---- sentences ---- */

static void set_collective(df_verdict *verdict, const df_snapshot_coll *coll) {
  verdict->has_collective = coll != NULL;
  if (coll == NULL) return;
  verdict->collective = coll->id;
  memcpy(verdict->name, coll->name, sizeof verdict->name);
}

static void add_rank(uint32_t *ranks, uint32_t *n, uint32_t rank) {
  uint32_t at = 0;
  while (at < *n && ranks[at] < rank) at++;
  if (*n == DF_VERDICT_RANKS || (at < *n && ranks[at] == rank)) return;
  memmove(&ranks[at + 1], &ranks[at], (*n - at) * sizeof *ranks);
  ranks[at] = rank;
  ++*n;
}

static void say_circle(const df_search *search, df_verdict *verdict) {
  df_text out = {.at = verdict->sentence, .left = sizeof verdict->sentence};
  char label[DF_MAX_NAME + 40];
  verdict->kind = VERDICT_CIRCLE;
  set_collective(verdict, search->circle[0].coll);
  for (uint32_t i = 0; i < search->n_circle; i++) {
    const df_step *step = &search->circle[i];
    if (verdict->n_ranks < DF_VERDICT_RANKS) verdict->ranks[verdict->n_ranks++] = step->rank;
    df_top_label(step->coll->id, step->coll->name, label, sizeof label);
    df_say(&out, i ? "rank %u, which waits in %s for " : "rank %u waits in %s for ", step->rank,
           label);
  }
  df_say(&out, "rank %u: a circle", search->circle[0].rank);
}

static void say_process(df_text *out, const df_top_session *session, uint32_t rank) {
  const char *host = df_top_host(session, rank);
  if (session->ranks[rank].process == 0) return;
  df_say(out, " (process %u%s%s)", session->ranks[rank].process, host[0] ? " on " : "", host);
}

/* The ranks in which the same run is stuck; most of them may wait for a neighbour that waits. */
static uint32_t find_waiting(const df_top_session *session, const df_snapshot_coll *coll,
                             uint32_t ranks[DF_VERDICT_RANKS]) {
  uint32_t n = 0;
  for (uint32_t r = 0; r < session->n_ranks; r++) {
    const df_top_rank *rank = &session->ranks[r];
    const df_snapshot_coll *theirs =
        rank->contact == RANK_ANSWERS ? df_top_coll(rank->now, coll->id) : NULL;
    if (theirs && theirs->taken == coll->taken && df_top_is_stuck(rank, theirs))
      add_rank(ranks, &n, r);
  }
  return n;
}

/* All culprits of the kind that the first one in the same run belongs to. */
static void say_culprits(const df_search *search, df_culprit_kind kind, df_verdict *verdict) {
  df_text out = {.at = verdict->sentence, .left = sizeof verdict->sentence};
  uint32_t waiting[DF_VERDICT_RANKS], n_waiting;
  char label[DF_MAX_NAME + 40], words[256];
  const df_culprit *first = NULL;
  for (uint32_t i = 0; i < search->n_culprits; i++) {
    const df_culprit *one = &search->culprits[i];
    if (one->kind != kind) continue;
    if (first == NULL) first = one;
    if (one->coll->id != first->coll->id) continue;
    add_rank(verdict->ranks, &verdict->n_ranks, one->rank);
  }
  n_waiting = find_waiting(search->session, first->coll, waiting);
  set_collective(verdict, first->coll);
  verdict->kind = kind == IS_SILENT || kind == IS_GONE ? VERDICT_STOPPED : VERDICT_MISSING;
  verdict->is_registration = kind == LACKS_REGISTRATION;
  df_top_label(first->coll->id, first->coll->name, label, sizeof label);
  df_say(&out, "%s", df_top_rank_words(verdict->ranks, verdict->n_ranks, words, sizeof words));
  if (verdict->n_ranks == 1) say_process(&out, search->session, verdict->ranks[0]);
  const bool one = verdict->n_ranks == 1;
  if (kind == IS_SILENT) df_say(&out, one ? " does not answer" : " do not answer");
  if (kind == IS_GONE)
    df_say(&out, " %s", one ? search->session->ranks[verdict->ranks[0]].absence : "are gone");
  if (kind == LACKS_RUN)
    df_say(&out, " %s not run %s (run %llu)", one ? "has" : "have", label,
           (unsigned long long)first->coll->taken);
  if (kind == LACKS_REGISTRATION)
    df_say(&out, " %s not registered %s", one ? "has" : "have", label);
  df_top_rank_words(waiting, n_waiting, words, sizeof words);
  df_say(&out, "; %s %s for %s", words, n_waiting == 1 ? "waits" : "wait", one ? "it" : "them");
  if (kind == IS_SILENT || kind == IS_GONE)
    df_say(&out, " in %s (run %llu)", label, (unsigned long long)first->coll->taken);
}

/* ---- other verdicts ---- */

static bool find_mismatch(df_top_view *view) {
  df_verdict *verdict = &view->verdict;
  for (uint32_t r = 0; r < view->session->n_ranks; r++) {
    const df_top_rank *rank = &view->session->ranks[r];
    for (uint32_t i = 0; rank->now && i < rank->now->snapshot.n_colls; i++) {
      const df_snapshot_coll *coll = &df_snapshot_colls(&rank->now->snapshot)[i];
      if (coll->status != dfcclMismatch) continue;
      if (verdict->n_ranks == 0) {
        set_collective(verdict, coll);
        snprintf(verdict->sentence, sizeof verdict->sentence, "%s", rank->now->snapshot.sentence);
      }
      if (coll->id == verdict->collective) add_rank(verdict->ranks, &verdict->n_ranks, r);
    }
  }
  if (verdict->n_ranks) verdict->kind = VERDICT_MISMATCH;
  return verdict->n_ranks != 0;
}

/* A context that has failed says why. The ranks that are gone are the probable culprits. */
static bool find_broken(df_top_view *view) {
  df_verdict *verdict = &view->verdict;
  const df_top_rank *broken = NULL;
  for (uint32_t r = 0; r < view->session->n_ranks; r++) {
    if (view->rows[r].state == STATE_GONE) add_rank(verdict->ranks, &verdict->n_ranks, r);
    if (view->rows[r].state == STATE_BROKEN && broken == NULL) broken = &view->session->ranks[r];
  }
  if (broken == NULL) {
    verdict->n_ranks = 0;
    return false;
  }
  verdict->kind = verdict->n_ranks ? VERDICT_STOPPED : VERDICT_NONE;
  snprintf(verdict->sentence, sizeof verdict->sentence, "%s", broken->now->snapshot.sentence);
  return true;
}

/* A silent rank for which no run waits yet. */
static bool find_silent(df_top_view *view) {
  df_verdict *verdict = &view->verdict;
  df_text out = {.at = verdict->sentence, .left = sizeof verdict->sentence};
  char words[256];
  for (uint32_t r = 0; r < view->session->n_ranks; r++)
    if (view->rows[r].state == STATE_SILENT) add_rank(verdict->ranks, &verdict->n_ranks, r);
  if (verdict->n_ranks == 0) return false;
  verdict->kind = VERDICT_STOPPED;
  df_say(&out, "%s", df_top_rank_words(verdict->ranks, verdict->n_ranks, words, sizeof words));
  if (verdict->n_ranks == 1) say_process(&out, view->session, verdict->ranks[0]);
  df_say(&out, verdict->n_ranks == 1 ? " does not answer; no rank waits for it"
                                     : " do not answer; no rank waits for them");
  return true;
}

/* A rank is slow if the first rank of its runs waits for it in this share of the time. */
#define SLOW_SHARE 0.2
#define SLOW_MS 1.0

static bool find_slow(df_top_view *view) {
  df_verdict *verdict = &view->verdict;
  const df_top_row *worst = NULL;
  char label[DF_MAX_NAME + 40];
  for (uint32_t r = 0; r < view->session->n_ranks; r++) {
    const df_top_row *row = &view->rows[r];
    if (row->late_ms < SLOW_MS || row->late_ms * row->runs_per_s < SLOW_SHARE * 1000 ||
        (worst && worst->late_ms >= row->late_ms))
      continue;
    worst = row;
    verdict->ranks[0] = r;
  }
  if (worst == NULL) return false;
  verdict->kind = VERDICT_SLOW;
  verdict->n_ranks = 1;
  set_collective(verdict, worst->late_in);
  df_top_label(worst->late_in->id, worst->late_in->name, label, sizeof label);
  snprintf(verdict->sentence, sizeof verdict->sentence,
           "rank %u comes %.1f ms later than the first rank, mostly to %s", verdict->ranks[0],
           worst->late_ms, label);
  return true;
}

static void search_from_all(df_search *search) {
  for (uint32_t r = 0; r < search->session->n_ranks; r++) {
    const df_top_rank *rank = &search->session->ranks[r];
    if (rank->contact != RANK_ANSWERS) continue;
    for (uint32_t i = 0; i < rank->now->snapshot.n_colls; i++) {
      const df_snapshot_coll *coll = &df_snapshot_colls(&rank->now->snapshot)[i];
      if (df_top_is_stuck(rank, coll)) follow(search, r, coll, false);
    }
  }
}

static void conclude(df_top_view *view, const df_search *search) {
  static const df_culprit_kind order[] = {IS_SILENT, IS_GONE, LACKS_REGISTRATION, LACKS_RUN};
  df_verdict *verdict = &view->verdict;
  if (find_mismatch(view)) return;
  if (search->n_circle) {
    say_circle(search, verdict);
    return;
  }
  for (size_t i = 0; i < DF_COUNT_OF(order); i++)
    for (uint32_t j = 0; j < search->n_culprits; j++)
      if (search->culprits[j].kind == order[i]) {
        say_culprits(search, order[i], verdict);
        return;
      }
  if (find_broken(view) || find_silent(view) || find_slow(view)) return;
  snprintf(verdict->sentence, sizeof verdict->sentence, "no rank waits for another");
}

void df_top_diagnose(df_top_view *view) {
  df_search *search = calloc(1, sizeof *search);
  uint32_t *seen = calloc(DF_MAX(view->session->n_ranks, 1u), sizeof *seen);
  if (search && seen) {
    search->session = view->session;
    search->seen = seen;
    search_from_all(search);
    conclude(view, search);
  } else {
    snprintf(view->verdict.sentence, sizeof view->verdict.sentence, "no memory for the verdict");
  }
  free(seen);
  free(search);
}
