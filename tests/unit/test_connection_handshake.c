/*
 * Promises of src/transports/net/security/connection_handshake.h:
 *   - Two ends with the same key prove themselves to each other, however the stream splits.
 *   - If asked to, they make a key that nobody else can work out, another for each connection.
 *   - Nothing after the last message of the handshake is read: frames may follow at once.
 *   - An end that has another peer's key, calls another rank, replays, or sends anything else is
 *     refused.
 */
#include "transports/net/security/connection_handshake.h"

#include <string.h>

#include "pump_stage.h"

enum { RANKS = 4, CALLER = 2, LISTENER = 1, PORT = 3 };

static const unsigned char secret[DF_KEY_BYTES] = {1, 2, 3}, other_secret[DF_KEY_BYTES] = {1, 2};

static int makes_keys; /* as for connections with encrypted frames */

typedef struct ends {
  pump_stage stage;
  df_connection_handshake caller, listener;
} ends;

static void make(ends *e, uint64_t seed, const unsigned char *callers_secret, uint32_t key_of,
                 uint32_t called) {
  unsigned char key[DF_KEY_BYTES];
  OK(df_handshake_ready());
  pump_stage_make(&e->stage, seed, 64);
  df_connection_handshake_key(key, callers_secret, key_of);
  df_connection_handshake_call(&e->caller, &e->stage.sides[0].stream, CALLER, called, PORT, 7, key,
                               makes_keys);
  df_connection_handshake_listen(&e->listener, &e->stage.sides[1].stream, LISTENER, secret,
                                 makes_keys);
}

/* Until both have come to an end, or nothing can move. */
static void go_on(ends *e, df_connection_handshake_state *caller,
                  df_connection_handshake_state *listener) {
  *caller = *listener = DF_HANDSHAKE_PENDING;
  for (int i = 0; i < 3000; i++) {
    if (*caller == DF_HANDSHAKE_PENDING)
      *caller = df_connection_handshake_progress(&e->caller, RANKS);
    if (*listener == DF_HANDSHAKE_PENDING)
      *listener = df_connection_handshake_progress(&e->listener, RANKS);
  }
}

DF_TEST(greeting, both_ends_prove_themselves, 30) {
  for (uint64_t seed = 1; seed <= 50; seed++) {
    ends e;
    df_connection_handshake_state caller, listener;
    make(&e, seed, secret, CALLER, LISTENER);
    e.stage.most = (int)(seed % 100);
    e.stage.refusals = (int)(seed % 3) * 20;
    go_on(&e, &caller, &listener);
    CHECK(caller == DF_HANDSHAKE_DONE && listener == DF_HANDSHAKE_DONE, "%d, %d", caller, listener);
    CHECK(e.listener.peer == CALLER && e.listener.port == PORT && e.listener.number == 7,
          "it was taken for port %u of rank %u", e.listener.port, e.listener.peer);
    pump_stage_free(&e.stage);
  }
}

/* Both ends have one key, each connection another, and it needs more than the offered key. */
DF_TEST(greeting, both_ends_make_a_key, 30) {
  unsigned char keys[3][2][DF_KEY_BYTES];
  makes_keys = 1;
  for (int i = 0; i < 3; i++) {
    ends e;
    df_connection_handshake_state caller, listener;
    make(&e, 1, secret, CALLER, LISTENER);
    go_on(&e, &caller, &listener);
    CHECK(caller == DF_HANDSHAKE_DONE && listener == DF_HANDSHAKE_DONE, "%d, %d", caller, listener);
    if (i == 2)
      memset(e.listener.secret, 1, sizeof e.listener.secret); /* an attacker that recorded all */
    OK(df_connection_handshake_traffic_key(&e.caller, keys[i][0]));
    OK(df_connection_handshake_traffic_key(&e.listener, keys[i][1]));
    CHECK((memcmp(keys[i][0], keys[i][1], DF_KEY_BYTES) == 0) == (i < 2), "connection %d", i);
    pump_stage_free(&e.stage);
  }
  CHECK(memcmp(keys[0][0], keys[1][0], DF_KEY_BYTES) != 0, "two connections have one key");
  makes_keys = 0;
}

DF_TEST(greeting, what_follows_is_not_read, 30) {
  ends e;
  df_connection_handshake_state caller, listener;
  make(&e, 1, secret, CALLER, LISTENER);
  for (int i = 0; i < 2; i++) {
    df_connection_handshake_progress(&e.caller, RANKS);
    if (i == 0) df_connection_handshake_progress(&e.listener, RANKS);
  }
  df_stream *stream = &e.stage.sides[0].stream;
  df_stream_part part = {"frame", 5};
  CHECK(stream->write(stream, &part, 1) == 5, "there is room");
  go_on(&e, &caller, &listener);
  CHECK(listener == DF_HANDSHAKE_DONE, "%d", listener);
  char rest[8];
  const df_stream_room room = {rest, sizeof rest};
  stream = &e.stage.sides[1].stream;
  CHECK(stream->read(stream, &room, 1) == 5 && memcmp(rest, "frame", 5) == 0,
        "a part of what follows has gone");
  pump_stage_free(&e.stage);
}

