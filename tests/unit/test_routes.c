/*
 * Promises of src/bootstrap/net/routes.h, of jobs from two hosts to 4,096 ranks on 4,096 hosts:
 *   - From any rank each message comes to any other, over three relays at most, and over those that
 *     df_routes_pass and df_routes_relays tell.
 *   - A way is the same in both directions.
 *   - Only relays have connections to other hosts, and so few that their number does not grow with
 *     the square.
 */
#include "bootstrap/net/routes.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/limits.h"
#include "support/harness.h"

enum { WAY_MOST = DF_RELAYS_MOST + 1 };

typedef struct {
  uint32_t n_ranks;
  uint64_t *hosts;
  df_routes **of; /* [n_ranks] as they are needed */
} job;

static job *make_job(uint32_t n_ranks) {
  job *j = calloc(1, sizeof *j);
  j->n_ranks = n_ranks;
  j->hosts = calloc(n_ranks, sizeof *j->hosts);
  j->of = calloc(n_ranks, sizeof(df_routes *));
  return j;
}

static void free_job(job *j) {
  for (uint32_t r = 0; r < j->n_ranks; r++) df_routes_free(j->of[r]);
  free(j->of);
  free(j->hosts);
  free(j);
}

static const df_routes *routes_of(job *j, uint32_t rank) {
  if (j->of[rank] == NULL) j->of[rank] = df_routes_make(j->hosts, j->n_ranks, rank);
  CHECK(j->of[rank] != NULL, "no memory");
  return j->of[rank];
}

/* The ranks behind `from`, the last one is `to`. Returns how many. */
static uint32_t follow(job *j, uint32_t from, uint32_t to, uint32_t ranks[WAY_MOST]) {
  uint32_t n = 0;
  for (uint32_t at = from; at != to; at = ranks[n++]) {
    CHECK(n < WAY_MOST, "from %u to %u: more than %d relays", from, to, DF_RELAYS_MOST);
    ranks[n] = df_routes_next(routes_of(j, at), to);
    CHECK(ranks[n] != at && ranks[n] < j->n_ranks, "from %u to %u: rank %u", from, to, ranks[n]);
    const int crosses = j->hosts[at] != j->hosts[ranks[n]];
    CHECK(!crosses || df_routes_is_relay(routes_of(j, at)), "rank %u is no relay", at);
    CHECK(!crosses || df_routes_is_relay(routes_of(j, ranks[n])), "rank %u is no relay", ranks[n]);
  }
  return n;
}

static void check_pair(job *j, uint32_t from, uint32_t to) {
  uint32_t there[WAY_MOST], back[WAY_MOST];
  const uint32_t n = follow(j, from, to, there), n_back = follow(j, to, from, back);
  const df_routes *routes = routes_of(j, from);
  CHECK(n == n_back && df_routes_relays(routes, to) == n - 1, "%u and %u: %u and %u", from, to, n,
        n_back);
  for (uint32_t i = 0; i + 1 < n; i++) {
    CHECK(there[i] == back[n - 2 - i], "from %u to %u another way than back", from, to);
    CHECK(df_routes_pass(routes, to, there[i]), "from %u to %u through %u", from, to, there[i]);
    /* The last message to a relay arrives after all messages that pass through it. */
    CHECK(df_routes_relays(routes, there[i]) < df_routes_relays(routes, to), "%u is not nearer",
          there[i]);
  }
  CHECK(!df_routes_pass(routes, to, to) && !df_routes_pass(routes, to, from),
        "the ends are no relays");
  CHECK(j->hosts[from] != j->hosts[to] || n == 1, "%u and %u are of one host", from, to);
}

static void check_all(job *j) {
  for (uint32_t a = 0; a < j->n_ranks; a++)
    for (uint32_t b = 0; b < j->n_ranks; b++)
      if (a != b) check_pair(j, a, b);
}

DF_TEST(routes, small_jobs_of_all_shapes, 60) {
  df_random random = {.state = 1};
  for (int i = 0; i < 400; i++) {
    job *j = make_job(2 + (uint32_t)df_random_below(&random, 40));
    const int n_hosts = 1 + df_random_below(&random, (int)j->n_ranks);
    for (uint32_t r = 0; r < j->n_ranks; r++)
      j->hosts[r] = ~(uint64_t)df_random_below(&random, n_hosts) << 7; /* not in the ranks' order */
    check_all(j);
    free_job(j);
  }
}

static uint64_t lines_of(job *j) {
  uint64_t n = 0;
  for (uint32_t a = 0; a < j->n_ranks; a++) {
    const df_routes *routes = routes_of(j, a);
    for (uint32_t b = 0; b < a; b++)
      n += j->hosts[a] != j->hosts[b] && df_routes_next(routes, b) == b;
    df_routes_free(j->of[a]);
    j->of[a] = NULL;
  }
  return n;
}

/* H hosts in rows of W have fewer than H * W lines in rows and in columns. */
DF_TEST(routes, connections_of_4096_ranks, 120) {
  static const struct {
    uint32_t per_host, lines;
  } jobs[] = {{1, 4096 * 64}, {8, 512 * 23}, {64, 64 * 8}};
  for (size_t i = 0; i < DF_COUNT_OF(jobs); i++) {
    job *j = make_job(DF_MAX_RANKS);
    df_random random = {.state = i};
    for (uint32_t r = 0; r < j->n_ranks; r++) j->hosts[r] = r / jobs[i].per_host;
    const uint64_t lines = lines_of(j);
    CHECK(lines <= jobs[i].lines, "%u ranks on a host: %llu lines", jobs[i].per_host,
          (unsigned long long)lines);
    for (int k = 0; k < 300; k++) {
      const uint32_t a = (uint32_t)df_random_below(&random, DF_MAX_RANKS),
                     b = (uint32_t)df_random_below(&random, DF_MAX_RANKS);
      if (a != b) check_pair(j, a, b);
    }
    free_job(j);
  }
}
