/*
 * Promises of src/transports/net/verbs/verbs.h, on devices that are memory (fake_verbs.h):
 *   - The ends connect over a TCP connection that splits and delays; then streams carry what pumps
 *     give them.
 *   - No write is without credit: a remote end that reads nothing stops the writer, and lets it go
 *     on.
 *   - The descriptor is readable when something came after a look, and only then.
 *   - The end of a stream says why: the status, the device, the port, both queue pairs. Data that
 *     came before it can still be read. Work that comes back later is ignored.
 *   - The messages of the other end are checked.
 *   - Without a device, without permission and without memory to lock, opening reports it.
 */
#include "transports/net/verbs/verbs.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/result.h"
#include "fake_verbs.h"
#include "pump_stage.h"

typedef struct pair {
  pump_stage line;
  df_net_backend *fabrics[2];
  df_net_backend_stream *streams[2];
  df_connect_state met[2];
} pair;

static const df_net_backend_ops *const ops = &df_net_backend_verbs;

static int is_readable(const df_net_backend *net_backend, int ms) {
  struct pollfd entry = {.fd = net_backend->fd, .events = POLLIN};
  return poll(&entry, 1, ms) == 1;
}

static void begin(pair *p) {
  const df_net_backend_owner owner = {.rank = 0};
  pump_stage_make(&p->line, 3, DF_PUMP_FRAME_BYTES);
  p->line.most = 7;
  p->line.refusals = 30;
  for (int i = 0; i < 2; i++) {
    OK(ops->open(&p->fabrics[i], &owner, ""));
    const df_net_backend_channel line = {
        .stream = &p->line.sides[i].stream,
        .here = {.family = 4, .bytes = {10, 9, 0, (uint8_t)(i + 1)}},
        .silence_ms = 2000,
        .calls = i == 0};
    OK(ops->begin(p->fabrics[i], &line, &p->streams[i]));
    p->met[i] = DF_CONNECT_PENDING;
  }
}

static void meet(pair *p) {
  while (p->met[0] == DF_CONNECT_PENDING || p->met[1] == DF_CONNECT_PENDING)
    for (int i = 0; i < 2; i++)
      if (p->met[i] == DF_CONNECT_PENDING) p->met[i] = ops->connect(p->streams[i]);
}

static void make(pair *p) {
  begin(p);
  meet(p);
  for (int i = 0; i < 2; i++)
    CHECK(p->met[i] == DF_CONNECT_DONE, "%s", p->streams[i]->stream.reason(&p->streams[i]->stream));
}

static void unmake(pair *p) {
  for (int i = 0; i < 2; i++) {
    if (p->streams[i]) ops->end(p->streams[i]);
    ops->close(p->fabrics[i]);
  }
  pump_stage_free(&p->line);
  CHECK(fake.objects == 0, "%u objects of verbs live", fake.objects);
}

static void look(const pair *p) {
  for (int i = 0; i < 2; i++) ops->look(p->fabrics[i], 1);
}

static int64_t write_to(const pair *p, int i, const void *bytes, size_t length) {
  const df_stream_part part = {bytes, length};
  return p->streams[i]->stream.write(&p->streams[i]->stream, &part, 1);
}

static int64_t read_from(const pair *p, int i, void *bytes, size_t length) {
  const df_stream_room room = {bytes, length};
  return p->streams[i]->stream.read(&p->streams[i]->stream, &room, 1);
}

static const char *reason_of(const pair *p, int i) {
  return p->streams[i]->stream.reason(&p->streams[i]->stream);
}

/* Pumps that are called only when something is due or a stream is ready. */
static void carry_flows(void) {
  pair p;
  pump_flow flows[2];
  make(&p);
  for (int i = 0; i < 2; i++) {
    const wire_form form = {.chunk = i ? 300000 : 64,
                            .loops = 2,
                            .n_messages = 2,
                            .local_slots = 4,
                            .remote_slots = 4,
                            .element_bytes = 4,
                            .missing = 10,
                            .offset = DF_LINK_STAGED_OFFSET,
                            .lends = i};
    df_pump_attach(p.line.sides[i].wire, DF_PUMP_SMALL, &p.streams[i]->stream);
    pump_flow_make(&flows[i], &p.line, i, (uint32_t)i, &form, 200);
  }
  while (!pump_flow_is_through(&flows[0]) || !pump_flow_is_through(&flows[1])) {
    int did = 0;
    for (int i = 0; i < 2; i++) {
      df_pump *wire = p.line.sides[i].wire;
      did |= pump_flow_send(&flows[i]) | pump_flow_receive(&flows[i]);
      ops->look(p.fabrics[i], 0);
      if (p.streams[i]->is_ready) {
        p.streams[i]->is_ready = 0;
        did |= df_pump_receive(wire, DF_PUMP_SMALL);
        if (wire->ports[0].channel.has_more) p.streams[i]->is_ready = 1;
      }
      did |= df_pump_send(wire);
      CHECK(!wire->is_lost && wire->ports[0].why == NULL, "%s", wire->reason);
    }
    if (!did)
      CHECK(p.streams[0]->is_ready || p.streams[1]->is_ready || is_readable(p.fabrics[0], 0) ||
                is_readable(p.fabrics[1], 1000),
            "nothing wakes anybody");
  }
  for (int i = 0; i < 2; i++) {
    pump_flow_release(&flows[i]);
    pump_flow_free(&flows[i]);
  }
  unmake(&p);
}

