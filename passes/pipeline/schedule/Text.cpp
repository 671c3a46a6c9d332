//===- Text.cpp - Schedules as text and as CSV ----------------------------===//

#include "passes/pipeline/schedule/Text.h"

#include "support/Nearest.h"
#include "support/Shown.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include <map>

using namespace llvm;

namespace sheaf::schedule {
namespace {

constexpr int32_t kMost = (1 << 20) - 1;

Error errorAt(StringRef file, Place place, const Twine &message) {
  return createStringError(inconvertibleErrorCode(),
                           file + ":" + Twine(place.row) + ":" +
                               Twine(place.column) + ": " + message);
}

/// Takes a number off the front; -1 where there is none, and kMost + 1 for one
/// that is too large.
int32_t takeNumber(StringRef &word) {
  StringRef digits = word.take_while(isDigit);
  word = word.drop_front(digits.size());
  int32_t number = 0;
  if (digits.empty())
    return -1;
  if (digits.getAsInteger(10, number) || number > kMost)
    return kMost + 1;
  return number;
}

bool partOf(char letter, Part &part) {
  for (Part each : {Part::Forward, Part::InputGradient, Part::WeightGradient,
                    Part::Backward})
    if (letterOf(each) == letter) {
      part = each;
      return true;
    }
  return false;
}

/// Reads a schedule word by word.
class Reader {
public:
  Reader(StringRef file) : file(file) {}

  Error readText(StringRef text);
  Error readCSV(StringRef text);
  Expected<Schedule> finish();

private:
  Error error(const Twine &message) { return errorAt(file, place, message); }
  Error unknown(StringRef word, const Twine &expected) {
    return error("unknown action '" + shown(word) + "', expected " + expected);
  }
  Error checkNumber(int32_t number, const Twine &what) {
    if (number <= kMost)
      return Error::success();
    return error(what + " is too large, expected at most " + Twine(kMost));
  }
  /// A task at the front of `word`; the stage may be left out if `rank` is one.
  Error takeTask(StringRef whole, StringRef &word, int32_t rank, Task &task);
  Error takeFused(StringRef whole, StringRef inner, char separator,
                  int32_t rank, Action &action);
  Error addText(StringRef word, int32_t rank);
  Error addCall(StringRef word, StringRef name, StringRef inner);
  Error addCSV(StringRef word);
  /// Puts an action at the end of the current rank.
  Error add(Action action);
  Error own(Task task);

