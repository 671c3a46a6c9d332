//===- VerifyRaces.cpp - No byte is used while a transfer has it ----------===//
//
// A function is gone through once, in the order of the program, with what is
// under way and what of each temporary buffer has been written, both by ranges
// of bytes. Buffers without a place are memories of their own; those with one
// lie in the scratch memory, where two may have the same bytes at different
// times. A layer is gone through for each way in which its callers hand over
// the same bytes as several of its arguments.
//
// What is under way is a transfer: an op that started it, the bytes that it
// uses, and its end, a wait. Kernels of another stream would be one, too.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/overlap/ByteRanges.h"
#include "passes/overlap/Passes.h"
#include <deque>
#include <set>

namespace sheaf {
#define GEN_PASS_DEF_EXECVERIFYRACES
#include "passes/overlap/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::exec;

namespace {
/// Bytes of two memories do not overlap.
using Memory = unsigned;
/// That of what may be anything.
constexpr Memory kAnything = 0;
constexpr Memory kScratch = 1;
/// That of the first argument; those of temporary buffers without a place
/// follow the last argument's.
constexpr Memory kArguments = 2;

/// Bytes [begin, end) of a memory, or some of them.
struct Bytes {
  Memory memory = kAnything;
  int64_t begin = 0, end = 0;
  bool isExact = true;

  bool overlaps(const Bytes &other) const {
    return memory == other.memory && begin < other.end && other.begin < end;
  }
  bool operator==(const Bytes &other) const {
    return memory == other.memory && begin == other.begin && end == other.end;
  }
};

/// What a transfer does with bytes while it is under way.
enum class Use { Send, Receive, Handle };

/// A transfer between its start and its wait.
struct UnderWay {
  Operation *start;
  SmallVector<std::pair<Value, Use>, 3> uses;
  /// Whether its bytes are watched: not once it is told of.
  bool isWatched = true;
};

/// Who uses a byte.
using Users = SmallVector<std::pair<unsigned, Use>, 2>;

/// The buffer that has a byte, and the op that wrote it.
struct Content {
  Value buffer;
  Operation *writer;
};

/// Where the arguments of a function are: a number for each memory, and the
/// byte of it where the argument begins.
using ArgumentPlaces = std::vector<std::pair<int, int64_t>>;
constexpr int kUnknownPlace = -1;

/// A function with its arguments at some places.
struct Visit {
  func::FuncOp function;
  ArgumentPlaces places;
  Operation *call; ///< that asked for it, or null
};

class Verifier {
public:
  explicit Verifier(ModuleOp module) : symbols(module), module(module) {}
  LogicalResult run();

  /// Has a function verified, unless it was with arguments at these places.
  void ask(func::FuncOp function, ArgumentPlaces places, Operation *call);
  /// Whether nothing has been said about an op.
  bool isNew(Operation *op) {
    isWrong = true;
    return told.insert(op).second;
  }
  SymbolTable symbols;

private:
  ModuleOp module;
  std::deque<Visit> visits;
  std::set<std::pair<Operation *, ArgumentPlaces>> known;
  llvm::DenseSet<Operation *> told;
  bool isWrong = false;
};

/// One function.
class FunctionVerifier {
public:
  FunctionVerifier(Verifier &verifier, const Visit &visit)
      : verifier(verifier), visit(visit), function(visit.function),
        argumentCount(function.getNumArguments()),
        memoryCount(kArguments + argumentCount) {}
  void run();

private:
  using HandleKey = std::pair<Value, int64_t>;

  Verifier &verifier;
  const Visit &visit;
  func::FuncOp function;
  ArrayAttr entry;
  bool isPlaced = false;
  /// Whether a loop's body is gone through for the second time.
  bool isRepeated = false;
  /// Whether it is known what has been written.
  bool isStraight = true;
  unsigned argumentCount;
  Memory memoryCount;
  DenseMap<Value, Bytes> bytes;