static void is_refused(const unsigned char *callers_secret, uint32_t key_of, uint32_t called) {
  ends e;
  df_connection_handshake_state caller, listener;
  make(&e, 1, callers_secret, key_of, called);
  go_on(&e, &caller, &listener);
  CHECK(caller != DF_HANDSHAKE_DONE && listener != DF_HANDSHAKE_DONE, "%d, %d", caller, listener);
  CHECK(caller == DF_HANDSHAKE_REFUSED || listener == DF_HANDSHAKE_REFUSED, "nobody says so");
  pump_stage_free(&e.stage);
}

DF_TEST(greeting, who_lacks_the_key_is_refused, 30) {
  is_refused(other_secret, CALLER, LISTENER);
  is_refused(secret, CALLER + 1, LISTENER);
  is_refused(secret, CALLER, LISTENER + 2);
}

/* A caller without a key that repeats the messages of another caller. */
DF_TEST(greeting, replays_are_refused, 30) {
  ends e;
  df_connection_handshake_state caller, listener;
  uint8_t said[sizeof(df_connection_greeting) + sizeof(df_signal)];
  make(&e, 1, secret, CALLER, LISTENER);
  memcpy(said, e.caller.out, sizeof(df_connection_greeting));
  go_on(&e, &caller, &listener);
  CHECK(listener == DF_HANDSHAKE_DONE, "%d", listener);
  memcpy(said + sizeof(df_connection_greeting), e.caller.out, sizeof(df_signal));
  df_connection_handshake_listen(&e.listener, &e.stage.sides[1].stream, LISTENER, secret,
                                 makes_keys);
  df_stream *stream = &e.stage.sides[0].stream;
  df_stream_part part = {said, sizeof said};
  CHECK(stream->write(stream, &part, 1) == sizeof said, "there is room");
  listener = DF_HANDSHAKE_PENDING;
  for (int i = 0; i < 10 && listener == DF_HANDSHAKE_PENDING; i++)
    listener = df_connection_handshake_progress(&e.listener, RANKS);
  CHECK(listener == DF_HANDSHAKE_REFUSED, "%d", listener);
  pump_stage_free(&e.stage);
}

DF_TEST(greeting, nonsense_is_refused, 30) {
  for (uint32_t bent = 0; bent < sizeof(df_connection_greeting); bent++) {
    ends e;
    df_connection_handshake_state caller, listener;
    if (bent >= offsetof(df_handshake_greeting, nonce) + 1)
      bent = sizeof(df_connection_greeting) - 1;
    make(&e, 1, secret, CALLER, LISTENER);
    e.caller.out[bent] ^= 0x40;
    go_on(&e, &caller, &listener);
    CHECK(caller != DF_HANDSHAKE_DONE && listener != DF_HANDSHAKE_DONE, "byte %u: %d, %d", bent,
          caller, listener);
    pump_stage_free(&e.stage);
  }
}

/* The mesh has made the key of a control channel, and both ends derive keys for the connection,
 * whether they are asked for or not. */
DF_TEST(greeting, a_line_has_the_key_of_the_mesh, 30) {
  enum { RIGHT, OTHER_KEY, OFFERED_KEY, OF_THIS_HOST, NO_LINES, WAYS };
  for (int way = 0; way < WAYS; way++) {
    df_remote_rank remote[RANKS] = {[CALLER] = {.is_remote = way != OF_THIS_HOST,
                                                .has_channel = way != OF_THIS_HOST,
                                                .key = {4, 5}}};
    const df_remote_rank theirs = {
        .is_remote = 1, .has_channel = 1, .key = {4, way == OTHER_KEY ? 6 : 5}};
    unsigned char key[DF_KEY_BYTES], keys[2][DF_KEY_BYTES];
    df_connection_handshake_state caller, listener;
    ends e;
    make(&e, 1, secret, CALLER, LISTENER);
    if (way == OFFERED_KEY)
      df_connection_handshake_key(key, secret, CALLER);
    else
      df_connection_handshake_channel_key(key, &theirs);
    df_connection_handshake_call(&e.caller, &e.stage.sides[0].stream, CALLER, LISTENER,
                                 DF_HANDSHAKE_CONTROL_PORT, 7, key, 1);
    if (way != NO_LINES) e.listener.remote = remote;
    go_on(&e, &caller, &listener);
    const int is_connected = caller == DF_HANDSHAKE_DONE && listener == DF_HANDSHAKE_DONE;
    CHECK(is_connected == (way == RIGHT), "way %d: %d, %d", way, caller, listener);
    if (is_connected) {
      OK(df_connection_handshake_traffic_key(&e.caller, keys[0]));
      OK(df_connection_handshake_traffic_key(&e.listener, keys[1]));
      CHECK(memcmp(keys[0], keys[1], DF_KEY_BYTES) == 0, "two keys");
    }
    pump_stage_free(&e.stage);
  }
}
