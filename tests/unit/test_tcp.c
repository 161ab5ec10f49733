/*
 * Promises of src/transports/net/stream/tcp.h:
 *   - A look does not take the event of a watched descriptor from a thread that waits.
 *   - Streams carry what pumps give them, and the descriptor is readable whenever a pump can go on.
 *   - A stream whose other end has gone reports it with the reason, and so does one without an
 *     answer.
 *   - The measured rate of a stream is doubted while nothing is written, and only then.
 */
#include "transports/net/stream/tcp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "pump_stage.h"

typedef struct pair {
  df_tcp tcp[2];
  df_tcp_stream *streams[2];
} pair;

static int is_readable(const df_tcp *tcp, int ms) {
  struct pollfd entry = {.fd = tcp->epoll_fd, .events = POLLIN};
  return poll(&entry, 1, ms) == 1;
}

static void make(pair *p) {
  for (int i = 0; i < 2; i++) OK(df_tcp_open(&p->tcp[i], NULL));
  const df_tcp_path there = {.to = df_address_loopback(p->tcp[1].port)};
  OK(df_tcp_connect(&p->tcp[0], &there, &p->streams[0]));
  CHECK(is_readable(&p->tcp[1], 10000), "nobody calls");
  df_tcp_look(&p->tcp[1]);
  p->streams[1] = df_tcp_accept(&p->tcp[1]);
  CHECK(p->streams[1] != NULL, "nobody calls");
  CHECK(df_tcp_accept(&p->tcp[1]) == NULL, "two call");
}

static void unmake(pair *p) {
  for (int i = 0; i < 2; i++) {
    if (p->streams[i]) df_tcp_end(&p->tcp[i], p->streams[i]);
    df_tcp_close(&p->tcp[i]);
  }
}

/* Two pumps that are called only if something is due or the descriptor is readable. */
DF_TEST(tcp, carries_what_pumps_send, 60) {
  pair p;
  pump_stage stage;
  pump_flow flows[2];
  make(&p);
  pump_stage_make(&stage, 3, DF_PUMP_FRAME_BYTES);
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
    df_pump_attach(stage.sides[i].wire, DF_PUMP_SMALL, &p.streams[i]->stream);
    pump_flow_make(&flows[i], &stage, i, (uint32_t)i, &form, 200);
  }
  while (!pump_flow_is_through(&flows[0]) || !pump_flow_is_through(&flows[1])) {
    int did = 0;
    for (int i = 0; i < 2; i++) {
      did |= pump_flow_send(&flows[i]) | pump_flow_receive(&flows[i]);
      df_tcp_look(&p.tcp[i]);
      if (p.streams[i]->is_ready) {
        p.streams[i]->is_ready = 0;
        did |= df_pump_receive(stage.sides[i].wire, DF_PUMP_SMALL);
        p.streams[i]->is_ready = stage.sides[i].wire->ports[0].channel.has_more;
      }
      did |= df_pump_send(stage.sides[i].wire);
      CHECK(!stage.sides[i].wire->is_lost, "%s", stage.sides[i].wire->reason);
    }
    if (!did)
      CHECK(is_readable(&p.tcp[0], 10000) || is_readable(&p.tcp[1], 0), "nothing wakes anybody");
  }
  for (int i = 0; i < 2; i++) {
    pump_flow_release(&flows[i]);
    pump_flow_free(&flows[i]);
  }
  pump_stage_free(&stage);
  unmake(&p);
}

static const char *reason_of_end(df_tcp *tcp, df_tcp_stream *stream) {
  char bytes[16];
  int64_t came = 0;
  while (came != DF_STREAM_ENDED) {
    CHECK(is_readable(tcp, 10000), "nothing tells of the end");
    df_tcp_look(tcp);
    const df_stream_room room = {bytes, sizeof bytes};
    came = stream->stream.read(&stream->stream, &room, 1);
  }
  return stream->stream.reason(&stream->stream);
}

