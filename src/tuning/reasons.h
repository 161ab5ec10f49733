/*
 * Reasons: why a collective travels as it does. A decision stores its reason's code in the
 * configuration (df_reasons) or in the ring at the moment when it is made; explanations, dumps and
 * traces print the stored code's sentence, and derive nothing again.
 */
#ifndef DF_TUNING_REASONS_H
#define DF_TUNING_REASONS_H

/* X(code, sentence). A sentence follows "since". The name of a number in a sentence is followed by
 * its value, which the printer adds. CUDA: only a GPU's configuration can have it. */
#define DF_REASON_MAP(X)                                                                           \
  X(SOURCE_RULE, "this is the first rule that fits, of ")                                          \
  X(SOURCE_NAME, "it is named")                                                                    \
  X(SOURCE_HOSTS, "ranks share hosts")                                                             \
  X(SOURCE_ORDER, "the operator does not commute")                                                 \
  X(SOURCE_ONLY, "collectives with a table of pieces have no other algorithm")                     \
  X(SOURCE_PLUGIN, "")                                                                             \
  X(FORM_COUNT, "a count goes before the payload")                                                 \
  X(FORM_SIMPLE, "the tuner plugin says simple")                                                   \
  X(FORM_LL, "the tuner plugin says ll")                                                           \
  X(FORM_WORDS, "messages have at most words_max %lld bytes") /* CUDA */                           \
  X(FORM_FLAGGED, "messages have at most flagged_max %lld bytes")                                  \
  X(FORM_STAGED, "messages have more than flagged_max %lld bytes")                                 \
  X(RINGS_AGREED, "members agreed on so many")                                                     \
  X(RINGS_CREDITS, "a credit to another host is sent when half of a ring is due")                  \
  X(RINGS_AHEAD, "some ranks wait for nobody, and may run ahead")                                  \
  X(RINGS_CACHES, "so many suit the caches (ring_bytes)")                                          \
  X(LEND_OFF, "lend is 0")                                                                         \
  X(LEND_COPIES, "the rule says copies=1")                                                         \
  X(LEND_LL, "the tuner plugin says ll")                                                           \
  X(LEND_FILE, "the file's steps might overwrite a lent buffer")                                   \
  X(LEND_WORDS, "messages travel in words with a flag each") /* CUDA */                            \
  X(LEND_AHEAD, "ranks share cores, and ranks that wait for nobody run ahead")                     \
  X(LEND_SHORT, "messages have fewer than lend_min %lld bytes")                                    \
  X(LEND_ROUND_TRIP, "a lent buffer comes back a round trip after such a short run")               \
  X(LEND_LONG, "messages have lend_min %lld bytes or more")                                        \
  X(STORES_SMALL, "the result has fewer bytes than stream_min")                                    \
  X(STORES_OVERWRITES,                                                                             \
    "the result has stream_min bytes or more, and the operation only overwrites its output")       \
  X(STORES_OUT_OF_PLACE,                                                                           \
    "the result has stream_min bytes or more; runs in place read their output")                    \
  X(TURNS_SHORT, "the run is short (borrowed_turn_max)")                                           \
  X(TURNS_OFF, "borrowed_turn_max is 0")                                                           \
  X(TURNS_DEVICE, "threads of the host cannot execute the device's turns") /* CUDA */              \
  X(TURNS_BLOCKS, "the run has several blocks")                                                    \
  X(TURNS_BYTES, "the run has more bytes than borrowed_turn_max")                                  \
  X(TURNS_STEPS, "the run has too many primitives for a borrowed turn")

typedef enum {
#define X(code, sentence) DF_REASON_##code,
  DF_REASON_MAP(X)
#undef X
      DF_REASONS
} df_reason;

typedef struct df_reasons {
  df_reason source, form, lend, stores, turns;
} df_reasons;

/* "FORM_WORDS"; for dumps and tests. */
const char *df_reason_name(df_reason reason);

#endif