  SmallVector<UnderWay> transfers;
  DenseMap<Memory, ByteRanges<Users>> busy;
  /// How many are watched, and how many of them in bytes that may be any.
  int watched = 0, watchedAnywhere = 0;
  /// The transfers that are not waited for, by their handles, and the last wait
  /// for each.
  DenseMap<HandleKey, unsigned> open;
  DenseMap<HandleKey, Operation *> waited;
  /// Handles of transfers that were under way when their block ended.
  llvm::DenseSet<HandleKey> lost;
  /// What temporary buffers hold.
  DenseMap<Memory, ByteRanges<Content>> contents;

  Bytes bytesOf(Value buffer);
  HandleKey keyOf(Value handle) {
    return {getRootBuffer(handle), bytesOf(handle).begin};
  }
  bool isTemporary(const Bytes &of) const {
    return of.memory == kScratch || of.memory >= kArguments + argumentCount;
  }

  void visitBlock(Block &block);
  void visitOp(Operation *op);
  void access(AccessOpInterface op);
  void call(exec::CallOp op);
  void start(Operation *op, Value sent, Value received, Value handle);
  void wait(WaitOp op);

  void read(Operation *op, Value buffer) { read(op, buffer, bytesOf(buffer)); }
  void read(Operation *op, Value buffer, const Bytes &of);
  void write(Operation *op, Value buffer) {
    write(op, buffer, bytesOf(buffer));
  }
  void write(Operation *op, Value buffer, const Bytes &of);
  void checkBusy(Operation *op, const Bytes &of, bool isWrite,
                 StringRef verb = "");
  void checkContent(Operation *op, Value buffer, const Bytes &of);
  void forget(unsigned number);