DF_TEST(tcp, says_when_the_other_end_goes, 30) {
  pair p;
  make(&p);
  char ends[DF_TCP_ENDS_BYTES];
  df_tcp_describe(p.streams[0], ends);
  CHECK(strncmp(ends, "127.0.0.1:", 10) == 0 && strstr(ends, " to 127.0.0.1:"), "%s", ends);
  df_tcp_end(&p.tcp[1], p.streams[1]);
  p.streams[1] = NULL;
  const char *reason = reason_of_end(&p.tcp[0], p.streams[0]);
  CHECK(strcmp(reason, "the other end closed it") == 0, "%s", reason);
  unmake(&p);
}

/* The system reports it once, and also a connection that was closed after that. */
DF_TEST(tcp, a_silence_is_not_forgotten, 30) {
  pair p;
  make(&p);
  df_tcp_end(&p.tcp[1], p.streams[1]);
  p.streams[1] = NULL;
  p.streams[0]->error = ETIMEDOUT;
  const char *reason = reason_of_end(&p.tcp[0], p.streams[0]);
  CHECK(strcmp(reason, "Connection timed out") == 0, "%s", reason);
  unmake(&p);
}

static df_rate_estimate look_for_ms(pair *p, int ms, int writes) {
  df_stream *stream = &p->streams[0]->stream;
  df_rate_estimate rate_estimate = {.queued = 0};
  for (int i = 0; i < ms / 20; i++) {
    const df_stream_part part = {.bytes = "of a frame", .length = 10};
    if (writes) CHECK(stream->write(stream, &part, 1) == 10, "it takes nothing");
    rate_estimate = stream->rate_estimate(stream);
    df_sleep_ms(20);
  }
  return rate_estimate;
}

/* Were one that is used doubted, it would count as faster and faster, and no other would be used.
 * */
DF_TEST(tcp, the_rate_of_a_stream_that_is_not_used_is_doubted, 30) {
  enum { RATE = 1000000 };
  pair p;
  make(&p);
  p.streams[0]->rate = RATE;
  p.streams[0]->rate_ns = df_clock_ns();
  df_rate_estimate rate_estimate = look_for_ms(&p, 1000, 1);
  CHECK(!rate_estimate.is_doubted && rate_estimate.rate == RATE, "%llu",
        (unsigned long long)rate_estimate.rate);
  rate_estimate = look_for_ms(&p, 2000, 0);
  CHECK(rate_estimate.is_doubted && rate_estimate.rate > RATE, "%llu",
        (unsigned long long)rate_estimate.rate);
  unmake(&p);
}

DF_TEST(tcp, says_when_nobody_answers, 30) {
  df_tcp mine, gone;
  df_tcp_stream *stream;
  OK(df_tcp_open(&mine, NULL));
  OK(df_tcp_open(&gone, NULL));
  const df_tcp_path there = {.to = df_address_loopback(gone.port)};
  df_tcp_close(&gone);
  OK(df_tcp_connect(&mine, &there, &stream));
  const char *reason = reason_of_end(&mine, stream);
  CHECK(strcmp(reason, "Connection refused") == 0, "%s", reason);
  df_tcp_end(&mine, stream);
  df_tcp_close(&mine);
}

DF_TEST(tcp, leaves_events_of_others_to_the_waiter, 30) {
  df_tcp tcp;
  int ends[2];
  OK(df_tcp_open(&tcp, NULL));
  CHECK(pipe(ends) == 0, "no pipe");
  OK(df_tcp_watch(&tcp, ends[0]));
  CHECK(write(ends[1], "x", 1) == 1, "no room");
  CHECK(is_readable(&tcp, 10000), "nothing tells of it");
  df_tcp_look(&tcp);
  CHECK(is_readable(&tcp, 0), "the look took it");
  close(ends[0]);
  close(ends[1]);
  df_tcp_close(&tcp);
}
