// Gloo over its TCP transport, the only one that needs no special network: on the loopback
// interface, or between hosts.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include "peer.h"

static std::shared_ptr<gloo::rendezvous::Context> context;
static std::unique_ptr<gloo::ReduceScatterHalvingDoubling<float>> reduce_scatter;

bool peer_open(peer_world *world) try {
  const char *address = std::getenv("COMPARE_ADDRESS"); // address of this host in a multi-node run
  gloo::transport::tcp::attr attributes(address ? address : "127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(world->directory);
  context = std::make_shared<gloo::rendezvous::Context>(world->rank, world->n_ranks);
  context->connectFullMesh(store, device);
  return true;
} catch (const std::exception &problem) {
  std::fprintf(stderr, "gloo: %s\n", problem.what());
  return false;
}

void peer_close() { context.reset(); }

void peer_version(char *text, size_t bytes) {
  std::snprintf(text, bytes, "Gloo %d.%d.%d (TCP)", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR,
                GLOO_VERSION_PATCH);
}

// Its only reduce-scatter works in place.
bool peer_in_place(const peer_case *one) { return one->operation == PEER_REDUCESCATTER; }

void *peer_alloc(int, int, size_t bytes) {
  return std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
}

void peer_free(int, int, void *memory, size_t) { std::free(memory); }

bool peer_prepare(const peer_case *one) try {
  if (one->operation > PEER_ALLTOALL) {
    std::fprintf(stderr, "gloo: this operation is not compared\n");
    return false;
  }
  if (one->operation == PEER_REDUCESCATTER) {
    std::vector<int> parts(static_cast<size_t>(context->size), static_cast<int>(one->count));
    reduce_scatter = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
        context, std::vector<float *>{one->send}, static_cast<int>(one->count) * context->size,
        parts);
  }
  return true;
} catch (const std::exception &problem) {
  std::fprintf(stderr, "gloo: %s\n", problem.what());
  return false;
}

bool peer_finish(const peer_case *) {
  reduce_scatter.reset();
  return true;
}

static void sum(void *to, const void *left, const void *right, size_t count) {
  gloo::sum<float>(to, left, right, count);
}

static void call(const peer_case *one) {
  const size_t count = one->count, all = count * static_cast<size_t>(context->size);
  switch (one->operation) {
  case PEER_ALLREDUCE: {
    gloo::AllreduceOptions options(context);
    options.setInput(one->send, count);
    options.setOutput(one->recv, count);
    options.setReduceFunction(sum);
    gloo::allreduce(options);
    return;
  }
  case PEER_ALLGATHER: {
    gloo::AllgatherOptions options(context);
    options.setInput(one->send, count);
    options.setOutput(one->recv, all);
    gloo::allgather(options);
    return;
  }
  case PEER_REDUCESCATTER:
    reduce_scatter->run();
    return;
  case PEER_BROADCAST: {
    gloo::BroadcastOptions options(context);
    options.setOutput(one->recv, count);
    options.setRoot(PEER_ROOT);
    gloo::broadcast(options);
    return;
  }
  case PEER_REDUCE: {
    gloo::ReduceOptions options(context);
    options.setInput(one->send, count);
    options.setOutput(one->recv, count);
    options.setRoot(PEER_ROOT);
    options.setReduceFunction(sum);
    gloo::reduce(options);
    return;
  }
  default: {
    gloo::AlltoallOptions options(context);
    options.setInput(one->send, all);
    options.setOutput(one->recv, all);
    gloo::alltoall(options);
  }
  }
}

bool peer_call(const peer_case *one) try {
  call(one);
  return true;
} catch (const std::exception &problem) {
  std::fprintf(stderr, "gloo: %s\n", problem.what());
  return false;
}
