//===- Program.cpp - Host code as data ------------------------------------===//

#include "lowering/ExecToLLVM/Program.h"

using namespace mlir;
using namespace sheaf;

namespace {
/// Writes the loop that carries out instructions.
class LoopWriter {
public:
  LoopWriter(ModuleOp module)
      : loc(module.getLoc()), context(module.getContext()), builder(context),
        ptr(LLVM::LLVMPointerType::get(context)), i64(builder.getI64Type()) {
    builder.setInsertionPointToEnd(module.getBody());
  }
  void run(int64_t mostPointers);

private:
  Location loc;
  MLIRContext *context;
  OpBuilder builder;
  Type ptr, i64;
  LLVM::LLVMFuncOp function;

  Value number(int64_t value) {
    return LLVM::ConstantOp::create(builder, loc, i64, value);
  }
  Value element(Type type, Value base, LLVM::GEPArg index) {
    return LLVM::GEPOp::create(builder, loc, ptr, type, base, ArrayRef(index));
  }
  Value load(Type type, Value address) {
    return LLVM::LoadOp::create(builder, loc, type, address);
  }
  Block *block(TypeRange types = {}) {
    Region &body = function.getBody();
    return builder.createBlock(&body, body.end(), types,
                               SmallVector<Location>(types.size(), loc));
  }
  Value fromTable(StringRef name, Value index) {
    return load(ptr,
                element(ptr, LLVM::AddressOfOp::create(builder, loc, ptr, name),
                        index));
  }
  void call(Value callee, ValueRange arguments) {
    auto type =
        LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                    SmallVector<Type>(arguments.getTypes()));
    SmallVector<Value> operands{callee};
    llvm::append_range(operands, arguments);
    LLVM::CallOp::create(builder, loc, type, operands);
  }
};
} // namespace

/// Field `index` of an array of pointers.
static Value pointerIn(OpBuilder &builder, Location loc, Value base,
                       int32_t index) {
  Type ptr = LLVM::LLVMPointerType::get(builder.getContext());
  Value address = LLVM::GEPOp::create(builder, loc, ptr, ptr, base,
                                      ArrayRef<LLVM::GEPArg>{index});
  return LLVM::LoadOp::create(builder, loc, ptr, address);
}

/// The handle of a transfer that is started.
static Value start(OpBuilder &builder, Location loc, Value context,
                   Value communicator, Value description, Value send,
                   Value receive) {
  Type ptr = LLVM::LLVMPointerType::get(builder.getContext()),
       i64 = builder.getI64Type();
  return LLVM::CallOp::create(
             builder, loc,
             LLVM::LLVMFunctionType::get(i64, {ptr, ptr, ptr, ptr}),
             ValueRange{pointerIn(builder, loc, communicator, kStart), context,
                        description, send, receive})
      .getResult();
}

static void wait(OpBuilder &builder, Location loc, Value context,
                 Value communicator, Value handle) {
  MLIRContext *mlirContext = builder.getContext();
  Type ptr = LLVM::LLVMPointerType::get(mlirContext),
       i64 = builder.getI64Type();
  LLVM::CallOp::create(builder, loc,
                       LLVM::LLVMFunctionType::get(
                           LLVM::LLVMVoidType::get(mlirContext), {ptr, i64}),
                       ValueRange{pointerIn(builder, loc, communicator, kWait),
                                  context, handle});
}

void sheaf::transfer(OpBuilder &builder, Location loc, Value context,
                     Value description, Value send, Value receive) {
  Value communicator = pointerIn(builder, loc, context, kCommunicator);
  Value handle =
      start(builder, loc, context, communicator, description, send, receive);
  wait(builder, loc, context, communicator, handle);
}

void sheaf::transferRows(OpBuilder &builder, Location loc, Value context,
                         Value description, Value buffers) {
  Type ptr = LLVM::LLVMPointerType::get(builder.getContext()),
       i64 = builder.getI64Type();
  Value communicator = pointerIn(builder, loc, context, kCommunicator);
  Value handle =
      LLVM::CallOp::create(
          builder, loc, LLVM::LLVMFunctionType::get(i64, {ptr, ptr, ptr}),
          ValueRange{pointerIn(builder, loc, communicator, kStartRows), context,
                     description, buffers})
          .getResult();
  wait(builder, loc, context, communicator, handle);
}

