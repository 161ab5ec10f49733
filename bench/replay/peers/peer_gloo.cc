// Gloo over its TCP transport, the only one that needs no special network.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "peer.h"

namespace {

constexpr auto run_timeout = std::chrono::seconds(120);

// Its only reduce-scatter works in place, on buffers that it is given once: for each collective an
// object with a buffer of its own.
struct ReduceScatter {
  std::vector<uint64_t> memory;
  std::unique_ptr<gloo::Algorithm> algorithm;
};

std::shared_ptr<gloo::transport::Device> device;
std::unique_ptr<gloo::rendezvous::FileStore> store;
std::vector<std::shared_ptr<gloo::Context>> groups; // 0: all ranks
std::map<int, ReduceScatter> reduce_scatters;       // by the number of the collective
std::vector<char> scratch;                          // result of a reduction on another rank
int own_rank;

template <typename Function> bool guarded(Function function) try {
  function();
  return true;
} catch (const std::exception &problem) {
  std::fprintf(stderr, "Gloo: %s\n", problem.what());
  return false;
}

std::shared_ptr<gloo::Context> connect(const std::string &name, int place, int n_members) {
  gloo::rendezvous::PrefixStore own_store(name, *store);
  auto context = std::make_shared<gloo::rendezvous::Context>(place, n_members);
  context->setTimeout(run_timeout);
  context->connectFullMesh(own_store, device);
  return context;
}

bool open_world(replay_peer_world *world) {
  return guarded([&] {
    own_rank = world->rank;
    device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(world->address));
    store = std::make_unique<gloo::rendezvous::FileStore>(world->directory);
    groups.push_back(connect("all", world->rank, world->n_ranks));
  });
}

// Members of different groups meet under different names; two groups of the same members are told
// apart by their number on the first of them.
int add_group(const int *members, int n_members) {
  static std::map<std::string, int> met;
  std::string name = "group";
  int place = 0;
  for (int i = 0; i < n_members; i++) {
    name += "-" + std::to_string(members[i]);
    if (members[i] == own_rank) place = i;
  }
  const int again = met[name]++;
  name += "." + std::to_string(again);
  return guarded([&] { groups.push_back(connect(name, place, n_members)); })
             ? static_cast<int>(groups.size()) - 1
             : -1;
}

// ---- reductions

using Reduction = void (*)(void *, const void *, const void *, size_t);

template <typename T> Reduction reduction_of(dfcclRedOp_t reduction) {
  switch (reduction) {
  case dfcclSum:
    return gloo::sum<T>;
  case dfcclProd:
    return gloo::product<T>;
  case dfcclMax:
    return gloo::max<T>;
  case dfcclMin:
    return gloo::min<T>;
  default:
    return nullptr;
  }
}

template <typename T> const gloo::ReductionFunction<T> *object_of(dfcclRedOp_t reduction) {
  switch (reduction) {
  case dfcclSum:
    return gloo::ReductionFunction<T>::sum;
  case dfcclProd:
    return gloo::ReductionFunction<T>::product;
  case dfcclMax:
    return gloo::ReductionFunction<T>::max;
  case dfcclMin:
    return gloo::ReductionFunction<T>::min;
  default:
    return nullptr;
  }
}

// Calls function(T()) with the type T. It has no 8-bit floats and no bfloat16.
template <typename Function> bool with_type(dfcclDataType_t type, Function function) {
  switch (type) {
  case dfcclInt8:
    return function(int8_t());
  case dfcclUint8:
    return function(uint8_t());
  case dfcclInt32:
    return function(int32_t());
  case dfcclUint32:
    return function(uint32_t());
  case dfcclInt64:
    return function(int64_t());
  case dfcclUint64:
    return function(uint64_t());
  case dfcclFloat16:
    return function(gloo::float16());
  case dfcclFloat32:
    return function(float());
  case dfcclFloat64:
    return function(double());
  default:
    return false;
  }
}

bool has(replay_peer_operation operation, dfcclDataType_t type, dfcclRedOp_t reduction) {
  if (operation != REPLAY_PEER_ALL_REDUCE && operation != REPLAY_PEER_REDUCE_SCATTER &&
      operation != REPLAY_PEER_REDUCE)
    return true;
  return with_type(type, [&](auto zero) { return reduction_of<decltype(zero)>(reduction); });
}

template <typename T> void all_reduce(const replay_peer_call *call) {
  gloo::AllreduceOptions options(groups[call->group]);
  options.setInput(static_cast<T *>(const_cast<void *>(call->send)), call->count);
  options.setOutput(static_cast<T *>(call->recv), call->count);
  options.setReduceFunction(reduction_of<T>(call->reduction));
  gloo::allreduce(options);
}

template <typename T> void reduce(const replay_peer_call *call) {
  const size_t bytes = call->count * sizeof(T);
  if (!call->recv && scratch.size() < bytes) scratch.resize(bytes);
  void *result = call->recv ? call->recv : scratch.data();
  gloo::ReduceOptions options(groups[call->group]);
  options.setInput(static_cast<T *>(const_cast<void *>(call->send)), call->count);
  options.setOutput(static_cast<T *>(result), call->count);
  options.setRoot(call->root);
  options.setReduceFunction(reduction_of<T>(call->reduction));
  gloo::reduce(options);
}

