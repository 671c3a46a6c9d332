//===- Engine.h - programs on virtual clocks --------------------*- C++ -*-===//
//
// A discrete-event engine for the recorded programs of a few ranks, each of
// which stands for all at its place of the pipeline. What a rank has (a host, a
// compute stream, a stream for each communicator, links) and how they share is
// in docs/design/simulation.md. The engine knows no artifact and no cluster:
// every duration comes with the programs.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SIM_ENGINE_H
#define SHEAF_SIM_ENGINE_H

#include "sheaf/Cluster.h"
#include <cstdint>
#include <string>
#include <vector>

namespace sheaf::sim {

/// One call of a program.
struct Op {
  enum Kind : int32_t {
    Work,  ///< `what` is an index into Program::works
    Start, ///< into Program::starts
    Wait,  ///< for the start of that number, in the order of starts
    Mark   ///< an action of the schedule, or -1 behind it
  };
  Kind kind;
  int32_t what;
};

/// The transfers of one communicator: begun one after the other, each when all
/// members have posted it.
struct Queue {
  std::vector<int> members; ///< programs
  /// Of sends: the first member sends to the second. Else all do both.
  bool isPair = false;
  std::string name; ///< of the stream, in traces and messages
};

/// A transfer as one member starts it.
struct Start {
  int queue = 0;
  TransferCost cost;
  /// What must be equal at all members.
  std::string what;
};

struct Program {
  std::vector<Op> ops;
  std::vector<double> works; ///< seconds of each, alone
  std::vector<Start> starts;
};

/// How the time of one program's compute stream was spent: in sum the time of
/// the step.
struct Spent {
  double busy = 0, stretch = 0, exposed = 0, idle = 0;
};

/// Of all starts of one index.
struct StartTime {
  int64_t count = 0;
  double seconds = 0; ///< from begin to end
  double exposed = 0;
};

/// Something that took a part of a stream's time.
struct Span {
  enum Kind : int32_t { Work, Wait, Transfer, Action };
  Kind kind;
  int32_t what;  ///< index of the work, the start, or the action
  int32_t queue; ///< of a transfer
  double begin, end;
};

struct Outcome {
  double seconds = 0; ///< until the last rank is at its end
  std::vector<Spent> spent;
  std::vector<std::vector<StartTime>> starts; ///< by program and start
  /// By program, in order of their ends; where asked for.
  std::vector<std::vector<Span>> spans;
};

struct Settings {
  double issue = 0; ///< seconds of a host for each op but marks
  bool wantsSpans = false;
  /// For messages: actions by number.
  const std::vector<std::string> *actions = nullptr;
  /// For messages: how to call the program of an index.
  std::vector<std::string> names;
};

/// Throws an Error where programs wait for each other, or start unlike
/// transfers.
Outcome run(const std::vector<Program> &programs,
            const std::vector<Queue> &queues, const Settings &settings);

} // namespace sheaf::sim

#endif // SHEAF_SIM_ENGINE_H