void sheaf::startTransfer(OpBuilder &builder, Location loc, Value context,
                          Value description, Value send, Value receive,
                          Value handle) {
  Value communicator = pointerIn(builder, loc, context, kCommunicator);
  Value started =
      start(builder, loc, context, communicator, description, send, receive);
  LLVM::StoreOp::create(builder, loc, started, handle);
}

void sheaf::waitForTransfer(OpBuilder &builder, Location loc, Value context,
                            Value handle) {
  Value communicator = pointerIn(builder, loc, context, kCommunicator);
  wait(builder, loc, context, communicator,
       LLVM::LoadOp::create(builder, loc, builder.getI64Type(), handle));
}

void LoopWriter::run(int64_t mostPointers) {
  function = LLVM::LLVMFuncOp::create(
      builder, loc, kRunName,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                  {ptr, ptr, ptr, ptr, ptr}),
      LLVM::Linkage::Internal);
  Block *entry = function.addEntryBlock(builder);
  Value sheafContext = entry->getArgument(0), buffers = entry->getArgument(1);
  Value end = entry->getArgument(4);
  Block *head = block({ptr}), *read = block(), *next = block({i64}),
        *resolve = block();
  Block *dispatch = block(), *launch = block(), *matmul = block(),
        *copy = block(), *collective = block(), *grouped = block();
  Block *starts = block(), *waits = block(), *rows = block(), *marks = block();
  Block *callFunction = block(), *done = block(), *leave = block();

  builder.setInsertionPointToStart(entry);
  Value table =
      LLVM::AllocaOp::create(builder, loc, ptr, ptr, number(mostPointers));
  Value scratch = LLVM::AllocaOp::create(builder, loc, ptr, ptr, number(1));
  LLVM::StoreOp::create(builder, loc, entry->getArgument(2), scratch);
  Value device = load(ptr, element(ptr, sheafContext, kDevice));
  LLVM::BrOp::create(builder, loc, entry->getArgument(3), head);

  builder.setInsertionPointToStart(head);
  Value at = head->getArgument(0);
  LLVM::CondBrOp::create(
      builder, loc,
      LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, at, end),
      leave, read);

  builder.setInsertionPointToStart(read);
  Value word = load(i64, at);
  Value operation = LLVM::AndOp::create(builder, loc, word, number(255));
  Value count = LLVM::LShrOp::create(builder, loc, word, number(8));
  Value what = load(i64, element(i64, at, 1));
  Value pointers = element(i64, at, 2);
  LLVM::BrOp::create(builder, loc, number(0), next);

  builder.setInsertionPointToStart(next);
  Value index = next->getArgument(0);
  LLVM::CondBrOp::create(
      builder, loc,
      LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, index, count),
      dispatch, resolve);

  builder.setInsertionPointToStart(resolve);
  Value pointer = load(i64, element(i64, pointers, index));
  Value base = LLVM::LShrOp::create(builder, loc, pointer, number(kOffsetBits));
  Value offset = LLVM::AndOp::create(builder, loc, pointer,
                                     number((int64_t{1} << kOffsetBits) - 1));
  Value isScratch = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq,
                                         base, number(0));
  Value slot = LLVM::SelectOp::create(
      builder, loc, isScratch, scratch,
      element(ptr, buffers,
              LLVM::SubOp::create(builder, loc, base, number(1)).getResult()));
  LLVM::StoreOp::create(builder, loc,
                        element(builder.getI8Type(), load(ptr, slot), offset),
                        element(ptr, table, index));
  LLVM::BrOp::create(
      builder, loc,
      ValueRange(
          LLVM::AddOp::create(builder, loc, index, number(1)).getResult()),
      next);

  builder.setInsertionPointToStart(dispatch);
  auto code = [](Instruction instruction) {
    return APInt(64, static_cast<uint64_t>(instruction));
  };
  LLVM::SwitchOp::create(
      builder, loc, operation, callFunction, ValueRange(),
      ArrayRef<APInt>{code(Instruction::Launch), code(Instruction::Matmul),
                      code(Instruction::Copy), code(Instruction::Collective),
                      code(Instruction::GroupedMatmul),
                      code(Instruction::Start), code(Instruction::Wait),
                      code(Instruction::Rows), code(Instruction::Mark)},
      BlockRange({launch, matmul, copy, collective, grouped, starts, waits,
                  rows, marks}),
      SmallVector<ValueRange>(9));
  auto operand = [&](int i) { return load(ptr, element(ptr, table, i)); };
  auto callDevice = [&](Block *block, DeviceField field,
                        function_ref<SmallVector<Value>()> arguments) {
    builder.setInsertionPointToStart(block);
    Value callee = load(ptr, element(ptr, device, field));
    call(callee, arguments());
    LLVM::BrOp::create(builder, loc, ValueRange(), done);
  };
  callDevice(launch, kLaunch, [&]() -> SmallVector<Value> {
    return {sheafContext, fromTable(kDescriptionsName, what), table};
  });
  callDevice(matmul, kMatmul, [&]() -> SmallVector<Value> {
    return {sheafContext, fromTable(kDescriptionsName, what), operand(0),
            operand(1), operand(2)};
  });
  callDevice(grouped, kGroupedMatmul, [&]() -> SmallVector<Value> {
    return {sheafContext, fromTable(kDescriptionsName, what), table};
  });
  callDevice(copy, kCopy, [&]() -> SmallVector<Value> {
    return {sheafContext, operand(1), operand(0), what};
  });
  callDevice(marks, kMark,
             [&]() -> SmallVector<Value> { return {sheafContext, what}; });
  builder.setInsertionPointToStart(collective);
  transfer(builder, loc, sheafContext, fromTable(kDescriptionsName, what),
           operand(0), operand(1));
  LLVM::BrOp::create(builder, loc, ValueRange(), done);
  builder.setInsertionPointToStart(starts);
  startTransfer(builder, loc, sheafContext, fromTable(kDescriptionsName, what),
                operand(0), operand(1), operand(2));
  LLVM::BrOp::create(builder, loc, ValueRange(), done);
  builder.setInsertionPointToStart(waits);
  waitForTransfer(builder, loc, sheafContext, operand(0));
  LLVM::BrOp::create(builder, loc, ValueRange(), done);
  builder.setInsertionPointToStart(rows);
  transferRows(builder, loc, sheafContext, fromTable(kDescriptionsName, what),
               table);
  LLVM::BrOp::create(builder, loc, ValueRange(), done);
  builder.setInsertionPointToStart(callFunction);
  Value callee = fromTable(kFunctionsName, what);
  Value last = LLVM::SubOp::create(builder, loc, count, number(1));
  call(callee, {sheafContext, table, load(ptr, element(ptr, table, last))});
  LLVM::BrOp::create(builder, loc, ValueRange(), done);

  builder.setInsertionPointToStart(done);
  LLVM::BrOp::create(builder, loc, ValueRange(element(i64, pointers, count)),
                     head);
  builder.setInsertionPointToStart(leave);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
}

void sheaf::addProgramLoop(ModuleOp module, int64_t mostPointers) {
  LoopWriter(module).run(mostPointers);
}

void sheaf::addAddressTable(ModuleOp module, StringRef name,
                            ArrayRef<std::string> symbols) {
  MLIRContext *context = module.getContext();
  Location loc = module.getLoc();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto ptr = LLVM::LLVMPointerType::get(context);
  auto type = LLVM::LLVMArrayType::get(ptr, symbols.size());
  auto global =
      LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true,
                             LLVM::Linkage::Internal, name, Attribute());
  builder.createBlock(&global.getInitializerRegion());
  Value value = LLVM::UndefOp::create(builder, loc, type);
  for (auto [i, symbol] : llvm::enumerate(symbols))
    value = LLVM::InsertValueOp::create(
        builder, loc, value,
        LLVM::AddressOfOp::create(builder, loc, ptr, symbol),
        ArrayRef<int64_t>(i));
  LLVM::ReturnOp::create(builder, loc, value);
}