template <typename T> void reduce_scatter(const replay_peer_call *call) {
  const size_t all = call->count * static_cast<size_t>(call->n_members);
  ReduceScatter &own = reduce_scatters[call->number];
  if (all > INT_MAX) throw std::runtime_error("more elements than an int counts; use --scale");
  if (!own.algorithm) {
    own.memory.resize((all * sizeof(T) + 7) / 8);
    own.algorithm = std::make_unique<gloo::ReduceScatterHalvingDoubling<T>>(
        groups[call->group], std::vector<T *>{reinterpret_cast<T *>(own.memory.data())},
        static_cast<int>(all),
        std::vector<int>(static_cast<size_t>(call->n_members), static_cast<int>(call->count)),
        object_of<T>(call->reduction));
  }
  std::memcpy(own.memory.data(), call->send, all * sizeof(T));
  own.algorithm->run();
  std::memcpy(call->recv, own.memory.data(), call->count * sizeof(T));
}

// ---- moves of bytes

void all_gather(const replay_peer_call *call, char *send, size_t bytes) {
  gloo::AllgatherOptions options(groups[call->group]);
  options.setInput(send, bytes);
  options.setOutput(static_cast<char *>(call->recv), bytes * static_cast<size_t>(call->n_members));
  gloo::allgather(options);
}

void broadcast(const replay_peer_call *call, char *send, size_t bytes) {
  gloo::BroadcastOptions options(groups[call->group]);
  if (call->place == call->root) options.setInput(send, bytes);
  options.setOutput(call->recv ? static_cast<char *>(call->recv) : send, bytes);
  options.setRoot(call->root);
  gloo::broadcast(options);
}

void all_to_all(const replay_peer_call *call, char *send, size_t bytes) {
  const size_t all = bytes * static_cast<size_t>(call->n_members);
  gloo::AlltoallOptions options(groups[call->group]);
  options.setInput(send, all);
  options.setOutput(static_cast<char *>(call->recv), all);
  gloo::alltoall(options);
}

void gather_bytes(const std::shared_ptr<gloo::Context> &group, int root, char *send, char *recv,
                  size_t bytes) {
  gloo::GatherOptions options(group);
  options.setInput(send, bytes);
  if (group->rank == root) options.setOutput(recv, bytes * static_cast<size_t>(group->size));
  options.setRoot(root);
  gloo::gather(options);
}

void scatter(const replay_peer_call *call, char *send, size_t bytes) {
  gloo::ScatterOptions options(groups[call->group]);
  std::vector<char *> pieces;
  for (int i = 0; call->place == call->root && i < call->n_members; i++)
    pieces.push_back(send + static_cast<size_t>(i) * bytes);
  if (call->place == call->root) options.setInputs(pieces, bytes);
  options.setOutput(static_cast<char *>(call->recv), bytes);
  options.setRoot(call->root);
  gloo::scatter(options);
}

void send_recv(const replay_peer_call *call, char *send, size_t bytes) {
  constexpr uint8_t own_prefix = 0x40; // its collectives have 0x01 to 0x08
  const auto slot = gloo::Slot::build(own_prefix, 0);
  auto &group = groups[call->group];
  if (call->place == 0) {
    auto buffer = group->createUnboundBuffer(send, bytes);
    buffer->send(1, slot);
    buffer->waitSend(run_timeout);
  } else {
    auto buffer = group->createUnboundBuffer(call->recv, bytes);
    buffer->recv(0, slot);
    buffer->waitRecv(run_timeout);
  }
}

void run_bytes(const replay_peer_call *call) {
  char *send = static_cast<char *>(const_cast<void *>(call->send));
  const size_t bytes = call->count * call->element_bytes;
  switch (call->operation) {
  case REPLAY_PEER_ALL_GATHER:
    return all_gather(call, send, bytes);
  case REPLAY_PEER_BROADCAST:
    return broadcast(call, send, bytes);
  case REPLAY_PEER_ALL_TO_ALL:
    return all_to_all(call, send, bytes);
  case REPLAY_PEER_GATHER:
    return gather_bytes(groups[call->group], call->root, send, static_cast<char *>(call->recv),
                        bytes);
  case REPLAY_PEER_SCATTER:
    return scatter(call, send, bytes);
  case REPLAY_PEER_SEND_RECV:
    return send_recv(call, send, bytes);
  default: {
    gloo::BarrierOptions options(groups[call->group]);
    gloo::barrier(options);
  }
  }
}

bool run(const replay_peer_call *call) {
  return guarded([&] {
    const bool is_reduced = with_type(call->type, [&](auto zero) {
      using T = decltype(zero);
      if (call->operation == REPLAY_PEER_ALL_REDUCE)
        all_reduce<T>(call);
      else if (call->operation == REPLAY_PEER_REDUCE)
        reduce<T>(call);
      else if (call->operation == REPLAY_PEER_REDUCE_SCATTER)
        reduce_scatter<T>(call);
      else
        return false;
      return true;
    });
    if (!is_reduced) run_bytes(call);
  });
}

bool barrier(bool) {
  return guarded([&] {
    gloo::BarrierOptions options(groups[0]);
    gloo::barrier(options);
  });
}

bool gather(const void *report, void *reports, size_t bytes) {
  return guarded([&] {
    gather_bytes(groups[0], 0, static_cast<char *>(const_cast<void *>(report)),
                 static_cast<char *>(reports), bytes);
  });
}

void name(char *text, size_t bytes) {
  std::snprintf(text, bytes, "Gloo %d.%d.%d (TCP)", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR,
                GLOO_VERSION_PATCH);
}

// The connections end with the process, and so do the other ranks' calls.
void abort_job() {}

void close_world() {
  reduce_scatters.clear();
  groups.clear();
  store.reset();
  device.reset();
}

} // namespace

const replay_peer replay_peer_module = {
    REPLAY_PEER_VERSION, "Gloo",     nullptr, has,    open_world,
    add_group,           run,        barrier, gather, name,
    abort_job,           close_world};
