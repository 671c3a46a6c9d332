//===- Measure.cpp - the description of this machine ----------------------===//
//
// For CPU ranks: a node is this machine, a device one of its ranks with one
// thread. Everything is measured on all ranks at once, since they share caches,
// memory and clocks.
//
//===----------------------------------------------------------------------===//

#include "sheaf/Communicator.h"
#include "sheaf/Error.h"
#include "sheaf/Matmul.h"
#include "sheaf/Memory.h"
#include "sheaf/Profile.h"
#include "sheaf/Simulation.h"
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

using namespace sheaf;

namespace {
double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// To three digits: no measurement has more.
double rounded(double value) {
  return std::strtod(fmt::format("{:.3g}", value).c_str(), nullptr);
}

/// Calls body(rank) on as many threads at once; the median of what they return.
double onAll(int ranks, const std::function<double(int)> &body) {
  std::vector<double> results(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { results[rank] = body(rank); });
  for (std::thread &thread : threads)
    thread.join();
  return rounded(median(results));
}

/// Operations a second of a loop of additions and products in a cache.
double measureElementwise() {
  std::vector<float> values(4096, 1.0f);
  float *data = values.data();
  double best = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    double began = now();
    constexpr int rounds = 2000;
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < values.size(); ++i)
        data[i] = data[i] * 0.999f + 0.001f;
      // Every round counts.
      asm volatile("" : : "r"(data) : "memory");
    }
    best = std::max(best, 2.0 * rounds * static_cast<double>(values.size()) /
                              (now() - began));
  }
  return best;
}

/// Seconds of a transfer of `elements` x f32 in a group of all ranks.
double measureTransfer(int ranks, int32_t kind, int64_t elements) {
  Mesh mesh;
  mesh.axes = {{"tp", ranks}};
  ThreadWorld world(mesh);
  int64_t whole = elements / ranks * ranks;
  bool isGather = kind == SHEAF_ALL_GATHER;
  return onAll(ranks, [&](int rank) {
    ThreadPool pool(1, ranks);
    Communicator &communicator = world.rank(rank);
    communicator.usePool(pool);
    std::vector<float> send(whole, 1.0f), receive(whole);
    SheafCollective c = {};
    c.kind = kind;
    c.type = SHEAF_F32;
    c.id = -1;
    c.axis_count = 1;
    c.size[0] = ranks;
    c.stride[0] = 1;
    c.elements = isGather ? whole / ranks : whole;
    c.send_slices = c.receive_slices = 1;
    if (kind == SHEAF_SEND) {
      c.kind = rank == 0 ? SHEAF_SEND : SHEAF_RECEIVE;
      c.peer = rank == 0 ? 1 : 0;
    }
    std::vector<double> times;
    bool takesPart = kind != SHEAF_SEND || rank < 2;
    for (int i = 0; i < 12 && takesPart; ++i) {
      double began = now();
      communicator.wait(communicator.start(c, send.data(), receive.data()));
      times.push_back(now() - began);
    }
    communicator.barrier();
    communicator.abandon();
    communicator.end();
    return times.empty() ? 0 : median(times);
  });
}
} // namespace

Cluster sheaf::measureCluster() {
  int ranks = availableCores();
  Cluster cluster;
  cluster.name = "cpu";
  Cluster::Device &device = cluster.device;
  device.name = "one thread of this machine";
  device.memoryBytes =
      static_cast<double>(availableMemory()) / static_cast<double>(ranks);
  device.multiprocessors = 1;
  for (SheafType type : {SHEAF_F32, SHEAF_F64})
    device.products[type].stated = onAll(ranks, [&](int) {
      ThreadPool pool(1, ranks);
      return measurePeak(pool, type);
    });
  device.memory.stated = onAll(ranks, [&](int) {
    ThreadPool pool(1, ranks);
    return measureCopy(pool);
  });
  device.elementwise.stated =
      onAll(ranks, [](int) { return measureElementwise(); });
  // Not measured: its tiles are small, about half of the rate of a product.
  device.attentionForward = device.attentionBackward = 0.5;
  device.launch = onAll(ranks, [&](int) {
    ThreadPool pool(1, ranks);
    std::vector<double> times;
    volatile int64_t sink = 0;
    for (int i = 0; i < 1000; ++i) {
      double began = now();
      pool.run(1, [&](int64_t task) { sink = task; });
      times.push_back(now() - began);
    }
    return median(times);
  });
  cluster.devicesPerNode = std::max(ranks, 1);
  const std::pair<int32_t, TransferKind> kinds[] = {
      {SHEAF_ALL_GATHER, TransferKind::AllGather},
      {SHEAF_REDUCE_SCATTER, TransferKind::ReduceScatter},
      {SHEAF_ALL_REDUCE, TransferKind::AllReduce},
      {SHEAF_ALL_TO_ALL, TransferKind::AllToAll},
      {SHEAF_SEND, TransferKind::Send}};
  for (auto [kind, row] : kinds)
    for (int members = 2; members <= ranks; members *= 2) {
      if (kind == SHEAF_SEND && members > 2)
        break;
      constexpr int64_t few = 1024, many = 4 << 20;
      double latency = measureTransfer(members, kind, few);
      double seconds = measureTransfer(members, kind, many);
      // A rank that waits moves the bytes itself: it computes nothing then.
      cluster.transfers[static_cast<int>(row)].rows.push_back(
          {{members, 1},
           rounded(4.0 * static_cast<double>(many - few) /
                   std::max(seconds - latency, 1e-9)),
           latency,
           1});
    }
  return cluster;
}