  StringRef file;
  Place place;
  Schedule schedule;
  /// The rank of each stage that was seen, and where.
  std::map<int32_t, std::pair<int32_t, Place>> owners;
  /// Whether the current line left out stages, and where it said one.
  bool leavesOut = false, says = false;
};

Error Reader::own(Task task) {
  auto rank = static_cast<int32_t>(schedule.ranks.size()) - 1;
  auto [it, isNew] = owners.try_emplace(task.stage, rank, place);
  if (!isNew && it->second.first != rank)
    return error("stage " + Twine(task.stage) + " is on rank " +
                 Twine(it->second.first) + " (" + file + ":" +
                 Twine(it->second.second.row) + ":" +
                 Twine(it->second.second.column) + ") and on rank " +
                 Twine(rank) + ", expected all of a stage on one rank");
  return Error::success();
}

Error Reader::add(Action action) {
  action.place = place;
  if (action.isCompute())
    if (Error e = own(action.task))
      return e;
  if (action.kind == ActionKind::FusedPair)
    if (Error e = own(action.other))
      return e;
  schedule.microbatches =
      std::max({schedule.microbatches, action.task.microbatch + 1,
                action.other.microbatch + 1});
  schedule.ranks.back().push_back(action);
  return Error::success();
}

Error Reader::takeTask(StringRef whole, StringRef &word, int32_t rank,
                       Task &task) {
  constexpr StringLiteral form =
      "<stage><F|I|W|B><microbatch>, for instance 0F1";
  task.stage = takeNumber(word);
  if (task.stage < 0) {
    if (rank < 0)
      return unknown(whole, form);
    leavesOut = true;
    task.stage = rank;
  } else {
    says = true;
  }
  if (Error e = checkNumber(task.stage, "the stage"))
    return e;
  if (word.empty() || !partOf(word.front(), task.part))
    return unknown(whole, form);
  word = word.drop_front();
  task.microbatch = takeNumber(word);
  if (task.microbatch < 0)
    return unknown(whole, form);
  return checkNumber(task.microbatch, "the microbatch");
}

Error Reader::takeFused(StringRef whole, StringRef inner, char separator,
                        int32_t rank, Action &action) {
  std::string form = separator == '|'
                         ? "a fused pair in brackets, for instance (0F4|1B1)"
                         : "a fused pair, for instance (0F4;1B1)OVERLAP_F_B";
  action.kind = ActionKind::FusedPair;
  if (Error e = takeTask(whole, inner, rank, action.task))
    return e;
  if (!inner.consume_front(StringRef(&separator, 1)))
    return unknown(whole, form);
  if (Error e = takeTask(whole, inner, rank, action.other))
    return e;
  if (!inner.empty())
    return unknown(whole, form);
  return Error::success();
}

Error Reader::addCall(StringRef word, StringRef name, StringRef inner) {
  ActionKind kind = ActionKind::Compute;
  SmallVector<StringRef> names;
  for (int i = static_cast<int>(ActionKind::Send);
       i <= static_cast<int>(ActionKind::Update); ++i) {
    auto each = static_cast<ActionKind>(i);
    if (each == ActionKind::ReduceNorm)
      continue;
    names.push_back(nameOf(each));
    if (name == nameOf(each))
      kind = each;
  }
  if (kind == ActionKind::Compute) {
    std::optional<StringRef> meant = nearest(name, names);
    return unknown(word, meant ? ("'" + *meant + "(...)'").str()
                               : "one of " + join(names, "(), ") + "()");
  }
  Action action;
  action.kind = kind;
  bool isOfStage = kind > ActionKind::Free;
  bool hasPeer = kind < ActionKind::Free;
  std::string form =
      (isOfStage ? name + "(<stage>), for instance " + name + "(0)"
       : hasPeer ? name + "(<value>,r<rank>), for instance " + name + "(0F1,r1)"
                 : name + "(<value>), for instance " + name + "(0F1)")
          .str();
  if (isOfStage) {
    action.task.stage = takeNumber(inner);
    if (action.task.stage < 0 || !inner.empty())
      return unknown(word, form);
    if (Error e = checkNumber(action.task.stage, "the stage"))
      return e;
    return add(action);
  }
  bool said = says;
  if (Error e = takeTask(word, inner, -1, action.task))
    return e;
  says = said;
  if (action.task.part == Part::Backward)
    return error(
        "'" + shown(word) +
        "' names a value of a B, expected that of its half, F, I or W");
  action.value = 0;
  if (inner.consume_front("#"))
    action.value = takeNumber(inner);
  if (action.value < 0)
    return unknown(word, form);
  if (Error e = checkNumber(action.value, "the number of the value"))
    return e;
  if (hasPeer) {
    if (!inner.consume_front(",r"))
      return unknown(word, form);
    action.peer = takeNumber(inner);
    if (action.peer < 0)
      return unknown(word, form);
    if (Error e = checkNumber(action.peer, "the rank"))
      return e;
  }
  if (!inner.empty())
    return unknown(word, form);
  return add(action);
}

Error Reader::addText(StringRef word, int32_t rank) {
  Action action;
  if (word.front() == '(') {
    StringRef inner = word.drop_front();
    if (!inner.consume_back(")"))
      return unknown(word, "a fused pair in brackets, for instance (0F4|1B1)");
    if (Error e = takeFused(word, inner, '|', rank, action))
      return e;
    return add(action);
  }
  if (word == nameOf(ActionKind::ReduceNorm)) {
    action.kind = ActionKind::ReduceNorm;
    return add(action);
  }
  if (size_t bracket = word.find('('); bracket != StringRef::npos) {
    StringRef inner = word.drop_front(bracket + 1);
    if (!inner.consume_back(")"))
      return unknown(word, "a bracket at the end");
    return addCall(word, word.take_front(bracket), inner);
  }
  StringRef rest = word;
  if (Error e = takeTask(word, rest, rank, action.task))
    return e;
  if (!rest.empty())
    return unknown(word, "<stage><F|I|W|B><microbatch>, for instance 0F1");
  return add(action);
}

/// The words of a line, split by any of `blanks`, with their columns.
template <typename F>
Error eachWord(StringRef line, StringRef blanks, F take) {
  size_t at = 0;
  while ((at = line.find_first_not_of(blanks, at)) != StringRef::npos) {
    size_t end = std::min(line.find_first_of(blanks, at), line.size());
    if (Error e = take(line.slice(at, end), static_cast<int32_t>(at) + 1))
      return e;
    at = end;
  }
  return Error::success();
}

Error Reader::readText(StringRef text) {
  while (!text.empty()) {
    StringRef line;
    std::tie(line, text) = text.split('\n');
    ++place.row;
    place.column = 1;
    leavesOut = says = false;
    if (line.ends_with("\r"))
      line = line.drop_back();
    int32_t rank = -1;
    bool isComment = false;
    Error e =
        eachWord(line, " \t", [&](StringRef word, int32_t column) -> Error {
          isComment |= word.front() == '#';
          if (isComment)
            return Error::success();
          place.column = column;
          if (rank >= 0) {
            if (Error e = addText(word, rank))
              return e;
            if (leavesOut && says)
              return error(
                  "rank " + Twine(rank) +
                  " says the stage of some actions and leaves out that of "
                  "others, expected one of the two");
            return Error::success();
          }
          StringRef rest = word;
          if (rest.consume_front("r"))
            rank = takeNumber(rest);
          if (rank < 0 || rest != ":")
            return error("found '" + shown(word) + "', expected 'r" +
                         Twine(schedule.ranks.size()) +
                         ":' at the beginning of the line");
          if (rank != static_cast<int32_t>(schedule.ranks.size()))
            return error("found rank " + Twine(rank) + ", expected rank " +
                         Twine(schedule.ranks.size()) +
                         ": one line for each rank, in order");
          schedule.ranks.emplace_back();
          return Error::success();
        });
    if (e)
      return e;
  }
  return Error::success();
}

Error Reader::addCSV(StringRef word) {
  Action action;
  if (word.front() == '(') {
    size_t bracket = word.find(')');
    if (bracket == StringRef::npos ||
        word.drop_front(bracket) != ")OVERLAP_F_B")
      return unknown(word, "a fused pair, for instance (0F4;1B1)OVERLAP_F_B");
    if (Error e = takeFused(word, word.slice(1, bracket), ';', -1, action))
      return e;
    return add(action);
  }
  StringRef rest = word;
  int32_t stage = takeNumber(rest);
  StringRef name =
      rest.take_while([](char c) { return isAlpha(c) || c == '_'; });
  rest = rest.drop_front(name.size());
  bool hasMicrobatch = !rest.empty();
  int32_t microbatch = takeNumber(rest);
  constexpr StringLiteral form =
      "<stage><action><microbatch>, for instance 0F1, 0SEND_F1 or 0UNSHARD";
  if (stage < 0 || name.empty() || !rest.empty() ||
      (hasMicrobatch && microbatch < 0))
    return unknown(word, form);
  if (Error e = checkNumber(stage, "the stage"))
    return e;
  if (Error e = checkNumber(microbatch, "the microbatch"))
    return e;
  action.task = {Part::Forward, stage, microbatch};
  struct Word {
    StringLiteral name;
    ActionKind kind;
    Part part;
    /// From the stage that is written to the producer of the value.
    int32_t offset;
  };
  constexpr Word words[] = {
      {"F", ActionKind::Compute, Part::Forward, 0},
      {"I", ActionKind::Compute, Part::InputGradient, 0},
      {"W", ActionKind::Compute, Part::WeightGradient, 0},
      {"B", ActionKind::Compute, Part::Backward, 0},
      {"SEND_F", ActionKind::Send, Part::Forward, 0},
      {"RECV_F", ActionKind::Receive, Part::Forward, -1},
      {"SEND_B", ActionKind::Send, Part::InputGradient, 0},
      {"RECV_B", ActionKind::Receive, Part::InputGradient, 1},
      {"UNSHARD", ActionKind::GatherWeights, Part::Forward, 0},
      {"RESHARD", ActionKind::FreeWeights, Part::Forward, 0},
      {"REDUCE_GRAD", ActionKind::ReduceGradients, Part::Forward, 0}};
  const Word *found = nullptr;
  SmallVector<StringRef> names;
  for (const Word &each : words) {
    names.push_back(each.name);
    if (each.name == name)
      found = &each;
  }
  if (!found) {
    std::optional<StringRef> meant = nearest(name, names);
    return unknown(word, meant ? ("the action '" + *meant + "'").str()
                               : "one of " + join(names, ", "));
  }
  action.kind = found->kind;
  action.task.part = found->part;
  bool isOfStage = found->kind >= ActionKind::GatherWeights;
  if (isOfStage == hasMicrobatch)
    return unknown(word, (isOfStage ? "no" : "a") +
                             Twine(" microbatch behind ") + name);
  if (action.isTransfer()) {
    action.value = 0;
    action.task.stage += found->offset;
    if (action.task.stage < 0)
      return error("'" + shown(word) +
                   "' receives from the stage before the first");
    // Until all stages are known, the stage at the other end.
    action.peer = found->offset != 0             ? action.task.stage
                  : found->part == Part::Forward ? stage + 1
                                                 : stage - 1;
    if (action.peer < 0)
      return error("'" + shown(word) + "' sends to the stage before the first");
  }
  return add(action);
}

Error Reader::readCSV(StringRef text) {
  while (!text.empty()) {
    StringRef line;
    std::tie(line, text) = text.split('\n');
    ++place.row;
    if (line.ends_with("\r"))
      line = line.drop_back();
    // A rank without actions is a line of empty cells, or none.
    if (line.empty() && text.trim().empty())
      break;
    schedule.ranks.emplace_back();
    Error e = eachWord(line, ",", [&](StringRef cell, int32_t column) -> Error {
      StringRef word = cell.trim(" \t");
      if (word.empty())
        return Error::success();
      place.column = column + static_cast<int32_t>(word.data() - cell.data());
      return addCSV(word);
    });
    if (e)
      return e;
  }
  for (std::vector<Action> &actions : schedule.ranks)
    for (Action &action : actions) {
      if (!action.isTransfer())
        continue;
      place = action.place;
      auto it = owners.find(action.peer);
      if (it == owners.end())
        return error("no rank runs stage " + Twine(action.peer) +
                     ", which is at the other end of this transfer");
      action.peer = it->second.first;
    }
  return Error::success();
}

Expected<Schedule> Reader::finish() {
  if (owners.empty())
    return errorAt(file, {1, 1},
                   "no action, expected a schedule: a line for each rank, for "
                   "instance 'r0: 0F0 0B0'");
  for (auto &[stage, owner] : owners) {
    if (stage != schedule.stages())
      return errorAt(file, owner.second,
                     "stage " + Twine(stage) +
                         " is there, but no rank runs "
                         "stage " +
                         Twine(schedule.stages()) +
                         ", expected stages without a gap");
    schedule.rankOf.push_back(owner.first);
  }
  return std::move(schedule);
}

} // namespace

Format guessFormat(StringRef text) {
  text = text.ltrim();
  return text.empty() || text.front() == 'r' || text.front() == '#'
             ? Format::Text
             : Format::CSV;
}

Expected<Schedule> parseText(StringRef text, StringRef file) {
  Reader reader(file);
  if (Error e = reader.readText(text))
    return e;
  return reader.finish();
}

Expected<Schedule> parseCSV(StringRef text, StringRef file) {
  Reader reader(file);
  if (Error e = reader.readCSV(text))
    return e;
  return reader.finish();
}

Expected<Schedule> parse(StringRef text, StringRef file) {
  return guessFormat(text) == Format::Text ? parseText(text, file)
                                           : parseCSV(text, file);
}

std::string printText(const Schedule &schedule, bool computeOnly) {
  bool leaveOut = schedule.stages() == schedule.size();
  for (int32_t stage = 0; stage < schedule.stages(); ++stage)
    leaveOut &= schedule.rankOf[stage] == stage;
  auto shorten = [&](Task task) {
    std::string text = task.str();
    return leaveOut ? text.substr(text.find(letterOf(task.part))) : text;
  };
  std::string text;
  for (int32_t rank = 0; rank < schedule.size(); ++rank) {
    text += "r" + std::to_string(rank) + ":";
    for (const Action &action : schedule.ranks[rank]) {
      if (action.kind == ActionKind::Compute)
        text += " " + shorten(action.task);
      else if (action.kind == ActionKind::FusedPair)
        text += " (" + shorten(action.task) + "|" + shorten(action.other) + ")";
      else if (!computeOnly)
        text += " " + action.str();
    }
    text += "\n";
  }
  return text;
}

Expected<std::string> printCSV(const Schedule &schedule, bool communication) {
  std::string text;
  auto rankAt = [&](int32_t stage) {
    return stage >= 0 && stage < schedule.stages() ? schedule.rankOf[stage]
                                                   : -1;
  };
  for (int32_t rank = 0; rank < schedule.size(); ++rank) {
    bool isFirst = true;
    for (const Action &action : schedule.ranks[rank]) {
      std::string cell;
      const Task &task = action.task;
      switch (action.kind) {
      case ActionKind::Compute:
        cell = task.str();
        break;
      case ActionKind::FusedPair:
        cell = "(" + task.str() + ";" + action.other.str() + ")OVERLAP_F_B";
        break;
      case ActionKind::Send:
      case ActionKind::Receive: {
        if (!communication)
          break;
        bool isForward = task.part == Part::Forward;
        int32_t reader = task.stage + (isForward ? 1 : -1);
        bool isSend = action.kind == ActionKind::Send;
        if (task.part == Part::WeightGradient || action.value != 0 ||
            rankAt(isSend ? reader : task.stage) != action.peer ||
            rankAt(isSend ? task.stage : reader) != rank)
          return createStringError(
              inconvertibleErrorCode(),
              "rank %d: '%s' has no form in the CSV, which has transfers "
              "between neighbouring stages alone; expected schedule text",
              rank, action.str().c_str());
        cell = std::to_string(isSend ? task.stage : reader) +
               (isSend ? "SEND_" : "RECV_") + (isForward ? "F" : "B") +
               std::to_string(task.microbatch);
        break;
      }
      case ActionKind::GatherWeights:
      case ActionKind::FreeWeights:
      case ActionKind::ReduceGradients:
        if (communication)
          cell = std::to_string(task.stage) +
                 (action.kind == ActionKind::GatherWeights ? "UNSHARD"
                  : action.kind == ActionKind::FreeWeights ? "RESHARD"
                                                           : "REDUCE_GRAD");
        break;
      default:
        break;
      }
      if (cell.empty())
        continue;
      if (!isFirst)
        text += ",";
      isFirst = false;
      text += cell;
    }
    // A blank line at the end is none.
    text += isFirst ? ",\n" : "\n";
  }
  return text;
}

} // namespace sheaf::schedule