  std::string describe(const Bytes &of) const;
  InFlightDiagnostic report(Operation *op);
  void reportBusy(Operation *op, const Bytes &of, StringRef verb,
                  unsigned number, Use use);
};
} // namespace

//===----------------------------------------------------------------------===//
// Where buffers are
//===----------------------------------------------------------------------===//

Bytes FunctionVerifier::bytesOf(Value buffer) {
  auto known = bytes.find(buffer);
  if (known != bytes.end())
    return known->second;
  Bytes result;
  auto type = dyn_cast<MemRefType>(buffer.getType());
  Operation *op = buffer.getDefiningOp();
  if (auto temporary = dyn_cast_if_present<BufferOp>(op)) {
    if (std::optional<uint64_t> offset = temporary.getOffset())
      result = {kScratch, static_cast<int64_t>(*offset), 0};
    else
      result.memory = memoryCount++;
    result.end = result.begin + getBytes(type);
  } else if (auto view = dyn_cast_if_present<ViewOp>(op)) {
    result = bytesOf(view.getSource());
    if (result.isExact) {
      result.begin += view.getOffset();
      result.end = result.begin + getBytes(type);
    }
  } else if (auto part = dyn_cast_if_present<PartOp>(op)) {
    result = bytesOf(part.getSource());
    APInt index;
    int64_t count = (result.end - result.begin) / getBytes(type);
    if (!matchPattern(part.getIndex(), m_ConstantInt(&index)) ||
        index.getSExtValue() < 0 || index.getSExtValue() >= count)
      result.isExact = false;
    else if (result.isExact) {
      result.begin += index.getSExtValue() * getBytes(type);
      result.end = result.begin + getBytes(type);
    }
  }
  return bytes[buffer] = result;
}

/// "bytes 64 to 127 of ...".
std::string FunctionVerifier::describe(const Bytes &of) const {
  if (of.memory == kAnything)
    return "a buffer that may be any";
  std::string text = (of.isExact ? "bytes " : "some of bytes ") +
                     std::to_string(of.begin) + " to " +
                     std::to_string(of.end - 1) + " of ";
  if (of.memory == kScratch)
    return text + "the scratch memory";
  unsigned argument = of.memory - kArguments;
  if (argument >= argumentCount)
    return text + "a temporary buffer";
  if (entry)
    if (auto parts = dyn_cast<ArrayAttr>(entry[argument]);
        parts && parts.size() >= 2 && isa<StringAttr>(parts[0]) &&
        isa<StringAttr>(parts[1]))
      return text + cast<StringAttr>(parts[0]).str() + " '" +
             cast<StringAttr>(parts[1]).str() + "'";
  return text + "argument " + std::to_string(argument);
}

/// Where the arguments of an entry are, which are one buffer where they have
/// one name; those of another function by themselves.
static ArgumentPlaces placesOf(func::FuncOp function) {
  ArgumentPlaces places;
  auto entry = function->getAttrOfType<ArrayAttr>(kEntryAttr);
  DenseMap<Attribute, int> known;
  for (int i = 0, count = function.getNumArguments(); i < count; ++i) {
    places.emplace_back(i, 0);
    if (!entry || entry.size() != function.getNumArguments())
      continue;
    auto parts = dyn_cast<ArrayAttr>(entry[i]);
    if (parts && parts.size() >= 2)
      places.back().first =
          known
              .try_emplace(
                  ArrayAttr::get(function.getContext(), {parts[0], parts[1]}),
                  i)
              .first->second;
  }
  return places;
}

//===----------------------------------------------------------------------===//
// What is said
//===----------------------------------------------------------------------===//

static StringRef nameOf(Operation *start) {
  if (auto collective = dyn_cast<CollectiveOp>(start))
    return stringifyTransfer(collective.getKind());
  return stringifyPair(cast<StartOp>(start).getKind());
}

/// The wait of a transfer, or null.
static Operation *waitOf(Value handle, Operation *start) {
  SmallVector<Value> views{getRootBuffer(handle)};
  Operation *found = nullptr;
  while (!views.empty())
    for (Operation *user : views.pop_back_val().getUsers()) {
      if (isa<ViewOp, PartOp>(user))
        views.push_back(user->getResult(0));
      else if (isa<WaitOp>(user) && user->getBlock() == start->getBlock() &&
               start->isBeforeInBlock(user) &&
               (!found || user->isBeforeInBlock(found)))
        found = user;
    }
  return found;
}

InFlightDiagnostic FunctionVerifier::report(Operation *op) {
  InFlightDiagnostic diagnostic = op->emitOpError();
  if (visit.call)
    diagnostic.attachNote(visit.call->getLoc())
        << "where '" << function.getName()
        << "' is handed the same bytes as several arguments";
  return diagnostic;
}

/// "group [2] x [1], channel 1", for ops that have one.
static std::string communicatorOf(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto write = [&](ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
    os << "group [";
    llvm::interleaveComma(sizes, os);
    os << "] x [";
    llvm::interleaveComma(strides, os);
    os << "], ";
  };
  if (auto collective = dyn_cast<CollectiveOp>(op)) {
    write(collective.getSizes(), collective.getStrides());
    os << "channel " << collective.getChannel();
  } else if (auto pair = dyn_cast<StartOp>(op)) {
    write(static_cast<int64_t>(pair.getSize()),
          static_cast<int64_t>(pair.getStride()));
    os << "peer " << pair.getPeer();
  }
  return text;
}

void FunctionVerifier::reportBusy(Operation *op, const Bytes &of,
                                  StringRef verb, unsigned number, Use use) {
  UnderWay &transfer = transfers[number];
  Value handle = transfer.uses.back().first;
  StringRef name = nameOf(transfer.start);
  if (verifier.isNew(op)) {
    InFlightDiagnostic diagnostic = report(op);
    std::string ours = communicatorOf(op),
                theirs = communicatorOf(transfer.start);
    diagnostic << verb << describe(of) << " while " << name
               << (use == Use::Send      ? " sends"
                   : use == Use::Receive ? " receives into"
                                         : " has its handle in")
               << " them";
    if (!ours.empty() && ours != theirs)
      diagnostic << ", and nothing orders its communicator, " << ours
                 << ", behind that of the other, " << theirs;
    diagnostic << "; expected the wait in front of this op, or the start "
                  "behind it";
    diagnostic.attachNote(transfer.start->getLoc())
        << name << " is started here";
    if (Operation *wait = waitOf(handle, transfer.start))
      diagnostic.attachNote(wait->getLoc()) << "and waited for here";
  }
  forget(number);
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

/// Stops to watch the bytes of a transfer.
void FunctionVerifier::forget(unsigned number) {
  UnderWay &transfer = transfers[number];
  if (!transfer.isWatched)
    return;
  transfer.isWatched = false;
  --watched;
  bool isAnywhere = false;
  for (auto [buffer, use] : transfer.uses) {
    Bytes of = bytesOf(buffer);
    isAnywhere |= of.memory == kAnything;
    busy[of.memory].change(of.begin, of.end, [&](Users &users) {
      llvm::erase_if(users,
                     [&](const auto &user) { return user.first == number; });
      return !users.empty();
    });
  }
  watchedAnywhere -= isAnywhere;
}

void FunctionVerifier::checkBusy(Operation *op, const Bytes &of, bool isWrite,
                                 StringRef verb) {
  if (watched == 0)
    return;
  if (verb.empty())
    verb = isWrite ? "writes " : "reads ";
  // What may be anything, or lies beside it.
  if (of.memory == kAnything || watchedAnywhere > 0) {
    for (unsigned number = 0; number < transfers.size(); ++number) {
      if (!transfers[number].isWatched)
        continue;
      for (auto [buffer, use] : transfers[number].uses)
        if ((isWrite || use != Use::Send) &&
            (of.memory == kAnything || bytesOf(buffer).memory == kAnything))
          return reportBusy(op, of, verb, number, use);
    }
    if (of.memory == kAnything)
      return;
  }
  auto ranges = busy.find(of.memory);
  if (ranges == busy.end())
    return;
  std::optional<std::pair<unsigned, Use>> found;
  Bytes both = of;
  ranges->second.visit(
      of.begin, of.end, [&](int64_t begin, int64_t end, const Users *users) {
        if (users)
          for (auto user : *users)
            if (!found ? isWrite || user.second != Use::Send : user == *found) {
              both.begin = found ? both.begin : begin;
              both.end = end;
              found = user;
              return true;
            }
        return !found;
      });
  if (found)
    reportBusy(op, both, verb, found->first, found->second);
}

/// The first op behind `op` in its block that writes some of the bytes.
static Operation *firstWriterBehind(Operation *op, Value root,
                                    llvm::function_ref<bool(Value)> overlaps) {
  Operation *found = nullptr;
  SmallVector<Value> views{root};
  while (!views.empty()) {
    Value view = views.pop_back_val();
    for (Operation *user : view.getUsers()) {
      if (isa<ViewOp, PartOp>(user)) {
        views.push_back(user->getResult(0));
        continue;
      }
      auto access = dyn_cast<AccessOpInterface>(user);
      Operation *inBlock = op->getBlock()->findAncestorOpInBlock(*user);
      if (access && llvm::is_contained(access.getWritten(), view) &&
          overlaps(view) && inBlock && op->isBeforeInBlock(inBlock) &&
          (!found || inBlock->isBeforeInBlock(found)))
        found = inBlock;
    }
  }
  return found;
}

/// Whether the bytes of a temporary buffer hold what was written to it; of
/// those that are read in parts only whether some do.
void FunctionVerifier::checkContent(Operation *op, Value buffer,
                                    const Bytes &of) {
  if (!isStraight || !isTemporary(of))
    return;
  Value root = getRootBuffer(buffer);
  Bytes missing{of.memory, of.begin, of.begin};
  Operation *writer = nullptr;
  bool hasSome = false;
  contents[of.memory].visit(
      of.begin, of.end, [&](int64_t begin, int64_t end, const Content *piece) {
        if (piece && piece->buffer == root) {
          hasSome = true;
          return missing.begin == missing.end;
        }
        if (missing.begin == missing.end)
          missing.begin = begin;
        else if (missing.end != begin)
          return false;
        missing.end = end;
        if (piece)
          writer = piece->writer;
        return true;
      });
  if (missing.begin == missing.end || (!of.isExact && hasSome) ||
      !verifier.isNew(op))
    return;
  InFlightDiagnostic diagnostic = report(op);
  bool sends = isa<CollectiveOp, StartOp>(op);
  diagnostic << (sends ? "sends " : "reads ") << describe(missing);
  if (writer) {
    diagnostic << ", which held something else when another buffer was "
                  "written there; expected places of their own, or this op "
                  "in front of that";
    diagnostic.attachNote(writer->getLoc()) << "written over here";
    return;
  }
  diagnostic << ", which nothing has written; expected this op behind all "
                "that write them";
  if (Operation *first = firstWriterBehind(op, root, [&](Value view) {
        return bytesOf(view).overlaps(missing);
      }))
    diagnostic.attachNote(first->getLoc()) << "they are written here";
}

void FunctionVerifier::read(Operation *op, Value buffer, const Bytes &of) {
  checkBusy(op, of, false);
  checkContent(op, buffer, of);
}

void FunctionVerifier::write(Operation *op, Value buffer, const Bytes &of) {
  checkBusy(op, of, true);
  if (isStraight && isTemporary(of))
    contents[of.memory].set(of.begin, of.end, {getRootBuffer(buffer), op});
  // Callers believe what the list says.
  auto argument = dyn_cast<BlockArgument>(getRootBuffer(buffer));
  auto readCount = function->getAttrOfType<IntegerAttr>(kReadCountAttr);
  if (argument && readCount && !entry &&
      argument.getOwner() == &function.front() &&
      argument.getArgNumber() < readCount.getInt() && verifier.isNew(op))
    report(op) << "writes argument " << argument.getArgNumber()
               << ", one of the " << readCount.getInt()
               << " that the function only reads; expected it among those that "
                  "it writes";
}

/// The bytes of an operand of a product: those up to the last element that it
/// reaches, and all of them or some.
static Bytes narrow(MatmulOp op, unsigned operand, Bytes of) {
  int64_t m = op.getDims()[0], n = op.getDims()[1], k = op.getDims()[2];
  int64_t rows = operand == 0   ? (op.getTransposeA() ? k : m)
                 : operand == 1 ? (op.getTransposeB() ? n : k)
                                : m;
  int64_t columns = operand == 0   ? (op.getTransposeA() ? m : k)
                    : operand == 1 ? (op.getTransposeB() ? k : n)
                                   : n;
  int64_t last = (rows - 1) * op.getLeading()[operand] + columns;
  int64_t count = rows * columns;
  ArrayRef<int64_t> batch = op.getBatch().value_or(ArrayRef<int64_t>());
  for (auto [i, size] : llvm::enumerate(batch)) {
    last += (size - 1) * (*op.getStrides())[operand * batch.size() + i];
    count *= size;
  }
  if (!of.isExact)
    return of;
  auto type = cast<MemRefType>(op->getOperand(operand).getType());
  of.end = of.begin + last * (getBytes(type) / type.getNumElements());
  of.isExact = count == last;
  return of;
}

void FunctionVerifier::access(AccessOpInterface op) {
  if (auto matmul = dyn_cast<MatmulOp>(op.getOperation())) {
    for (unsigned operand = 0; operand < 3; ++operand) {
      Value buffer = op->getOperand(operand);
      Bytes of = narrow(matmul, operand, bytesOf(buffer));
      if (operand < 2 || matmul.getAccumulate())
        read(op, buffer, of);
      if (operand == 2)
        write(op, buffer, of);
    }
    return;
  }
  for (Value buffer : op.getRead())
    read(op, buffer);
  auto grouped = dyn_cast<GroupedMatmulOp>(op.getOperation());
  for (Value buffer : op.getWritten()) {
    if (grouped && grouped.getAccumulate())
      read(op, buffer);
    write(op, buffer);
  }
}

void FunctionVerifier::call(exec::CallOp op) {
  for (Value buffer : op.getRead())
    read(op, buffer);
  auto callee = verifier.symbols.lookup<func::FuncOp>(op.getCallee());
  auto size =
      callee ? callee->getAttrOfType<IntegerAttr>(kScratchAttr) : IntegerAttr();
  if (op.getScratch() && size && size.getInt() > 0) {
    int64_t begin = *op.getScratch();
    Bytes scratch{kScratch, begin, begin + size.getInt()};
    checkBusy(op, scratch, true, "has scratch memory in ");
    for (Value buffer : op->getOperands())
      if (Bytes of = bytesOf(buffer);
          of.overlaps(scratch) && verifier.isNew(op)) {
        of.begin = std::max(of.begin, scratch.begin);
        of.end = std::min(of.end, scratch.end);
        report(op) << "hands over " << describe(of)
                   << ", which are scratch memory of '" << op.getCallee()
                   << "', too; expected another place for one of the two";
      }
    if (isStraight)
      contents[kScratch].set(scratch.begin, scratch.end, {Value(), op});
  }
  for (Value buffer : op.getWritten())
    write(op, buffer);
  if (!callee || callee.isExternal() ||
      callee.getNumArguments() != op->getNumOperands())
    return;

  // Arguments that are handed the same bytes are one memory there.
  ArgumentPlaces places(op->getNumOperands());
  SmallVector<std::pair<Bytes, int>> sorted;
  for (auto [i, buffer] : llvm::enumerate(op->getOperands())) {
    places[i] = {static_cast<int>(i), 0};
    Bytes of = bytesOf(buffer);
    if (of.memory == kAnything)
      places[i].first = kUnknownPlace;
    else
      sorted.emplace_back(of, i);
  }
  llvm::sort(sorted, [](const auto &a, const auto &b) {
    return std::tuple(a.first.memory, a.first.begin, a.second) <
           std::tuple(b.first.memory, b.first.begin, b.second);
  });
  bool isShared = false;
  for (size_t first = 0; first < sorted.size();) {
    // A run of bytes, each of which follows or overlaps one of those before.
    Bytes run = sorted[first].first;
    size_t last = first + 1;
    for (; last < sorted.size() && sorted[last].first.overlaps(run); ++last)
      run.end = std::max(run.end, sorted[last].first.end);
    int name = sorted[first].second;
    for (size_t i = first; i < last; ++i)
      name = std::min(name, sorted[i].second);
    for (size_t i = first; i < last && last > first + 1; ++i) {
      places[sorted[i].second] = {name, sorted[i].first.begin - run.begin};
      isShared = true;
    }
    first = last;
  }
  verifier.ask(callee, std::move(places), isShared ? op : nullptr);
}

//===----------------------------------------------------------------------===//
// Starts and waits
//===----------------------------------------------------------------------===//

void FunctionVerifier::start(Operation *op, Value sent, Value received,
                             Value handle) {
  if (sent)
    read(op, sent);
  if (received) {
    Bytes of = bytesOf(received);
    checkBusy(op, of, true);
    // What comes is not there before the wait.
    if (isStraight && isTemporary(of))
      contents[of.memory].erase(of.begin, of.end);
  }
  write(op, handle);

  unsigned number = transfers.size();
  UnderWay transfer{op, {}};
  if (sent)
    transfer.uses.emplace_back(sent, Use::Send);
  if (received)
    transfer.uses.emplace_back(received, Use::Receive);
  transfer.uses.emplace_back(handle, Use::Handle);
  bool isAnywhere = false;
  for (auto [buffer, use] : transfer.uses) {
    Bytes of = bytesOf(buffer);
    isAnywhere |= of.memory == kAnything;
    busy[of.memory].change(of.begin, of.end, [&, use = use](Users &users) {
      users.emplace_back(number, use);
      return true;
    });
  }
  ++watched;
  watchedAnywhere += isAnywhere;
  transfers.push_back(std::move(transfer));
  open[keyOf(handle)] = number;
  lost.erase(keyOf(handle));
}

void FunctionVerifier::wait(WaitOp op) {
  HandleKey key = keyOf(op.getRead()[0]);
  auto found = open.find(key);
  if (found == open.end()) {
    if (lost.contains(key) || !verifier.isNew(op))
      return;
    InFlightDiagnostic diagnostic = report(op);
    auto before = waited.find(key);
    if (before == waited.end()) {
      diagnostic << "waits for a transfer that nothing in front of it in its "
                    "function has started; expected the start in front of the "
                    "wait, in the same block";
      return;
    }
    diagnostic << "waits for a transfer that was waited for already; expected "
                  "one wait for each start";
    diagnostic.attachNote(before->second->getLoc()) << "waited for here";
    return;
  }
  unsigned number = found->second;
  open.erase(found);
  forget(number);
  waited[key] = op;
  UnderWay &transfer = transfers[number];
  Operation *start = transfer.start;
  if (start->getBlock() != op->getBlock() && verifier.isNew(op)) {
    InFlightDiagnostic diagnostic = report(op);
    diagnostic << "waits for a transfer that was started in another block; "
                  "expected the wait in the block of the start, in front of "
                  "the op that this one is in";
    diagnostic.attachNote(start->getLoc())
        << nameOf(start) << " is started here";
  }
  // The buffers are those of the start.
  Value sent, received;
  for (auto [buffer, use] : transfer.uses) {
    if (use == Use::Send)
      sent = buffer;
    else if (use == Use::Receive)
      received = buffer;
  }
  Value waitedSent = op.getRead().size() > 1 ? op.getRead()[1] : Value();
  Value waitedReceived = op.getWritten().empty() ? Value() : op.getWritten()[0];
  for (auto [ours, theirs, what] :
       {std::tuple(waitedSent, sent, "sent"),
        std::tuple(waitedReceived, received, "received into")}) {
    if (ours == theirs || (ours && theirs && bytesOf(ours) == bytesOf(theirs) &&
                           bytesOf(ours).memory != kAnything))
      continue;
    if (!verifier.isNew(op))
      break;
    InFlightDiagnostic diagnostic = report(op);
    diagnostic << "has ";
    if (ours)
      diagnostic << describe(bytesOf(ours));
    else
      diagnostic << "no buffer";
    diagnostic << " as what is " << what << ", expected ";
    if (theirs)
      diagnostic << describe(bytesOf(theirs)) << ", as the start has";
    else
      diagnostic << "none, as the start has none";
    diagnostic.attachNote(start->getLoc())
        << nameOf(start) << " is started here";
    break;
  }
  if (received) {
    Bytes of = bytesOf(received);
    if (isStraight && isTemporary(of))
      contents[of.memory].set(of.begin, of.end, {getRootBuffer(received), op});
  }
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

void FunctionVerifier::visitOp(Operation *op) {
  if (auto collective = dyn_cast<CollectiveOp>(op);
      collective && collective.isStarted())
    return start(op, collective.getRead()[0], collective.getWritten()[0],
                 collective.getWritten()[1]);
  if (auto pair = dyn_cast<StartOp>(op)) {
    bool sends = pair.getKind() == Pair::Send;
    return start(op, sends ? pair.getBuffer() : Value(),
                 sends ? Value() : pair.getBuffer(), pair.getHandle());
  }
  if (auto waitOp = dyn_cast<WaitOp>(op))
    return wait(waitOp);
  if (auto callOp = dyn_cast<exec::CallOp>(op))
    return call(callOp);
  if (auto accessOp = dyn_cast<AccessOpInterface>(op))
    return access(accessOp);
  if (op->getNumRegions() > 0) {
    // What is overwritten at the end of an iteration may be missed in the next.
    bool repeats = isPlaced && !isRepeated && isa<scf::ForOp>(op);
    for (bool again : {false, true}) {
      if (again && !repeats)
        break;
      isRepeated |= again;
      for (Region &region : op->getRegions())
        for (Block &block : region)
          visitBlock(block);
    }
    if (repeats)
      isRepeated = false;
    return;
  }
  // What else there is may read and write what it is given.
  if (isPure(op) || op->hasTrait<OpTrait::IsTerminator>() || isa<BufferOp>(op))
    return;
  for (Value operand : op->getOperands())
    if (isa<MemRefType>(operand.getType()))
      write(op, operand);
}

void FunctionVerifier::visitBlock(Block &block) {
  for (Operation &op : block)
    visitOp(&op);
  // Those that were started in it, and are not waited for.
  SmallVector<unsigned> left;
  for (auto [key, number] : open)
    if (transfers[number].start->getBlock() == &block)
      left.push_back(number);
  llvm::sort(left);
  for (unsigned number : left) {
    UnderWay &transfer = transfers[number];
    Operation *op = transfer.start;
    if (transfer.isWatched && verifier.isNew(op)) {
      InFlightDiagnostic diagnostic = report(op);
      diagnostic << "starts " << nameOf(op)
                 << ", which is under way when its block ends; expected an "
                    "exec.wait for its handle in the same block";
      if (!block.empty())
        diagnostic.attachNote(block.back().getLoc()) << "the block ends here";
    }
    forget(number);
    HandleKey key = keyOf(transfer.uses.back().first);
    open.erase(key);
    // A wait behind the block is not told of, too.
    lost.insert(key);
  }
  // Loops would fill the list again and again.
  if (open.empty())
    transfers.clear();
}

void FunctionVerifier::run() {
  entry = function->getAttrOfType<ArrayAttr>(kEntryAttr);
  if (entry && entry.size() != function.getNumArguments())
    entry = nullptr;
  for (auto [argument, place] :
       llvm::zip_equal(function.getArguments(), visit.places)) {
    auto type = dyn_cast<MemRefType>(argument.getType());
    if (!type || place.first == kUnknownPlace)
      continue;
    bytes[argument] = {kArguments + place.first, place.second,
                       place.second + getBytes(type)};
  }
  function.walk([&](Operation *op) {
    if (auto buffer = dyn_cast<BufferOp>(op))
      isPlaced |= buffer.getOffset().has_value();
    for (Region &region : op->getRegions())
      isStraight &= region.empty() ||
                    (region.hasOneBlock() && isa<func::FuncOp, scf::ForOp>(op));
  });
  for (Block &block : function.getBody())
    visitBlock(block);
}

void Verifier::ask(func::FuncOp function, ArgumentPlaces places,
                   Operation *call) {
  if (known.emplace(function, places).second)
    visits.push_back({function, std::move(places), call});
}

LogicalResult Verifier::run() {
  // Layers are seen with their callers.
  llvm::DenseSet<Operation *> called;
  module.walk([&](exec::CallOp op) {
    if (auto callee = symbols.lookup<func::FuncOp>(op.getCallee()))
      called.insert(callee);
  });
  auto runAll = [&] {
    for (; !visits.empty(); visits.pop_front()) {
      called.erase(visits.front().function);
      FunctionVerifier(*this, visits.front()).run();
    }
  };
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (!function.isExternal() && !called.contains(function))
      ask(function, placesOf(function), nullptr);
  runAll();
  // What is only called by itself.
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (!function.isExternal() && called.contains(function)) {
      ask(function, placesOf(function), nullptr);
      runAll();
    }
  return failure(isWrong);
}

namespace {
struct ExecVerifyRaces : sheaf::impl::ExecVerifyRacesBase<ExecVerifyRaces> {
  void runOnOperation() override {
    if (failed(Verifier(getOperation()).run()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
