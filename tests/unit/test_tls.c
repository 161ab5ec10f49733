/*
 * Promises of src/transports/net/security/tls.h:
 *   - Two ends with certificates of one authority connect, and written bytes are read, however the
 *     stream below splits it; none of it can be read on its way.
 *   - An end without a certificate of the authority, with an expired one, or with another key of
 *     the connection is refused for good, with the reason.
 *   - A change on the way ends the stream, and no changed byte is returned.
 *   - Files that are missing, wrong, or open to all are named, with what is wrong.
 */
#include "transports/net/security/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/certificates.h"
#include "pump_stage.h"

enum { TOTAL = 300000 };

static const unsigned char key[DF_KEY_BYTES] = {7}, other_key[DF_KEY_BYTES] = {8};

static const char *directory;

static void prepare(void) {
  if (directory) return;
  directory = df_certificates_directory();
  df_certificate_make(directory, "ca", NULL, 10);
  df_certificate_make(directory, "other-ca", NULL, 10);
  df_certificate_make(directory, "rank", "ca", 10);
  df_certificate_make(directory, "peer", "ca", 10);
  df_certificate_make(directory, "over", "ca", -2);
  df_certificate_make(directory, "stranger", "other-ca", 10);
}

static df_tls_files files_of(const char *cert, const char *its_key, const char *ca) {
  df_tls_files files;
  prepare();
  snprintf(files.cert, DF_TLS_PATH, "%s/%s.pem", directory, cert);
  snprintf(files.key, DF_TLS_PATH, "%s/%s.key", directory, its_key);
  snprintf(files.ca, DF_TLS_PATH, "%s/%s.pem", directory, ca);
  return files;
}

typedef struct ends {
  pump_stage stage;
  df_tls *tls[2];
  df_stream *sides[2];
} ends;

static void make(ends *e, uint64_t seed, const char *cert, const char *ca,
                 const unsigned char *remote_key) {
  pump_stage_make(&e->stage, seed, 64);
  for (int i = 0; i < 2; i++) {
    const df_tls_files files = i ? files_of(cert, cert, ca) : files_of("rank", "rank", "ca");
    OK(df_tls_make(&e->tls[i], &files));
    OK(df_tls_open(&e->sides[i], e->tls[i], &e->stage.sides[i].stream, i ? remote_key : key,
                   i == 0));
  }
}

static void unmake(ends *e) {
  for (int i = 0; i < 2; i++) {
    e->sides[i]->close(e->sides[i]);
    df_tls_free(e->tls[i]);
  }
  pump_stage_free(&e->stage);
}

static void meet(ends *e, int states[2]) {
  states[0] = states[1] = 0;
  for (int i = 0; i < 100000; i++)
    for (int side = 0; side < 2; side++)
      if (states[side] == 0) states[side] = e->sides[side]->connect(e->sides[side]);
}

static void connect_ends(ends *e) {
  int states[2];
  meet(e, states);
  CHECK(states[0] == 1 && states[1] == 1, "%s, %s", e->sides[0]->reason(e->sides[0]),
        e->sides[1]->reason(e->sides[1]));
}

static void carry(uint64_t seed, int from) {
  ends e;
  df_random random = {seed};
  static uint8_t sent[TOTAL], got[TOTAL + 1];
  size_t written = 0, read = 0;
  for (size_t i = 0; i < TOTAL; i++) sent[i] = (uint8_t)df_random_below(&random, 256);
  make(&e, seed, "peer", "ca", key);
  e.stage.most = df_random_chance(&random, 50) ? 20 + (int)df_random_below(&random, 90000) : 0;
  e.stage.refusals = (int)df_random_below(&random, 40);
  connect_ends(&e);
  for (uint32_t turn = 0; read < TOTAL; turn++) {
    CHECK(turn < 1000000, "%zu of %zu bytes came", read, written);
    const size_t large = 1 + (size_t)df_random_below(&random, 100000);
    const size_t small = DF_MIN((size_t)16, TOTAL - written), rest = TOTAL - written - small;
    const df_stream_part parts[2] = {{sent + written, small},
                                     {sent + written + small, DF_MIN(rest, large)}};
    const df_stream_room room = {got + read, TOTAL + 1 - read};
    const int64_t taken = e.sides[from]->write(e.sides[from], parts, 2);
    const int64_t came = e.sides[1 - from]->read(e.sides[1 - from], &room, 1);
    CHECK(taken >= 0 && came >= 0, "it ended: %s", e.sides[1 - from]->reason(e.sides[1 - from]));
    const wire_pipe *pipe = &e.stage.pipes[from];
    CHECK(written || memmem(pipe->bytes, pipe->end, sent, 16) == NULL, "it is to be seen");
    written += (size_t)taken;
    read += (size_t)came;
  }
  CHECK(memcmp(sent, got, TOTAL) == 0, "other bytes came");
  unmake(&e);
}

