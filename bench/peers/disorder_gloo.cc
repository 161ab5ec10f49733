// Gloo over TCP. It has blocking calls only; a context for all, and a tag for each collective.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>

#include "disorder.h"

static std::shared_ptr<gloo::rendezvous::Context> context;

bool disorder_open(disorder_job *job) try {
  gloo::transport::tcp::attr attributes("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(job->directory);
  context = std::make_shared<gloo::rendezvous::Context>(job->rank, job->n_ranks);
  context->setTimeout(std::chrono::seconds(job->seconds));
  context->connectFullMesh(store, device);
  return true;
} catch (const std::exception &problem) {
  std::fprintf(stderr, "gloo: %s\n", problem.what());
  return false;
}

bool disorder_register(const disorder_collective *) { return true; }

bool disorder_can_start() { return false; }

bool disorder_start(const disorder_collective *) { return false; }

bool disorder_wait(const disorder_collective *) { return false; }

static void sum(void *to, const void *left, const void *right, size_t count) {
  gloo::sum<float>(to, left, right, count);
}

bool disorder_call(const disorder_collective *one) try {
  gloo::AllreduceOptions options(context);
  options.setInput(one->send, one->count);
  options.setOutput(one->recv, one->count);
  options.setReduceFunction(sum);
  options.setTag(static_cast<uint32_t>(one->number + 1));
  gloo::allreduce(options);
  return true;
} catch (const std::exception &problem) {
  std::fprintf(stderr, "gloo: %s\n", problem.what());
  return false;
}

void disorder_close() { context.reset(); }