DF_TEST(verbs, carries_what_pumps_send, 60) {
  fake_reset();
  carry_flows();
  fake_reset();
  fake.has_no_inline = 1;
  carry_flows();
}

/* A byte's value follows from its place. */
static void fill(uint8_t *bytes, size_t length, uint64_t at) {
  for (size_t i = 0; i < length; i++) bytes[i] = (uint8_t)((at + i) * 131 >> 3);
}

typedef struct direction {
  uint64_t written, read;
} direction;

static void write_some(const pair *p, int from, direction *way, size_t length) {
  static uint8_t bytes[1 << 20];
  fill(bytes, length, way->written);
  const int64_t taken = write_to(p, from, bytes, length);
  CHECK(taken >= 0, "%s", reason_of(p, from));
  way->written += (uint64_t)taken;
}

static void read_some(const pair *p, int to, direction *way, size_t length) {
  static uint8_t bytes[1 << 20], expected[1 << 20];
  const int64_t came = read_from(p, to, bytes, length);
  CHECK(came >= 0, "%s", reason_of(p, to));
  fill(expected, (size_t)came, way->read);
  CHECK(memcmp(bytes, expected, (size_t)came) == 0, "other bytes came");
  way->read += (uint64_t)came;
}

/* fake_verbs.c fails if a write finds no receive, or a queue runs over. */
DF_TEST(verbs, writes_with_credit_only, 60) {
  pair p;
  df_random random = {5};
  direction paths[2] = {{0, 0}, {0, 0}};
  const int most_steps = 200000 / df_slowdown();
  fake_reset();
  make(&p);
  for (int stall = 0; stall < 3; stall++) {
    const uint64_t before = paths[0].written;
    for (int i = 0; i < 1000; i++) write_some(&p, 0, &paths[0], stall == 1 ? 1 : 5000);
    CHECK(paths[0].written - before <= 256 << 10, "more than the remote ring was taken");
    for (int i = 0; i < 1000; i++) {
      look(&p);
      read_some(&p, 1, &paths[0], 3000);
    }
    look(&p);
    CHECK(paths[0].read == paths[0].written, "bytes are missing");
  }
  for (int i = 0;
       i < most_steps || paths[0].read < paths[0].written || paths[1].read < paths[1].written;
       i++) {
    const int from = df_random_below(&random, 2);
    const size_t most = df_random_chance(&random, 20) ? 100000 : 300;
    if (i < most_steps && df_random_chance(&random, 50))
      write_some(&p, from, &paths[from], 1 + (size_t)df_random_below(&random, (int)most));
    else
      read_some(&p, 1 - from, &paths[from], 1 + (size_t)df_random_below(&random, (int)most));
    if (df_random_chance(&random, 30)) ops->look(p.fabrics[from], df_random_below(&random, 2));
  }
  unmake(&p);
}

DF_TEST(verbs, reports_when_data_has_arrived, 30) {
  pair p;
  char bytes[8];
  fake_reset();
  make(&p);
  ops->look(p.fabrics[1], 0);
  CHECK(!is_readable(p.fabrics[1], 0), "there are no news");
  CHECK(write_to(&p, 0, "abc", 3) == 3, "it takes nothing");
  CHECK(is_readable(p.fabrics[1], 1000), "nothing tells of bytes");
  p.streams[1]->is_ready = 0;
  ops->look(p.fabrics[1], 0);
  CHECK(p.streams[1]->is_ready && !is_readable(p.fabrics[1], 0), "the news were not noted");
  CHECK(read_from(&p, 1, bytes, sizeof bytes) == 3 && memcmp(bytes, "abc", 3) == 0, "other bytes");
  /* A spinning reader causes one event, and the writer another. */
  const uint32_t events = fake.events;
  ops->look(p.fabrics[1], 1);
  CHECK(write_to(&p, 0, "abc", 3) == 3, "it takes nothing");
  for (int i = 0; i < 20; i++) {
    CHECK(write_to(&p, 0, "abc", 3) == 3, "it takes nothing");
    ops->look(p.fabrics[1], 1);
  }
  CHECK(fake.events <= events + 2, "%u events", fake.events - events);
  /* The completion of a write is requested without waiting. */
  CHECK(ops->has_unsent(p.streams[0]), "nobody knows yet");
  look(&p);
  CHECK(!ops->has_unsent(p.streams[0]), "it has gone");
  unmake(&p);
}

