#include "tuning/model.h"

/* Microseconds for each message, each byte, and each byte that is combined. The near rates fit
 * `dfccl-bench tune` on two cores (bench/results/tune-2-cores.txt) within a factor of two. The
 * rates of networks and GPUs are not fitted. */
typedef struct df_rates {
  double message_us, byte_us, combined_us;
} df_rates;
static const df_rates rates_of[] = {[DF_NEAR_PROCESS] = {0.25, 1.3e-4, 0.65e-4},
                                    [DF_NEAR_HOST] = {0.5, 1.8e-4, 0.9e-4},
                                    [DF_FAR] = {30, 1e-3, 1e-4},
                                    [DF_NEAR_GPU] = {4, 1e-5, 1e-6}};

/* The work of the busiest rank, in sequence. */
typedef struct df_work {
  double messages, bytes, combined;
} df_work;

static double log2_of(uint32_t n) {
  double rounds = 0;
  for (uint32_t reached = 1; reached < n; reached *= 2) rounds++;
  return rounds;
}

/* A pipeline of `depth` ranks: the last chunk reaches the last rank after (depth + chunks)
 * steps. */
static df_work pipeline(double depth, double bytes, double chunk, double combines) {
  const double piece = bytes < chunk ? bytes : chunk;
  const double turns = depth - 1 + (piece > 0 ? bytes / piece : 1);
  return (df_work){turns, turns * piece, turns * piece * combines};
}

static df_work sum(df_work a, df_work b) {
  return (df_work){a.messages + b.messages, a.bytes + b.bytes, a.combined + b.combined};
}

static int combines(df_operation operation) { return df_operation_reduces(operation) ? 1 : 0; }

/* The second half of an operation that travels in both directions combines no data. */
static df_work both_ways(df_operation operation, df_work there, df_work back) {
  back.combined = 0;
  return operation == DF_OP_ALL_REDUCE ? sum(there, back) : there;
}

static df_work of_ring(const df_model_question *q, double n, double all, double part) {
  const double c = combines(q->operation);
  if (q->operation == DF_OP_ALL_REDUCE || q->operation == DF_OP_ALL_GATHER ||
      q->operation == DF_OP_REDUCE_SCATTER) {
    const df_work way = {n - 1, part, part * c};
    return both_ways(q->operation, way, way);
  }
  return pipeline(n - 1, all, (double)q->slot_bytes, c);
}

static df_work of_flat(const df_model_question *q, double n, double all, double part) {
  const double c = combines(q->operation);
  if (q->operation == DF_OP_GATHER || q->operation == DF_OP_SCATTER)
    return (df_work){n - 1, part, 0};
  const df_work way = {n - 1, (n - 1) * all, (n - 1) * all * c};
  return both_ways(q->operation, way, way);
}

static df_work of_two_levels(const df_model_question *q, double all) {
  const double c = combines(q->operation), near = q->split ? q->split : 1;
  const double rounds = log2_of((uint32_t)((double)q->n / near + 0.999));
  const df_work inner = {near - 1, (near - 1) * all, (near - 1) * all * c};
  const df_work outer = {rounds, rounds * all, rounds * all * c};
  return sum(both_ways(q->operation, inner, inner), outer);
}

/* Members that differ in one digit exchange data, digit by digit, and back again. */
static df_work of_bcube(const df_model_question *q, double part) {
  const uint32_t values = q->split > 1 ? q->split : 4;
  double messages = 0;
  for (uint32_t left = q->n; left > 1; left = (left + values - 1) / values)
    messages += (left < values ? left : values) - 1;
  return (df_work){2 * messages, 2 * part, part};
}

/* Between hosts pieces travel around a ring; each rank has its share of the data that its host
 * sends. */
static df_work of_hosts(const df_model_question *q, double all) {
  const double c = combines(q->operation), hosts = q->hosts ? q->hosts : 1;
  const double lanes = q->n / hosts > 1 ? q->n / hosts : 1, share = all / lanes;
  if (q->operation == DF_OP_BROADCAST || q->operation == DF_OP_REDUCE)
    return pipeline(hosts, share, (double)q->slot_bytes, c);
  const double turns = hosts - 1;
  if (q->operation == DF_OP_ALL_TO_ALL) return (df_work){turns, turns / hosts * all, 0};
  const df_work way = {turns, turns / hosts * share, turns / hosts * share * c};
  return both_ways(q->operation, way, way);
}

/* Within a host each rank gathers and combines its share of the data of the others, or distributes
 * it. */
static df_work within_hosts(const df_model_question *q, double all) {
  const double hosts = q->hosts ? q->hosts : 1, near = q->n / hosts > 1 ? q->n / hosts : 1;
  const double moved = all * (near - 1) / near;
  const df_work way = {near - 1, moved, moved * combines(q->operation)};
  return both_ways(q->operation, way, way);
}

