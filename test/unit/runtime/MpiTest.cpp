//===- MpiTest.cpp - collectives between processes ------------------------===//
//
// Started by runtime-test under mpirun with 8 processes. With an argument it
// does what fails: `mismatch`, `ended` (a rank leaves early), `kill` (a rank is
// killed while the others wait).
//
//===----------------------------------------------------------------------===//

#include "sheaf/Mpi.h"
#include "CollectiveCases.h"
#include <csignal>
#include <thread>

using namespace sheaf;
using namespace sheaf::test;

namespace {
Communicator *shared;

TEST(Mpi, AllReduce) { checkAllReduce(*shared); }
TEST(Mpi, GatherScatterExchange) { checkGatherScatterExchange(*shared); }
TEST(Mpi, ExchangeOfDimensions) { checkExchangeOfDimensions(*shared); }
TEST(Mpi, ExchangeOfRows) { checkExchangeOfRows(*shared); }
TEST(Mpi, PermuteBroadcastSend) { checkPermuteBroadcastSend(*shared); }
TEST(Mpi, ManyOpen) { checkManyOpen(*shared); }
TEST(Mpi, Halves) { checkHalves(*shared); }
TEST(Mpi, Control) { checkControl(*shared); }

void failAs(const std::string &how) {
  Communicator &c = *shared;
  std::vector<float> values(50000);
  if (how == "mismatch") {
    int64_t count = c.rank == 5 ? 32 : 64;
    c.wait(c.start(over(c.mesh, {"dp"}, SHEAF_ALL_REDUCE, count), values.data(),
                   values.data()));
  } else if (how == "rows") {
    // As many rows in all, otherwise spread over the blocks.
    SheafCollective exchange =
        over(c.mesh, {"dp"}, SHEAF_ALL_TO_ALL, 2 * 2 * 4 * c.mesh.axes[0].size);
    exchange.blocks = 2 * c.mesh.axes[0].size;
    exchange.width = 4;
    std::vector<int32_t> sent(exchange.blocks, 1), received(exchange.blocks, 1);
    if (c.rank == 0)
      for (int64_t i = 0; i < exchange.blocks; ++i)
        sent[i] = i % 2 == 0 ? 2 : 0;
    std::vector<float> into(values.size());
    c.wait(c.startRows(exchange, values.data(), sent.data(), received.data(),
                       into.data()));
  } else if (how == "ended" && c.rank != 1) {
    c.barrier();
  } else if (how == "kill") {
    c.barrier();
    if (c.rank == 3)
      raise(SIGKILL);
    c.barrier();
  }
}
} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  MpiProcess mpi;
  int status = 0;
  try {
    std::unique_ptr<Communicator> communicator = mpi.communicator(mesh24());
    ThreadPool pool(1, 8);
    communicator->usePool(pool);
    shared = communicator.get();
    if (argc > 1)
      failAs(argv[1]);
    else
      status = RUN_ALL_TESTS();
    communicator->end();
  } catch (const Error &error) {
    fmt::print(stderr, "rank {}: {}\n", mpi.rank(), error.what());
    mpi.abort();
  }
  mpi.finish();
  return status;
}