static void check_reason(const pair *p, int i, const char *part) {
  const char *reason = reason_of(p, i);
  CHECK(strstr(reason, part) && strstr(reason, "device fake") &&
            strstr(reason, "port 1, queue pair"),
        "%s", reason);
}

static void check_ended(const pair *p, int i) {
  char byte;
  CHECK(read_from(p, i, &byte, 1) == DF_STREAM_ENDED, "it goes on");
  CHECK(write_to(p, i, "x", 1) == DF_STREAM_ENDED, "it goes on");
}

DF_TEST(verbs, says_how_work_failed, 30) {
  static const struct {
    int status;
    const char *text;
  } cases[] = {{IBV_WC_RETRY_EXC_ERR, "transport retry counter exceeded"},
               {IBV_WC_REM_ACCESS_ERR, "another status"}};
  for (size_t i = 0; i < DF_COUNT_OF(cases); i++) {
    pair p;
    char bytes[8], ends[DF_NET_BACKEND_ENDS_BYTES];
    fake_reset();
    make(&p);
    ops->describe(p.streams[0], ends);
    CHECK(strcmp(ends, "fake0 port 1, ::ffff:10.9.0.1 to ::ffff:10.9.0.2") == 0, "%s", ends);
    CHECK(write_to(&p, 1, "last", 4) == 4, "it takes nothing");
    fake.fails_next = cases[i].status;
    CHECK(write_to(&p, 0, "abc", 3) == 3, "it takes nothing");
    look(&p);
    CHECK(p.streams[0]->is_ready, "nothing tells of the failure");
    CHECK(read_from(&p, 0, bytes, sizeof bytes) == 4, "what came before was lost");
    check_ended(&p, 0);
    check_reason(&p, 0, cases[i].text);
    p.line.sides[1].has_left = 1; /* the line ends with the stream */
    while (p.streams[1]->stream.write(&p.streams[1]->stream, NULL, 0) != DF_STREAM_ENDED)
      ops->on_readable(p.streams[1]);
    check_ended(&p, 1);
    CHECK(strcmp(reason_of(&p, 1), "memory does not end") == 0, "%s", reason_of(&p, 1));
    unmake(&p);
  }
}

DF_TEST(verbs, gives_up_a_link_that_is_cut, 30) {
  pair p;
  fake_reset();
  make(&p);
  fake.is_cut = 1;
  for (int i = 0; i < 100; i++) CHECK(write_to(&p, 0, "abc", 3) >= 0, "it has ended");
  look(&p);
  ops->look(p.fabrics[0], 0);
  fake_give_up();
  CHECK(is_readable(p.fabrics[0], 1000), "nothing tells of the end");
  look(&p);
  check_ended(&p, 0);
  check_reason(&p, 0, "transport retry counter exceeded");
  /* Flushed requests come after the stream, and belong to no stream. */
  ops->end(p.streams[0]);
  p.streams[0] = NULL;
  look(&p);
  unmake(&p);
}

DF_TEST(verbs, says_that_the_device_is_gone, 30) {
  pair p;
  df_net_backend_stream *stream;
  fake_reset();
  make(&p);
  ops->look(p.fabrics[1], 0);
  fake_lose_device(1);
  CHECK(is_readable(p.fabrics[1], 1000), "nothing tells of it");
  ops->look(p.fabrics[1], 0);
  check_ended(&p, 1);
  check_reason(&p, 1, "the device is gone");
  const df_net_backend_channel line = {.stream = &p.line.sides[1].stream,
                                       .here = {.family = 4, .bytes = {10, 9, 0, 2}}};
  RESULT(ops->begin(p.fabrics[1], &line, &stream), dfcclSystemError);
  CHECK(strstr(df_last_sentence(), "device fake1 is gone"), "%s", df_last_sentence());
  unmake(&p);
}

/* An end that the test plays itself, with every message that a stream's other end may send. */
typedef struct liar {
  df_verbs *verbs;
  df_verbs_stream *stream;
  df_verbs_end end;
} liar;