DF_TEST(tls, what_is_written_is_read, 60) {
  for (uint64_t seed = 1; seed <= 12; seed++) carry(seed, (int)(seed % 2));
}

static void is_refused(const char *cert, const char *ca, const unsigned char *remote_key, int who,
                       int state, const char *why) {
  ends e;
  int states[2];
  make(&e, 1, cert, ca, remote_key);
  meet(&e, states);
  const char *reason = e.sides[who]->reason(e.sides[who]);
  CHECK(states[who] == state && strstr(reason, why), "%d, \"%s\"", states[who], reason);
  CHECK(states[1 - who] != 1, "the other end takes it to stand");
  unmake(&e);
}

DF_TEST(tls, who_does_not_belong_is_refused, 60) {
  is_refused("stranger", "ca", key, 0, DF_STREAM_REFUSED, "the other end's certificate: ");
  is_refused("over", "ca", key, 0, DF_STREAM_REFUSED, "certificate has expired");
  is_refused("peer", "other-ca", key, 1, DF_STREAM_REFUSED, "the other end's certificate: ");
  is_refused("peer", "ca", other_key, 1, DF_STREAM_ENDED,
             "does not have the key of the connection");
}

DF_TEST(tls, what_is_changed_ends_it, 60) {
  static uint8_t sent[1000], got[1000];
  for (int bit = 0; bit < 8 * 1016; bit += 37) {
    ends e;
    make(&e, 1, "peer", "ca", key);
    connect_ends(&e);
    const df_stream_part part = {sent, sizeof sent};
    const df_stream_room room = {got, sizeof got};
    wire_pipe *pipe = &e.stage.pipes[0];
    pipe->at = pipe->end = 0;
    CHECK(e.sides[0]->write(e.sides[0], &part, 1) == sizeof sent, "it was not taken");
    pipe->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    pipe->end = DF_MIN(pipe->end + 70000, pipe->capacity);
    CHECK(e.sides[1]->read(e.sides[1], &room, 1) == DF_STREAM_ENDED, "bit %d was not noticed", bit);
    CHECK(strstr(e.sides[1]->reason(e.sides[1]), "TLS: "), "%s", e.sides[1]->reason(e.sides[1]));
    unmake(&e);
  }
}

/* The caller ends the connection if the rest does not arrive (connect/connections.c). */
DF_TEST(tls, a_record_without_its_rest_is_reported, 60) {
  static uint8_t sent[1000], got[2 * sizeof sent];
  const df_stream_part part = {sent, sizeof sent};
  const df_stream_room room = {got, sizeof got};
  ends e;
  make(&e, 1, "peer", "ca", key);
  connect_ends(&e);
  wire_pipe *pipe = &e.stage.pipes[0];
  df_stream *to = e.sides[1];
  pipe->at = pipe->end = 0;
  CHECK(e.sides[0]->write(e.sides[0], &part, 1) == sizeof sent, "it was not taken");
  const size_t whole = pipe->end;
  pipe->end = whole / 2;
  CHECK(to->read(to, &room, 1) == 0 && to->awaits_rest(to), "half a record");
  pipe->end = whole;
  CHECK(to->read(to, &room, 1) == sizeof sent && !to->awaits_rest(to), "a whole record");
  pipe->at = pipe->end = 0;
  CHECK(e.sides[0]->write(e.sides[0], &part, 1) == sizeof sent, "it was not taken");
  pipe->bytes[3] |= 0x10;
  CHECK(to->read(to, &room, 1) == 0 && to->awaits_rest(to), "a record that was made longer");
  unmake(&e);
}

static void is_named(const df_tls_files *files, const char *variable, const char *why) {
  df_tls *tls = NULL;
  CHECK(df_tls_make(&tls, files) == dfcclInvalidUsage, "it was taken");
  const char *sentence = df_last_sentence();
  CHECK(strstr(sentence, variable) && strstr(sentence, directory) && strstr(sentence, why),
        "\"%s\"", sentence);
}

DF_TEST(tls, files_that_are_wrong_are_named, 60) {
  df_tls_files files = files_of("nobody", "rank", "ca");
  is_named(&files, "DFCCL_TLS_CERT", "No such file");
  files = files_of("rank", "nobody", "ca");
  is_named(&files, "DFCCL_TLS_KEY", "No such file");
  files = files_of("rank", "peer", "ca");
  is_named(&files, "DFCCL_TLS_KEY", "key values mismatch");
  files = files_of("rank", "rank", "ca");
  strcpy(files.ca, files.key);
  is_named(&files, "DFCCL_TLS_CA", "");
  files = files_of("rank", "rank", "ca");
  strcpy(files.cert, files.key);
  is_named(&files, "DFCCL_TLS_CERT", "no start line");
  files = files_of("rank", "rank", "ca");
  CHECK(chmod(files.key, 0644) == 0, "no chmod");
  is_named(&files, "DFCCL_TLS_KEY", "chmod 600");
  CHECK(chmod(files.key, 0600) == 0, "no chmod");
}
