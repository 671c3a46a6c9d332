//===- RankSupport.h - the ranks of a mesh as threads -----------*- C++ -*-===//
//
// Runs a function on every rank of a mesh, each a thread with a pool of its
// own.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_RANKSUPPORT_H
#define SHEAF_RANKSUPPORT_H

#include "TestSupport.h"
#include "sheaf/Communicator.h"
#include <functional>
#include <thread>

namespace sheaf::test {

/// The message "rank R: ..." of the rank that failed first; empty where none
/// did. `waitLimit` as of ThreadWorld.
inline std::string
runRanksToFailure(const Mesh &mesh,
                  const std::function<void(Communicator &)> &body,
                  double waitLimit = 0) {
  ThreadWorld world(mesh, waitLimit);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.ranks(); ++rank)
    threads.emplace_back([&, rank] {
      ThreadPool pool(1 + rank % 2, world.ranks());
      Communicator &communicator = world.rank(rank);
      communicator.usePool(pool);
      try {
        body(communicator);
      } catch (const PeerError &) {
      } catch (const Error &error) {
        communicator.abort(error.what());
      }
      communicator.abandon();
      communicator.end();
    });
  for (std::thread &thread : threads)
    thread.join();
  auto [rank, message] = world.failure();
  return rank < 0 ? "" : fmt::format("rank {}: {}", rank, message);
}

inline void runRanks(const Mesh &mesh,
                     const std::function<void(Communicator &)> &body) {
  EXPECT_EQ(runRanksToFailure(mesh, body), "");
}

} // namespace sheaf::test

#endif // SHEAF_RANKSUPPORT_H