static int work_of(const df_model_question *q, int algorithm, df_work *work) {
  const double n = q->n, all = (double)q->bytes, part = all * (n - 1) / n;
  const double rounds = log2_of(q->n), c = combines(q->operation);
  const int both = q->operation == DF_OP_ALL_REDUCE;
  switch (algorithm) {
  case DF_RING:
    *work = of_ring(q, n, all, part);
    return 1;
  case DF_FLAT:
    *work = of_flat(q, n, all, part);
    return 1;
  case DF_ALL_PAIRS:
    *work = (df_work){n - 1, (n - 1) * all, (n - 1) * all * c};
    return 1;
  case DF_DOUBLING: {
    const double moved = q->operation == DF_OP_ALL_GATHER ? part : rounds * all;
    *work = (df_work){rounds, moved, moved * c};
    return 1;
  }
  case DF_RABENSEIFNER:
    *work = (df_work){2 * rounds, 2 * part, part};
    return 1;
  case DF_BRUCK:
    *work = (df_work){rounds, q->operation == DF_OP_ALL_TO_ALL ? rounds * all / 2 : part, 0};
    return 1;
  case DF_HALVING:
  case DF_PAT:
    *work = (df_work){rounds, part, part * c};
    return 1;
  case DF_BINOMIAL:
    *work = (df_work){rounds, rounds * all, rounds * all * c};
    return 1;
  case DF_DOUBLE_TREE: { /* each rank is an inner node in one of the trees, with two children */
    const df_work way = pipeline(rounds, all, (double)q->slot_bytes, c);
    *work = both_ways(q->operation, way, way);
    return 1;
  }
  case DF_SCATTER_ALL_GATHER:
    *work = (df_work){rounds + n - 1, 2 * part, 0};
    return 1;
  case DF_DIRECT: {
    const double way = q->operation == DF_OP_SEND_RECV ? all : part;
    *work = (df_work){(both ? 2 : 1) * (n - 1), (both ? 2 : 1) * way, way * c};
    return 1;
  }
  case DF_PAIRWISE:
    *work = (df_work){n - 1, part, 0};
    return 1;
  case DF_DISSEMINATION:
    *work = (df_work){rounds, 0, 0};
    return 1;
  case DF_TWO_LEVEL:
    *work = of_two_levels(q, all);
    return 1;
  case DF_BCUBE:
    *work = of_bcube(q, part);
    return 1;
  case DF_HIERARCHICAL: /* the part between hosts */
    *work = of_hosts(q, all);
    return 1;
  case DF_ORDERED:
    *work = (df_work){n - 1, (n - 1) * all, (n - 1) * all};
    return 1;
  default:
    return 0;
  }
}

static double time_of(const df_model_question *q, df_work work, df_distance distance) {
  const df_rates *rates = &rates_of[distance];
  return q->ranks_on_a_core * (work.messages * rates->message_us + work.bytes * rates->byte_us +
                               work.combined * rates->combined_us);
}

double df_model_us(const df_model_question *q, int algorithm) {
  df_work work;
  if (q->n < 2) return 0;
  if (!work_of(q, algorithm, &work)) return -1;
  const double us = time_of(q, work, q->distance);
  if (algorithm != DF_HIERARCHICAL) return us;
  const df_distance near = q->distance == DF_FAR ? DF_NEAR_HOST : q->distance;
  return us + time_of(q, within_hosts(q, (double)q->bytes), near);
}

/* Bytes received that the rank does not have already; with of_all the sum over all ranks. */
static double received(df_operation operation, double bytes, double n, int of_all) {
  switch (operation) {
  case DF_OP_ALL_GATHER:
  case DF_OP_ALL_TO_ALL:
    return bytes * (n - 1) / n * (of_all ? n : 1);
  case DF_OP_REDUCE_SCATTER:
    return bytes / n * (of_all ? n : 1);
  case DF_OP_GATHER:
  case DF_OP_SCATTER:
    return bytes * (n - 1) / n / (operation == DF_OP_SCATTER && !of_all ? n - 1 : 1);
  case DF_OP_BROADCAST:
  case DF_OP_SCAN:
    return bytes * (of_all ? n - 1 : 1);
  case DF_OP_ALL_REDUCE:
    return bytes * (of_all ? n : 1);
  default: /* reduce, sendrecv */
    return bytes;
  }
}

double df_model_bound_us(df_operation operation, uint32_t n, uint64_t bytes, uint32_t n_cores,
                         double bytes_per_us) {
  if (n < 2 || bytes == 0 || bytes_per_us <= 0 || n_cores == 0 || operation >= DF_OP_COUNT ||
      operation == DF_OP_BARRIER)
    return 0;
  const double one = received(operation, (double)bytes, n, 0) / bytes_per_us;
  const double all = received(operation, (double)bytes, n, 1) / bytes_per_us / n_cores;
  return one > all ? one : all;
}