DF_TEST(verbs, checks_the_other_ends_word, 30) {
  const df_address here = {.family = 4, .bytes = {10, 9, 0, 1}};
  for (int i = 0; i < 6; i++) {
    liar one, two;
    fake_reset();
    OK(df_verbs_open(&one.verbs));
    OK(df_verbs_open(&two.verbs));
    OK(df_verbs_stream_make(one.verbs, &here, &one.stream, &one.end));
    OK(df_verbs_stream_make(two.verbs, &here, &two.stream, &two.end));
    if (i == 0) two.end.ring_bytes *= 2;
    if (i == 1) two.end.receives++;
    if (i == 2) two.end.mtu = 9;
    if (i == 3) two.end.number = 1 << 24;
    if (i == 4) two.end.link_layer = IBV_LINK_LAYER_INFINIBAND;
    RESULT(df_verbs_stream_join(one.stream, &two.end, 0), i < 5 ? dfcclRemoteError : dfcclSuccess);
    df_verbs_stream_end(one.stream);
    df_verbs_stream_end(two.stream);
    df_verbs_close(one.verbs);
    df_verbs_close(two.verbs);
  }
}

/* As it would come from a remote end that counts wrongly. */
static void complete(pair *p, uint32_t immediate) {
  fake_complete(0, immediate);
  look(p);
}

DF_TEST(verbs, checks_credit_and_lengths, 30) {
  /* 18 bits of length; above, cells of credit */
  static const struct {
    uint32_t immediate;
    const char *text;
  } cases[] = {{1u << 18, "it gave credit for what was not sent"},
               {33 << 10, "it wrote without credit"},
               {(1u << 18) - 1, "it wrote without credit"}};
  for (size_t i = 0; i < DF_COUNT_OF(cases); i++) {
    pair p;
    fake_reset();
    make(&p);
    complete(&p, cases[i].immediate);
    check_ended(&p, 0);
    check_reason(&p, 0, cases[i].text);
    unmake(&p);
  }
  pair p;
  fake_reset();
  make(&p);
  for (int i = 0; i < 9; i++) complete(&p, 32 << 10); /* the ring has 8 times as much */
  char byte;
  while (read_from(&p, 0, &byte, 1) != DF_STREAM_ENDED) continue;
  check_reason(&p, 0, "it wrote without credit");
  unmake(&p);
}

static void check_meeting_refused(pair *p, const char *reason) {
  df_connect_state state = DF_CONNECT_PENDING;
  for (int i = 0; i < 1000 && state == DF_CONNECT_PENDING; i++) state = ops->connect(p->streams[0]);
  CHECK(state == DF_CONNECT_REFUSED, "state %d", state);
  CHECK(strstr(reason_of(p, 0), reason), "%s", reason_of(p, 0));
}

DF_TEST(verbs, ends_meetings_that_fail, 30) {
  pair p;
  const uint8_t nonsense[256] = {1};
  fake_reset();
  begin(&p);
  p.line.most = p.line.refusals = 0;
  const df_stream_part part = {nonsense, sizeof nonsense};
  CHECK(p.line.sides[1].stream.write(&p.line.sides[1].stream, &part, 1) == sizeof nonsense, "room");
  check_meeting_refused(&p, "the other end sent what is no queue pair");
  unmake(&p);
  fake_reset();
  begin(&p);
  p.line.sides[0].has_left = 1;
  check_meeting_refused(&p, "memory does not end");
  unmake(&p);
}

static void check_open(dfcclResult_t expected, const char *part) {
  df_net_backend *net_backend;
  const df_net_backend_owner owner = {.rank = 0};
  RESULT(ops->open(&net_backend, &owner, ""), expected);
  CHECK(strstr(df_last_sentence(), part), "%s", df_last_sentence());
  CHECK(fake.objects == 0, "%u objects of verbs live", fake.objects);
}

DF_TEST(verbs, says_what_is_missing, 30) {
  fake_reset();
  fake.n_devices = 0;
  check_open(dfcclInvalidUsage, "no RDMA device with an active port");
  fake_reset();
  fake.refuses_open = EACCES;
  check_open(dfcclInvalidUsage, "device fake1 could not be opened: Permission denied");
  fake_reset();
  fake.refuses_memory = ENOMEM;
  const struct rlimit limit = {64 << 10, 64 << 10};
  CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "no limit");
  check_open(dfcclOutOfMemory, "the limit of locked memory is 64 KB; raise it (ulimit -l");
  fake_reset();
  df_net_backend *net_backend;
  df_net_backend_stream *stream;
  const df_net_backend_owner owner = {.rank = 0};
  RESULT(ops->open(&net_backend, &owner, "fake0"), dfcclInvalidUsage);
  OK(ops->open(&net_backend, &owner, ""));
  for (int left = 0; left < 2; left++) {
    fake.refuses_memory = ENOMEM;
    fake.registrations_left = left;
    const df_net_backend_channel line = {.here = {.family = 4, .bytes = {127, 0, 0, 1}}};
    RESULT(ops->begin(net_backend, &line, &stream), dfcclOutOfMemory);
    CHECK(strstr(df_last_sentence(), "ulimit -l"), "%s", df_last_sentence());
  }
  ops->close(net_backend);
  CHECK(fake.objects == 0, "%u objects of verbs live", fake.objects);
}
