//===- Partition.cpp - Write what one device does -------------------------===//

#include "mlir/IR/Remarks.h"
#include "passes/sharding/Explain.h"
#include "passes/sharding/Origins.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/Plan.h"
#include "passes/sharding/Ring.h"
#include "passes/sharding/Verify.h"
#include "support/SignatureAttrs.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>
#include <deque>

namespace sheaf {
#define GEN_PASS_DEF_DISTPARTITION
#include "passes/sharding/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

namespace {
class Partitioner {
public:
  Partitioner(ModuleOp module, MeshInfo &mesh, Timing timing, bool keysGoRound)
      : module(module), mesh(mesh), plan(module, mesh, timing, keysGoRound),
        keysGoRound(keysGoRound), builder(module.getContext()),
        annotations(module, mesh) {}

  LogicalResult run() {
    plan.build();
    SmallVector<func::FuncOp> old;
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (!function.isExternal())
        old.push_back(function);
    for (func::FuncOp function : old)
      if (failed(rewrite(function)))
        return failure();
    for (func::FuncOp function : old)
      function.erase();
    Annotations::erase(module);
    return success();
  }

private:
  ModuleOp module;
  MeshInfo &mesh;
  Plan plan;
  /// Whether attention is asked for around a ring.
  bool keysGoRound;
  OpBuilder builder;
  /// What users and strategies wrote, behind each axis.
  Annotations annotations;
  llvm::DenseMap<std::pair<Value, int>,
                 std::unique_ptr<llvm::SetVector<StringRef>>>
      sumOrigins;

  struct Local {
    Value value;
    Placement placement;
  };
  llvm::DenseMap<Value, Local> locals;
  /// Copies in other placements, each valid in the block where it was made.
  struct Copy {
    Block *block;
    Placement placement;
    Value value;
  };
  llvm::DenseMap<Value, SmallVector<Copy>> copies;

  /// `avoid` is the annotation without which a value would not be moved, if
  /// any.
  DictionaryAttr reason(Operation *op, StringRef kind, const Twine &text,
                        const Twine &avoid = "") {
    NamedAttrList fields;
    fields.set("kind", builder.getStringAttr(kind));
    fields.set("text", builder.getStringAttr(text));
    fields.set("op", builder.getStringAttr(op->getName().getStringRef()));
    fields.set("loc", builder.getStringAttr(placeOf(op->getLoc())));
    if (std::string annotation = avoid.str(); !annotation.empty())
      fields.set("avoid", builder.getStringAttr(annotation));
    return fields.getDictionary(builder.getContext());
  }

  /// A sharding as users write it.
  std::string written(const Placement &placement) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << mesh.print(placement.sharding);
    return text;
  }

  /// How a user asks for operand `i` to be brought to where an op needs it.
  std::string asked(const Placement &wanted, Type type, unsigned i) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << "to ask for it, write '%y = dist.constraint %x "
       << StringRef(written(wanted)).drop_until([](char c) { return c == '<'; })
       << " : " << type << "' before it, where %x is its operand " << i
       << ", and give it %y";
    return text;
  }

  /// The axes that are somewhere else before than after.
  SmallVector<int> movedBetween(const Placement &from, const Placement &to) {
    SmallVector<int> moved;
    for (int atom = 0; atom < mesh.getNumAtoms(); ++atom) {
      auto place = [&](const Placement &placement) {
        for (auto [d, dim] : llvm::enumerate(placement.sharding.dims))
          if (llvm::is_contained(dim.axes, atom))
            return static_cast<int>(d);
        return placement.partial >> atom & 1 ? -1 : -2;
      };
      if (place(from) != place(to))
        moved.push_back(atom);
    }
    return moved;
  }

  /// Adds to a reason why a value is moved for an op the annotations behind the
  /// axes that move, as far as the value and what the op relates it to have
  /// them. `returned` is the number of the result that an entry returns so; -1
  /// elsewhere.
  DictionaryAttr withAnnotations(DictionaryAttr why, Operation *op, Value value,
                                 ArrayRef<int> moved, int returned = -1) {
    if (!why || annotations.empty())
      return why;
    llvm::SetVector<StringRef> list;
    std::deque<std::string> owned;
    auto add = [&](ValueRange values) {
      for (Value value : values) {
        annotations.addTo(list, value, moved);
        for (int atom : moved)
          list.insert_range(behindSum(value, atom));
      }
    };
    if (auto constraint = dyn_cast<dist::ConstraintOp>(op)) {
      owned.push_back(Site{Site::Op, op, 0}.describe(""));
      list.insert(owned.back());
    }
    if (returned >= 0)
      for (int atom : moved) {
        owned.push_back(Site{Site::Result, op->getParentOp(),
                             static_cast<unsigned>(returned)}
                            .describe(mesh.nameOf(atom)));
        list.insert(owned.back());
      }
    // What a terminator, a call or a loop is given has nothing to do with the
    // rest.
    auto take = [&](ValueRange targets) {
      for (auto [operand, target] : llvm::zip(op->getOperands(), targets))
        if (operand == value)
          add(target);
    };
    add(value);
    if (auto call = dyn_cast<func::CallOp>(op)) {
      if (func::FuncOp callee = plan.calleeOf(call))
        take(callee.getArguments());
    } else if (auto loop = dyn_cast<nn::MicrobatchesOp>(op)) {
      take(loop.getBody().getArguments().drop_front());
    } else if (auto loop = dyn_cast<nn::MicrobatchesOp>(op->getParentOp());
               loop && isa<nn::YieldOp>(op)) {
      take(loop.getBody().getArguments().drop_front(1 +
                                                    loop.getSliced().size()));
    } else if (isa<dist::ManualOp>(op)) {
      owned.push_back(Site{Site::Op, op, 0}.describe(""));
      list.insert(owned.back());
    } else if (!isa<func::ReturnOp>(op)) {
      add(op->getOperands());
      add(op->getResults());
    }
    if (list.empty())
      return why;
    NamedAttrList fields(why);
    fields.set("annotations", builder.getStrArrayAttr(list.getArrayRef()));
    return fields.getDictionary(builder.getContext());
  }

  /// The annotations behind a sum over an axis that was put off: those of where
  /// it was computed.
  const llvm::SetVector<StringRef> &behindSum(Value value, int atom) {
    auto key = std::make_pair(value, atom);
    if (auto known = sumOrigins.find(key); known != sumOrigins.end())
      return *known->second;
    // A loop's accumulator leads back to itself.
    sumOrigins[key] = std::make_unique<llvm::SetVector<StringRef>>();
    llvm::SetVector<StringRef> list;
    Operation *op = value.getDefiningOp();
    auto from = [&](Value source) {
      if (plan.partialAfter(source) >> atom & 1)
        list.insert_range(behindSum(source, atom));
    };
    if (op && plan.partialAt(value) >> atom & 1) {
      unsigned i = cast<OpResult>(value).getResultNumber();
      if (auto call = dyn_cast<func::CallOp>(op)) {
        if (func::FuncOp callee = plan.calleeOf(call))
          from(callee.front().getTerminator()->getOperand(i));
      } else if (auto loop = dyn_cast<nn::MicrobatchesOp>(op)) {
        from(loop.getBody().front().getTerminator()->getOperand(i));
      } else {
        for (Value operand : op->getOperands()) {
          annotations.addTo(list, operand, {atom});
          from(operand);
        }
      }
    }
    auto &entry = sumOrigins[key];
    *entry = std::move(list);
    return *entry;
  }

  std::string axesText(AtomSet set) {
    std::string text;
    for (int atom : atomsIn(set))
      text += (text.empty() ? "" : ", ") + mesh.nameOf(atom);
    return text;
  }
  std::string text(const Placement &placement) {
    std::string result = "[";
    for (auto [i, dim] : llvm::enumerate(placement.sharding.dims)) {
      result += i ? ", " : "";
      result += dim.axes.empty() ? "-" : axesText(setOf(dim.axes));
    }
    result += "]";
    if (placement.partial)
      result += " partial over " + axesText(placement.partial);
    return result;
  }

  /// A constant of any shape, in a placement.
  Value constant(Value value, const Placement &placement) {
    auto op = value.getDefiningOp<nn::ConstantOp>();
    auto elements = cast<SplatElementsAttr>(op.getValue());
    RankedTensorType type = mesh.localType(tensorOf(value), placement.sharding);
    Attribute element = elements.getSplatValue<Attribute>();
    Value local =
        nn::ConstantOp::create(builder, op.getLoc(),
                               cast<ElementsAttr>(DenseElementsAttr::get(
                                   type, ArrayRef<Attribute>(element))));
    if (Attribute role = op->getAttr(nn::kRoleAttr))
      local.getDefiningOp()->setAttr(nn::kRoleAttr, role);
    return plan.getResharder().convert(
        builder, op.getLoc(), local, tensorOf(value), {placement.sharding, 0},
        placement, dist::Reduction::Sum, nullptr, op->getAttr(nn::kRoleAttr));
  }

  /// Says why a collective is there; asked where there is one.
  using Why = llvm::function_ref<DictionaryAttr()>;

  /// The role of what brings a value to its user: the user's, or, for a
  /// terminator, which has none, that of the op that made the value.
  Attribute roleFor(Operation *user, Value value) {
    Attribute role = user->getAttr(nn::kRoleAttr);
    return role ? role : roleOf(value);
  }

  /// The role of what made a value: inside of a layer or loop for what that
  /// gives.
  Attribute roleOf(Value value) {
    Operation *from = value.getDefiningOp();
    if (auto call = dyn_cast_or_null<func::CallOp>(from))
      if (func::FuncOp callee = plan.calleeOf(call))
        if (Attribute role = roleOf(callee.front().getTerminator()->getOperand(
                cast<OpResult>(value).getResultNumber())))
          return role;
    if (auto loop = dyn_cast_or_null<nn::MicrobatchesOp>(from))
      return roleOf(loop.getBody().front().getTerminator()->getOperand(
          cast<OpResult>(value).getResultNumber()));
    return from ? from->getAttr(nn::kRoleAttr) : nullptr;
  }

  /// The value in a placement, for `user`.
  /// `returned` as for `withAnnotations`.
  Value get(Value value, const Placement &placement, Operation *user, Why why,
            bool keep = true, int returned = -1) {
    if (isFree(value))
      return constant(value, placement);
    Local &local = locals.find(value)->second;
    if (local.placement == placement)
      return local.value;
    Block *block = builder.getInsertionBlock();
    if (keep)
      for (Copy &copy : copies[value])
        if (copy.block == block && copy.placement == placement)
          return copy.value;
    Value result = plan.getResharder().convert(
        builder, user->getLoc(), local.value, tensorOf(value), local.placement,
        placement, dist::Reduction::Sum,
        withAnnotations(why(), user, value,
                        movedBetween(local.placement, placement), returned),
        roleFor(user, value));
    if (keep)
      copies[value].push_back({block, placement, result});
    return result;
  }

  /// Notes a value as it was made and brings it to where the plan wants it.
  void define(Value value, Value local, const Placement &made,
              dist::Reduction kind, Operation *op, Why why) {
    Placement wanted = plan.placementOf(value);
    Value result = local;
    if (!(made == wanted))
      result = plan.getResharder().convert(
          builder, op->getLoc(), local, tensorOf(value), made, wanted, kind,
          withAnnotations(why(), op, value, movedBetween(made, wanted)),
          roleOf(value));
    locals[value] = {result, wanted};
  }

  //===--------------------------------------------------------------------===//
  // Functions
  //===--------------------------------------------------------------------===//

  /// What a function gives for what it returns.
  Placement returnedAs(func::FuncOp function, unsigned i) {
    Value value = function.front().getTerminator()->getOperand(i);
    if (auto given = function.getResultAttrOfType<dist::ShardingAttr>(
            i, dist::kShardingAttr))
      return {mesh.parse(given), 0};
    if (isFree(value))
      return {ValueSharding(tensorOf(value).getRank()), 0};
    Placement placement = plan.placementOf(value);
    // No buffer of an entry has another order.
    if (function.isPublic())
      for (DimSharding &dim : placement.sharding.dims)
        if (dim.zigzag)
          dim = DimSharding();
    return placement;
  }

  LogicalResult rewrite(func::FuncOp function) {
    SmallVector<Type> inputs, results;
    for (BlockArgument argument : function.getArguments())
      inputs.push_back(isa<RankedTensorType>(argument.getType())
                           ? plan.getResharder().localType(
                                 tensorOf(argument), plan.placementOf(argument))
                           : argument.getType());
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      results.push_back(plan.getResharder().localType(
          tensorOf(function.front().getTerminator()->getOperand(i)),
          returnedAs(function, i)));

    builder.setInsertionPoint(function);
    auto local =
        func::FuncOp::create(builder, function.getLoc(), function.getName(),
                             builder.getFunctionType(inputs, results));
    local->setAttrs(function->getAttrs());
    local.setFunctionType(builder.getFunctionType(inputs, results));
    Block *body = local.addEntryBlock();
    for (auto [argument, localArgument] :
         llvm::zip_equal(function.getArguments(), body->getArguments())) {
      localArgument.setLoc(argument.getLoc());
      Placement placement;
      if (isa<RankedTensorType>(argument.getType()))
        placement = plan.placementOf(argument);
      locals[argument] = {localArgument, placement};
    }
    std::optional<SignatureAttrs> attrs(std::in_place, local);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      attrs->setResultAttr(i, dist::kShardingAttr,
                           mesh.print(returnedAs(function, i).sharding));
    // Where a part is padded, the whole does not follow from it.
    auto whole = [&](Type global, Type part,
                     ArrayRef<dist::DimAttr> dims) -> Attribute {
      auto from = dyn_cast<RankedTensorType>(global);
      if (!from)
        return nullptr;
      auto to = cast<RankedTensorType>(part);
      for (auto [i, dim] : llvm::enumerate(dims))
        if (to.getDimSize(i) * dist::getMesh(module).getSize(dim.getAxes()) !=
            from.getDimSize(i))
          return builder.getDenseI64ArrayAttr(from.getShape());
      return nullptr;
    };
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto sharding = dyn_cast_or_null<dist::ShardingAttr>(
              attrs->getArgAttr(i, dist::kShardingAttr)))
        if (Attribute shape = whole(function.getArgumentTypes()[i], inputs[i],
                                    sharding.getDims()))
          attrs->setArgAttr(i, dist::kGlobalShapeAttr, shape);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (Attribute shape =
              whole(function.getResultTypes()[i], results[i],
                    cast<dist::ShardingAttr>(
                        attrs->getResultAttr(i, dist::kShardingAttr))
                        .getDims()))
        attrs->setResultAttr(i, dist::kGlobalShapeAttr, shape);
    attrs.reset();
    builder.setInsertionPointToStart(body);
    return rewrite(function.front());
  }

  LogicalResult rewrite(Block &block) {
    for (Operation &op : block)
      if (failed(rewrite(&op)))
        return failure();
    return success();
  }

  LogicalResult rewrite(Operation *op) {
    if (op->getNumResults() == 1 && isFree(op->getResult(0)))
      return success(); // Made where it is used.
    if (auto call = dyn_cast<func::CallOp>(op))
      return rewriteCall(call);
    if (auto loop = dyn_cast<nn::MicrobatchesOp>(op))
      return rewriteLoop(loop);
    if (auto constraint = dyn_cast<dist::ConstraintOp>(op)) {
      StringRef because = constraint.getBecause().value_or("a constraint");
      auto why = [&] { return reason(op, "annotation", because); };
      AtomSet partial = plan.partialAt(constraint);
      Placement made{without(plan.shardingOf(constraint), partial), partial};
      // A constraint is a place: what another one made is not used again.
      Value input = get(constraint.getInput(), made, op, why, /*keep=*/false);
      define(constraint, input, made, dist::Reduction::Sum, op, why);
      return success();
    }
    if (auto manual = dyn_cast<dist::ManualOp>(op)) {
      rewriteManual(manual);
      return success();
    }
    if (isa<func::ReturnOp>(op)) {
      auto function = cast<func::FuncOp>(op->getParentOp());
      SmallVector<Value> values;
      for (auto [i, value] : llvm::enumerate(op->getOperands())) {
        auto why = [&, i = i] {
          return reason(op, "annotation",
                        "result " + Twine(i) + " of @" + function.getName() +
                            " has a sharding");
        };
        bool isAsked =
            static_cast<bool>(function.getResultAttr(i, dist::kShardingAttr));
        values.push_back(get(value, returnedAs(function, i), op, why,
                             /*keep=*/true,
                             isAsked ? static_cast<int>(i) : -1));
      }
      func::ReturnOp::create(builder, op->getLoc(), values);
      return success();
    }
    if (isa<nn::YieldOp>(op)) {
      auto loop = cast<nn::MicrobatchesOp>(op->getParentOp());
      SmallVector<Value> values;
      for (auto [i, value] : llvm::enumerate(op->getOperands())) {
        Value argument =
            loop.getBody().front().getArgument(1 + loop.getSliced().size() + i);
        values.push_back(get(value, plan.placementOf(argument), op, [&, i = i] {
          return reason(op, "accumulator",
                        "accumulator " + Twine(i) + " has a sharding");
        }));
      }
      nn::YieldOp::create(builder, op->getLoc(), values);
      return success();
    }
    return rewritePlain(op);
  }

  /// The body in the place of the op, its inputs and results moved at the
  /// border.
  void rewriteManual(dist::ManualOp manual) {
    IRMapping mapping;
    Block &body = manual.getBody().front();
    auto placement = [&](Attribute sharding) {
      return Placement{mesh.parse(cast<dist::ShardingAttr>(sharding)), 0};
    };
    for (auto [i, input, sharding, argument] :
         llvm::enumerate(manual.getInputs(), manual.getInShardings(),
                         body.getArguments())) {
      Placement wanted = placement(sharding);
      mapping.map(argument, get(input, wanted, manual, [&, i = i] {
                    return reason(manual, "annotation",
                                  "dist.manual takes input " + Twine(i) +
                                      " as " + text(wanted));
                  }));
    }
    Attribute role = manual->getAttr(nn::kRoleAttr);
    for (Operation &op : body.without_terminator()) {
      builder.clone(op, mapping)->walk([&](Operation *copy) {
        if (role && !copy->hasAttr(nn::kRoleAttr) &&
            !copy->hasTrait<OpTrait::IsTerminator>())
          copy->setAttr(nn::kRoleAttr, role);
        if (isa<dist::CollectiveOpInterface>(copy) &&
            !copy->hasAttr(dist::kReasonAttr))
          copy->setAttr(dist::kReasonAttr,
                        reason(copy, "manual", "written in dist.manual"));
      });
    }
    for (auto [i, result, sharding, yielded] :
         llvm::enumerate(manual.getResults(), manual.getOutShardings(),
                         body.getTerminator()->getOperands())) {
      Placement made = placement(sharding);
      define(result, mapping.lookup(yielded), made, dist::Reduction::Sum,
             manual, [&, i = i] {
               return reason(manual, "annotation",
                             "dist.manual gives result " + Twine(i) + " as " +
                                 text(made));
             });
    }
  }

  LogicalResult rewriteCall(func::CallOp call) {
    func::FuncOp callee = plan.calleeOf(call);
    if (!callee)
      return call.emitOpError(
          "calls a function without a body, which cannot be "
          "partitioned");
    SmallVector<Value> operands;
    for (auto [i, operand, argument] :
         llvm::enumerate(call.getOperands(), callee.getArguments()))
      operands.push_back(get(operand, plan.placementOf(argument), call,
                             [&, i = i, argument = argument] {
                               return reason(
                                   call, "operand",
                                   "@" + callee.getName() + " takes argument " +
                                       Twine(i) + " as " +
                                       text(plan.placementOf(argument)));
                             }));
    SmallVector<Type> results;
    SmallVector<Placement> placements;
    for (auto [i, result] : llvm::enumerate(call.getResults())) {
      placements.push_back(returnedAs(callee, i));
      results.push_back(
          plan.getResharder().localType(tensorOf(result), placements.back()));
    }
    auto local = func::CallOp::create(builder, call.getLoc(), callee.getName(),
                                      results, operands);
    copyAttributes(call, local);
    for (auto [i, result] : llvm::enumerate(call.getResults()))
      define(result, local.getResult(i), placements[i], dist::Reduction::Sum,
             call, [&, i = i] {
               return reason(call, "partial result",
                             "result " + Twine(i) + " of @" + callee.getName() +
                                 " is " + text(placements[i]));
             });
    return success();
  }

  LogicalResult rewriteLoop(nn::MicrobatchesOp loop) {
    Block &body = loop.getBody().front();
    size_t slices = loop.getSliced().size();
    SmallVector<Value> sliced, inits;
    SmallVector<Type> results;
    SmallVector<Placement> placements;
    for (auto [i, value] : llvm::enumerate(loop.getSliced())) {
      // Dimension 0 in blocks, one for each microbatch.
      Placement placement = plan.placementOf(body.getArgument(1 + i));
      if (!placement.sharding.dims[0].axes.empty())
        placement.sharding.dims[0].blocks *= loop.getCount();
      sliced.push_back(get(value, placement, loop, [&] {
        return reason(loop, "operand", "microbatches are sharded");
      }));
    }
    for (auto [i, init] : llvm::enumerate(loop.getInits())) {
      placements.push_back(plan.placementOf(body.getArgument(1 + slices + i)));
      inits.push_back(get(init, placements.back(), loop, [&, i = i] {
        return reason(loop, "accumulator",
                      "accumulator " + Twine(i) + " has a sharding");
      }));
      results.push_back(inits.back().getType());
    }
    auto local = nn::MicrobatchesOp::create(builder, loop.getLoc(), results,
                                            loop.getCount(), sliced, inits);
    copyAttributes(loop, local);
    Block *inner = builder.createBlock(&local.getBody());
    for (BlockArgument argument : body.getArguments()) {
      Placement placement = plan.placementOf(argument);
      Value added = inner->addArgument(
          plan.getResharder().localType(tensorOf(argument), placement),
          argument.getLoc());
      locals[argument] = {added, placement};
    }
    builder.setInsertionPointToStart(inner);
    if (failed(rewrite(body)))
      return failure();
    builder.setInsertionPointAfter(local);
    for (auto [i, result] : llvm::enumerate(loop.getResults()))
      define(result, local.getResult(i), placements[i], dist::Reduction::Sum,
             loop, [&, i = i] {
               return reason(loop, "partial result",
                             "accumulator " + Twine(i) + " is " +
                                 text(placements[i]));
             });
    return success();
  }

  static void copyAttributes(Operation *from, Operation *to) {
    for (NamedAttribute attribute : from->getDiscardableAttrs())
      if (attribute.getName() != dist::kShardingsAttr &&
          attribute.getName() != dist::kArgumentShardingsAttr &&
          attribute.getName() != dist::kOriginsAttr &&
          attribute.getName() != dist::kArgumentOriginsAttr)
        to->setAttr(attribute.getName(), attribute.getValue());
  }

  //===--------------------------------------------------------------------===//
  // Ops
  //===--------------------------------------------------------------------===//

  LogicalResult rewritePlain(Operation *op) {
    const OpPlan *own = plan.planOf(op);
    if (op->getNumRegions() != 0)
      return op->emitOpError(
          "has a region, which dist-partition does not know");
    SmallVector<Placement> wanted, made;
    // What operands hand on, beside the op's own sums.
    AtomSet through = 0;
    if (own)
      for (auto [i, result] : llvm::enumerate(op->getResults()))
        through |= plan.partialAt(result) & ~own->partial[i];
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      Placement placement{own ? own->operands[i]
                              : ValueSharding(tensorOf(operand).getRank()),
                          0};
      // Sums put off: all operands together, or the one that is partial.
      if (own && through && own->rule.mayDefer(i, nn::Reduction::Sum))
        placement.partial = own->rule.linearity == nn::Linearity::Joint
                                ? through
                                : through & plan.partialAfter(operand);
      placement.sharding = without(placement.sharding, through);
      wanted.push_back(std::move(placement));
    }
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      made.push_back({without(own ? own->results[i]
                                  : ValueSharding(tensorOf(result).getRank()),
                              through),
                      own ? plan.partialAt(result) : 0});

    SmallVector<Value> operands;
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      operands.push_back(get(operand, wanted[i], op, [&, i = i] {
        return reason(op, "operand",
                      op->getName().getStringRef() + " needs operand " +
                          Twine(i) + " as " + text(wanted[i]),
                      asked(wanted[i], op->getOperand(i).getType(), i));
      }));
    SmallVector<Value> results;
    std::optional<OpPlan> fewer;
    const OpPlan *local = own;
    if (own && (through & own->used())) {
      fewer = *own;
      for (DimSharding &factor : fewer->factors)
        llvm::erase_if(factor.axes,
                       [&](int atom) { return through >> atom & 1; });
      local = &*fewer;
    }
    if (local)
      maskPadding(op, *local, operands);
    if (local && failed(checkRing(op, *local)))
      return failure();
    if (local && (needsCode(*local) || local->isRing())) {
      if (failed(expand(op, *local, operands, made, results)))
        return failure();
    } else {
      results = clone(op, operands, made, own);
    }
    if (own && !own->conflicts.empty() && results[0].getDefiningOp())
      results[0].getDefiningOp()->setAttr(dist::kConflictsAttr,
                                          conflictsOf(*own));
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      AtomSet reduced = made[i].partial & ~plan.partialAfter(result);
      define(result, results[i], made[i],
             own ? own->kinds[i] : dist::Reduction::Sum, op,
             [&, i = i, result = result] {
               if (reduced)
                 return reason(op, "partial result",
                               op->getName().getStringRef() +
                                   " sums over what is sharded over " +
                                   axesText(reduced));
               return reason(
                   op, "result",
                   op->getName().getStringRef() + " gives " + text(made[i]) +
                       ", wanted is " + text(plan.placementOf(result)),
                   "to avoid it, write " + written(made[i]) + " as entry " +
                       Twine(i) + " of dist.shardings on it");
             });
    }
    return success();
  }

  /// What the op could not have all, and what it chose.
  ArrayAttr conflictsOf(const OpPlan &own) {
    SmallVector<Attribute> list;
    for (const Conflict &conflict : own.conflicts) {
      SmallVector<Attribute> candidates;
      for (const Conflict::Candidate &candidate : conflict.candidates) {
        NamedAttrList fields;
        fields.set("what", builder.getStringAttr(candidate.what));
        if (candidate.seconds >= 0)
          fields.set("seconds", builder.getF64FloatAttr(candidate.seconds));
        candidates.push_back(fields.getDictionary(builder.getContext()));
      }
      NamedAttrList fields;
      fields.set("candidates", builder.getArrayAttr(candidates));
      fields.set("choice", builder.getI64IntegerAttr(conflict.choice));
      fields.set("by", builder.getStringAttr(conflict.by));
      list.push_back(fields.getDictionary(builder.getContext()));
    }
    return builder.getArrayAttr(list);
  }

  /// The op on local shapes.
  SmallVector<Value> clone(Operation *op, ArrayRef<Value> operands,
                           ArrayRef<Placement> made, const OpPlan *own) {
    Operation *copy = op->cloneWithoutRegions();
    copy->setOperands(operands);
    // A rule that is written tells of the sizes of the whole.
    for (StringRef name : {dist::kShardingsAttr, dist::kBecauseAttr,
                           dist::kOriginsAttr, nn::kRuleAttr})
      copy->removeAttr(name);
    for (auto [i, result] : llvm::enumerate(copy->getResults()))
      result.setType(plan.getResharder().localType(
          tensorOf(op->getResult(i)), made[i],
          own ? own->kinds[i] : dist::Reduction::Sum));
    if (auto slice = dyn_cast<nn::SliceOp>(copy))
      slice.setSizes(cast<RankedTensorType>(slice.getType()).getShape());
    builder.insert(copy);
    return llvm::to_vector_of<Value>(copy->getResults());
  }

  //===--------------------------------------------------------------------===//
  // Expansions
  //===--------------------------------------------------------------------===//

  /// The sharded factor with an expansion, or -1.
  static int expandedFactor(const OpPlan &own) {
    for (auto [f, factor] : llvm::enumerate(own.rule.factors))
      if (!factor.expansion.empty() && !own.factors[f].axes.empty())
        return f;
    return -1;
  }
  static bool needsCode(const OpPlan &own) { return expandedFactor(own) >= 0; }

  Attribute axesAttr(ArrayRef<int> atoms) {
    SmallVector<Attribute> list;
    for (dist::AxisAttr axis : mesh.axesOf(atoms))
      list.push_back(axis);
    return builder.getArrayAttr(list);
  }

  /// Where this device's part of a factor begins, tensor<i32>.
  Value beginOf(Location loc, const OpPlan &own, int factor) {
    ArrayRef<int> atoms = own.factors[factor].axes;
    auto i32 = RankedTensorType::get({}, builder.getI32Type());
    Value index = dist::AxisIndexOp::create(builder, loc, i32,
                                            cast<ArrayAttr>(axesAttr(atoms)));
    int64_t devices = mesh.sizeOf(atoms);
    int64_t part = (own.rule.factors[factor].size + devices - 1) / devices;
    nn::Emit emit(builder, loc);
    return emit.mul(index, emit.constant(i32, part));
  }

  /// Where this device's part begins in each dimension, tensor<rank x i32>.
  Value offsetsOf(Location loc, const OpPlan &own,
                  const nn::ValueFactors &dims) {
    nn::Emit emit(builder, loc);
    auto one = RankedTensorType::get({1}, builder.getI32Type());
    SmallVector<Value> begins;
    for (const nn::DimFactors &dim : dims)
      begins.push_back(dim.empty() || own.factors[dim[0]].axes.empty()
                           ? emit.constant(one, 0)
                           : emit.reshape(beginOf(loc, own, dim[0]), {1}));
    return emit.make<nn::ConcatenateOp>(ValueRange(begins), 0);
  }

  /// Reduces at once.
  Value reduce(Location loc, Value value, ArrayRef<int> atoms,
               dist::Reduction kind, DictionaryAttr why) {
    auto plain =
        dist::withPartial(cast<RankedTensorType>(value.getType()), nullptr);
    auto op = dist::AllReduceOp::create(
        builder, loc, plain,
        dist::ReductionAttr::get(builder.getContext(), kind), value,
        cast<ArrayAttr>(axesAttr(atoms)));
    op->setAttr(dist::kReasonAttr, why);
    return op;
  }

  /// Whether this device's part of a factor ends behind the factor.
  bool isPadded(const OpPlan &own, int factor) const {
    const DimSharding &sharding = own.factors[factor];
    int64_t size = own.rule.factors[factor].size,
            ordered = sharding.orderedSize(size);
    return !sharding.axes.empty() &&
           (ordered != size ||
            (size / sharding.blocks) % mesh.sizeOf(sharding.axes) != 0);
  }

  /// True where dimension `dim` of the local `value` is not padding.
  Value isInside(Location loc, const OpPlan &own, int factor, Value value,
                 unsigned dim) {
    nn::Emit emit(builder, loc);
    RankedTensorType type = tensorOf(value);
    const DimSharding &sharding = own.factors[factor];
    if (sharding.zigzag)
      return isInsideOrder(loc, own, factor, type, dim);
    // Factors outside of this one are blocks, too.
    int64_t size = own.rule.factors[factor].size / sharding.blocks,
            devices = mesh.sizeOf(sharding.axes),
            local = (size + devices - 1) / devices,
            blocks = type.getDimSize(dim) / local;
    auto i32 = RankedTensorType::get({}, builder.getI32Type());
    Value index = dist::AxisIndexOp::create(
        builder, loc, i32, cast<ArrayAttr>(axesAttr(sharding.axes)));
    // The index within each block, then the same for all blocks.
    Value place = nn::IotaOp::create(
        builder, loc,
        RankedTensorType::get({blocks, local}, builder.getI32Type()),
        builder.getI64IntegerAttr(1));
    place = emit.add(place, emit.mul(index, emit.constant(i32, local)));
    Value inside = emit.compare(nn::Predicate::LT, place, double(size));
    SmallVector<int64_t> shape(type.getRank() - dim, 1);
    shape[0] = type.getDimSize(dim);
    return emit.reshape(inside, shape);
  }

  /// The same where the factor has another order: a table has the place of each
  /// element of it.
  Value isInsideOrder(Location loc, const OpPlan &own, int factor,
                      RankedTensorType type, unsigned dim) {
    nn::Emit emit(builder, loc);
    const DimSharding &sharding = own.factors[factor];
    int64_t size = own.rule.factors[factor].size, local = type.getDimSize(dim),
            ordered = sharding.orderedSize(size);
    SmallVector<int32_t> table;
    for (int64_t i = 0; i < local * mesh.sizeOf(sharding.axes); ++i)
      table.push_back(i < ordered ? sharding.placeOf(i, size) : size);
    Type i32 = builder.getI32Type();
    Value places = nn::ConstantOp::create(
        builder, loc,
        cast<ElementsAttr>(DenseElementsAttr::get(
            RankedTensorType::get(static_cast<int64_t>(table.size()), i32),
            ArrayRef<int32_t>(table))));
    auto rows = RankedTensorType::get({local}, i32);
    Value index =
        dist::AxisIndexOp::create(builder, loc, RankedTensorType::get({}, i32),
                                  cast<ArrayAttr>(axesAttr(sharding.axes)));
    Value here = emit.add(
        nn::IotaOp::create(builder, loc, rows, builder.getI64IntegerAttr(0)),
        emit.mul(index, double(local)));
    Value mine = nn::GatherOp::create(builder, loc, rows, places, here,
                                      builder.getI64IntegerAttr(0),
                                      builder.getI64IntegerAttr(0));
    Value inside = emit.compare(nn::Predicate::LT, mine, double(size));
    SmallVector<int64_t> shape(type.getRank() - dim, 1);
    shape[0] = local;
    return emit.reshape(inside, shape);
  }

  /// Padding may hold anything. Where an op reduces over a padded dimension, it
  /// reads the neutral element there.
  void maskPadding(Operation *op, const OpPlan &own,
                   SmallVector<Value> &operands) {
    Location loc = op->getLoc();
    nn::Emit emit(builder, loc);
    for (auto [f, factor] : llvm::enumerate(own.rule.factors)) {
      if (factor.kind != nn::FactorKind::Reduction || !isPadded(own, f) ||
          factor.expansion == "masked_gather")
        continue;
      double neutral = factor.reduction == nn::Reduction::Sum   ? 0.0
                       : factor.reduction == nn::Reduction::Max ? -INFINITY
                                                                : INFINITY;
      for (auto [i, operand] : llvm::enumerate(operands)) {
        RankedTensorType type = tensorOf(operand);
        Type element = type.getElementType();
        double border = neutral;
        if (!isa<FloatType>(element) && !element.isInteger(1)) {
          if (element != tensorOf(op->getResult(0)).getElementType())
            continue; // Indices only; what they index is masked.
          APInt most =
              APInt::getSignedMaxValue(element.getIntOrFloatBitWidth());
          border = neutral == 0  ? 0
                   : neutral > 0 ? most.signedRoundToDouble()
                                 : (-most - 1).signedRoundToDouble();
        }
        for (auto [d, dim] : llvm::enumerate(own.rule.operands[i])) {
          // Only the last factor of a dimension is ever padded.
          if (dim.empty() || dim.back() != static_cast<int>(f))
            continue;
          Value inside = isInside(loc, own, f, operand, d);
          Value masked =
              type.getElementType().isInteger(1)
                  ? emit.make<nn::AndOp>(operand, inside)
                  : emit.select(inside, operand, emit.scalar(operand, border));
          masked.setType(type); // Partial values stay so.
          setRole(op, masked);
          operand = masked;
        }
      }
    }
  }

  static void setRole(Operation *op, Value value) {
    if (Attribute role = op->getAttr(nn::kRoleAttr))
      value.getDefiningOp()->setAttr(nn::kRoleAttr, role);
  }

  LogicalResult expand(Operation *op, const OpPlan &own,
                       SmallVector<Value> operands, ArrayRef<Placement> made,
                       SmallVector<Value> &results) {
    // Whatever is built here has the role of the op.
    struct Roles : OpBuilder::Listener {
      void notifyOperationInserted(Operation *inserted,
                                   OpBuilder::InsertPoint) final {
        if (role && !inserted->hasAttr(nn::kRoleAttr))
          inserted->setAttr(nn::kRoleAttr, role);
      }
      Attribute role;
    } roles;
    roles.role = op->getAttr(nn::kRoleAttr);
    OpBuilder::Listener *before = builder.getListener();
    builder.setListener(&roles);
    LogicalResult done = expandWithRoles(op, own, operands, made, results);
    builder.setListener(before);
    return done;
  }

  LogicalResult expandWithRoles(Operation *op, const OpPlan &own,
                                SmallVector<Value> operands,
                                ArrayRef<Placement> made,
                                SmallVector<Value> &results) {
    if (own.isRing()) {
      if (auto attention = dyn_cast<nn::AttentionOp>(op))
        return expandRing(attention, own, operands, made, results);
      return expandRing(cast<nn::AttentionGradOp>(op), own, operands, made,
                        results);
    }
    Location loc = op->getLoc();
    int factor = expandedFactor(own);
    StringRef expansion = own.rule.factors[factor].expansion;
    nn::Emit emit(builder, loc);
    if (expansion == "masked_gather") {
      // Indices count from where this device's rows begin; those of other
      // devices are outside of the table, where a gather reads zeros.
      Value indices = operands[1];
      operands[1] = emit.sub(indices, beginOf(loc, own, factor));
      if (isPadded(own, factor)) // Nor may an index reach the padding.
        operands[1] =
            emit.select(emit.compare(nn::Predicate::LT, indices,
                                     double(own.rule.factors[factor].size)),
                        operands[1], emit.scalar(indices, -1));
      results = clone(op, operands, made, &own);
      return success();
    }
    if (expansion == "global_mean") {
      auto mean = cast<nn::ReduceOp>(op);
      double count = 1;
      for (int64_t dim : mean.getDims())
        count *= mean.getInput().getType().getDimSize(dim);
      auto type = plan.getResharder().localType(mean.getType(), made[0]);
      Value sum = nn::ReduceOp::create(
          builder, loc, type,
          nn::ReduceKindAttr::get(builder.getContext(), nn::ReduceKind::Sum),
          operands[0], mean.getDimsAttr(), mean.getKeepAttr());
      Value divisor = emit.scalar(sum, count);
      results = {nn::DivOp::create(builder, loc, type, sum, divisor)};
      return success();
    }
    if (expansion == "offset_iota") {
      results = clone(op, operands, made, &own);
      Value begin = beginOf(loc, own, factor);
      results[0] = emit.add(
          results[0], emit.cast(begin, tensorOf(results[0]).getElementType()));
      return success();
    }
    if (expansion == "offset_mask") {
      if (auto attention = dyn_cast<nn::AttentionOp>(op))
        return expandMask(attention, own, operands, made, results);
      if (auto gradient = dyn_cast<nn::AttentionGradOp>(op))
        return expandMask(gradient, own, operands, made, results);
    }
    if (expansion == "offset_random") {
      results = clone(op, operands, made, &own);
      Operation *local = results[0].getDefiningOp();
      Value at = offsetsOf(loc, own, own.rule.results[0]);
      SmallVector<nn::RandomOp> drawn;
      if (auto random = dyn_cast<nn::RandomOp>(local)) {
        random->moveAfter(at.getDefiningOp());
        builder.setInsertionPointAfter(random);
        drawn.push_back(random);
      } else {
        // What it is made of, with the numbers of its part.
        results = cast<nn::DecomposableOpInterface>(local).decompose(builder);
        for (Operation *inner = local; inner; inner = inner->getNextNode())
          if (auto random = dyn_cast<nn::RandomOp>(inner))
            drawn.push_back(random);
        local->erase();
      }
      for (nn::RandomOp random : drawn) {
        random.getOffsetsMutable().assign(at);
        random.setWhole(tensorOf(op->getResult(0)).getShape());
      }
      return success();
    }
    if (expansion == "vocab_loss") {
      if (auto loss = dyn_cast<nn::CrossEntropyOp>(op))
        return expandLoss(loss, own, operands, results);
      if (auto loss = dyn_cast<nn::CrossEntropyGradOp>(op))
        return expandLossGradient(loss, own, operands, results);
    }
    return op->emitOpError("has a sharded dimension whose expansion '")
           << expansion << "' is not known";
  }

  /// Tells attention where this device's queries begin among all keys.
  template <typename Op>
  LogicalResult expandMask(Op op, const OpPlan &own, ArrayRef<Value> operands,
                           ArrayRef<Placement> made,
                           SmallVector<Value> &results) {
    nn::Emit emit(builder, op.getLoc());
    if (own.factors[expandedFactor(own)].zigzag)
      return op.emitOpError(
          "has queries in zig-zag order, which stand at two places of the "
          "sequence; expected keys that go round "
          "(dist-partition{context=ring}), "
          "and for that as many keys as queries and no bias");
    Value begin = beginOf(op.getLoc(), own, expandedFactor(own));
    SmallVector<Value> given(operands);
    if (op.getFirstPosition()) {
      begin = emit.add(begin, given.back());
      given.back() = begin;
    } else if (int64_t shift = tensorOf(op.getKey()).getDimSize(1) -
                               tensorOf(op.getQuery()).getDimSize(1)) {
      begin = emit.add(begin, static_cast<double>(shift));
    }
    results = clone(op, given, made, &own);
    cast<Op>(results[0].getDefiningOp())
        .getFirstPositionMutable()
        .assign(begin);
    return success();
  }

  /// That attention whose keys were asked to go round can do that.
  LogicalResult checkRing(Operation *op, const OpPlan &own) {
    auto attention = dyn_cast<nn::AttentionOp>(op);
    auto gradient = dyn_cast<nn::AttentionGradOp>(op);
    Value bias = attention  ? attention.getBias()
                 : gradient ? gradient.getBias()
                            : Value();
    bool isSelf = llvm::any_of(own.rule.factors, [](const nn::Factor &factor) {
      return factor.expansion == "ring";
    });
    if (!keysGoRound || !bias || !isSelf ||
        own.operands[0].dims[1].axes.empty())
      return success();
    return op->emitOpError("has a bias, of which each query has a value for "
                           "each key, so keys cannot go round; expected no "
                           "bias, or --context=gather");
  }

  /// Keys and values go around the devices of the queries.
  template <typename Op>
  LogicalResult expandRing(Op op, const OpPlan &own, ArrayRef<Value> operands,
                           ArrayRef<Placement> made,
                           SmallVector<Value> &results) {
    Location loc = op.getLoc();
    nn::Emit emit(builder, loc);
    int factor = own.ringQueries;
    ArrayRef<int> atoms = own.factors[factor].axes;
    Ring ring;
    ring.axes = cast<ArrayAttr>(axesAttr(atoms));
    ring.devices = mesh.sizeOf(atoms);
    ring.length = own.rule.factors[factor].size;
    ring.part = tensorOf(operands[0]).getDimSize(1);
    if (int64_t chunks = own.factors[factor].zigzag) {
      if (chunks != 2 * ring.devices)
        return op.emitOpError("has queries in ")
               << chunks << " chunks on " << ring.devices
               << " devices, expected two for each: zigzag "
               << 2 * ring.devices;
      ring.zigzag = true;
      ring.part /= 2;
    }
    auto why = [&](StringRef text) {
      return withAnnotations(reason(op, "expansion", text), op, op.getKey(),
                             atoms);
    };
    std::string axes = axesText(setOf(atoms));
    ring.keysReason =
        why("keys and values go around the devices of " + axes +
            ", each of which attends to them with its own queries");
    ring.gradientsReason =
        why("gradients of keys and values go around the devices of " + axes +
            " with them");
    SmallVector<Value> given(operands);
    // A weight of zero does not hide what padding may hold.
    if (isPadded(own, factor))
      for (unsigned i : {1, 2})
        given[i] = emit.select(isInside(loc, own, factor, given[i], 1),
                               given[i], emit.scalar(given[i], 0));
    if constexpr (std::is_same_v<Op, nn::AttentionGradOp>)
      for (int i = 0; i < 3; ++i)
        ring.partial[i] = dist::getPartial(plan.getResharder().localType(
            tensorOf(op->getResult(i)), made[i], own.kinds[i]));
    results = buildRing(builder, op, given, ring);
    return success();
  }

  /// Whether a target is one.
  Value isTarget(nn::Emit &emit, Value targets, int64_t vocabulary) {
    Value low = emit.compare(nn::Predicate::GE, targets, 0.0);
    Value high = emit.compare(nn::Predicate::LT, targets, double(vocabulary));
    return emit.make<nn::AndOp>(low, high);
  }

  /// Three reductions of one number a token: the maximum, the sum of
  /// exponentials and the target's logit (Shoeybi et al. 2019, section 3).
  LogicalResult expandLoss(nn::CrossEntropyOp op, const OpPlan &own,
                           ArrayRef<Value> operands,
                           SmallVector<Value> &results) {
    Location loc = op.getLoc();
    nn::Emit emit(builder, loc);
    int factor = expandedFactor(own);
    ArrayRef<int> atoms = own.factors[factor].axes;
    int64_t vocabulary = own.rule.factors[factor].size;
    Type element =
        nn::getStatisticsType(tensorOf(operands[0]).getElementType());
    Value logits = emit.cast(operands[0], element), targets = operands[1];
    int64_t last = tensorOf(logits).getRank() - 1;
    auto partial = [&](Value value, dist::Reduction kind) {
      value.setType(dist::withPartial(
          tensorOf(value), dist::PartialAttr::get(builder.getContext(),
                                                  mesh.axesOf(atoms), kind)));
      return value;
    };
    auto all = [&](Value value, dist::Reduction kind, StringRef what) {
      return reduce(loc, partial(value, kind), atoms, kind,
                    withAnnotations(
                        reason(op, "expansion",
                               "the loss over a sharded vocabulary needs the " +
                                   what + " of all of it"),
                        op, op.getLogits(), atoms));
    };
    Value inside, real = logits;
    if (isPadded(own, factor)) {
      inside = isInside(loc, own, factor, logits, last);
      logits = emit.select(inside, logits, emit.scalar(logits, -INFINITY));
      real = emit.select(inside, real, emit.scalar(real, 0));
    }
    Value maximum = all(emit.reduce(nn::ReduceKind::Max, logits, {last}),
                        dist::Reduction::Max, "maximum");
    Value shifted = emit.sub(logits, emit.expand(maximum, last));
    Value sum = all(emit.sum(emit.make<nn::ExpOp>(shifted), {last}),
                    dist::Reduction::Sum, "sum of exponentials");
    Value lse = emit.add(emit.make<nn::LogOp>(sum), maximum);
    Value here = emit.sub(targets, beginOf(loc, own, factor));
    Value chosen =
        all(nn::GatherOp::create(builder, loc, tensorOf(maximum), real, here,
                                 builder.getI64IntegerAttr(last),
                                 builder.getI64IntegerAttr(last)),
            dist::Reduction::Sum, "target's logit");
    double smoothing = op.getSmoothing().convertToDouble();
    Value loss = emit.sub(
        lse, smoothing == 0 ? chosen : emit.mul(chosen, 1 - smoothing));
    if (smoothing != 0) {
      Value total = all(emit.sum(real, {last}), dist::Reduction::Sum,
                        "sum of the logits");
      loss = emit.sub(loss, emit.mul(total, smoothing / double(vocabulary)));
    }
    loss = emit.select(isTarget(emit, targets, vocabulary), loss,
                       emit.scalar(loss, 0));
    results = {loss, lse};
    return success();
  }

  /// The log-sum-exp is that of the whole vocabulary: nothing to communicate.
  LogicalResult expandLossGradient(nn::CrossEntropyGradOp op, const OpPlan &own,
                                   ArrayRef<Value> operands,
                                   SmallVector<Value> &results) {
    Location loc = op.getLoc();
    nn::Emit emit(builder, loc);
    int factor = expandedFactor(own);
    int64_t vocabulary = own.rule.factors[factor].size;
    RankedTensorType type = tensorOf(operands[0]);
    Type element = nn::getStatisticsType(type.getElementType());
    int64_t last = type.getRank() - 1;
    Value logits = emit.cast(operands[0], element), targets = operands[1];
    Value p =
        emit.make<nn::ExpOp>(emit.sub(logits, emit.expand(operands[2], last)));
    Value here = emit.sub(targets, beginOf(loc, own, factor));
    Value columns = nn::IotaOp::create(
        builder, loc,
        RankedTensorType::get({type.getDimSize(last)}, builder.getI32Type()),
        builder.getI64IntegerAttr(0));
    Value hot =
        emit.compare(nn::Predicate::EQ, emit.expand(here, last), columns);
    double smoothing = op.getSmoothing().convertToDouble();
    Value target =
        emit.select(hot, emit.scalar(p, 1 - smoothing + smoothing / vocabulary),
                    emit.scalar(p, smoothing / vocabulary));
    Value grad = emit.select(isTarget(emit, targets, vocabulary), operands[3],
                             emit.scalar(operands[3], 0));
    Value result = emit.mul(emit.expand(grad, last), emit.sub(p, target));
    if (operands.size() > 4)
      result = emit.add(result, emit.mul(emit.expand(operands[4], last), p));
    if (isPadded(own, factor))
      result = emit.select(isInside(loc, own, factor, result, last), result,
                           emit.scalar(result, 0));
    results = {emit.cast(result, type.getElementType())};
    return success();
  }
};

/// The operands that read what a collective made, behind what else brings the
/// value to where they need it.
void findReaders(Operation *move, DictionaryAttr reason,
                 SmallVectorImpl<OpOperand *> &readers) {
  for (OpOperand &use : move->getResult(0).getUses()) {
    Operation *user = use.getOwner();
    bool isOfMove =
        user->getAttr(dist::kReasonAttr) == reason ||
        (isa<dist::SliceOp, dist::MakePartialOp, nn::ReshapeOp>(user) &&
         user->getLoc() == move->getLoc() &&
         reason.getAs<StringAttr>("op") != user->getName().getStringRef());
    if (isOfMove)
      findReaders(user, reason, readers);
    else
      readers.push_back(&use);
  }
}

/// Complains of each value that is moved because an op needs it elsewhere,
/// where no annotation says so and a device sends more than `bound` bytes.
LogicalResult checkImplicit(ModuleOp module, int64_t bound) {
  dist::MeshOp mesh = dist::getMesh(module);
  // A layer has the same op forwards and in other entries.
  llvm::SetVector<std::pair<Attribute, Attribute>> told;
  module.walk([&](dist::CollectiveOpInterface op) {
    auto reason = op->getAttrOfType<DictionaryAttr>(dist::kReasonAttr);
    auto avoid = reason ? reason.getAs<StringAttr>("avoid") : nullptr;
    double bytes = bytesSent(op, mesh);
    if (!avoid || bytes <= bound ||
        dist::getPartial(op->getOperand(0).getType()) ||
        !told.insert({op->getLoc(), avoid}))
      return;
    // What differentiation made stands nowhere in the model.
    auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
    bool isGradient = role && role.getValue().ends_with("gradient");
    InFlightDiagnostic error =
        emitError(op->getLoc())
        << reason.getAs<StringAttr>("text").getValue() << ": "
        << op.getCollectiveKind() << " over " << axesText(op.getGroupAxes())
        << " in which a device sends " << static_cast<int64_t>(bytes)
        << " bytes, where at most " << bound
        << " are expected without an annotation; " << avoid.getValue()
        << (isGradient ? ", in the step that --emit=step writes: this op is of "
                         "the gradient"
                       : "");
    SmallVector<OpOperand *> readers;
    findReaders(op, reason, readers);
    // In the order of the program; the first is the op of the error.
    llvm::stable_sort(readers, [](OpOperand *a, OpOperand *b) {
      Operation *first = a->getOwner(), *second = b->getOwner();
      return first->getBlock() == second->getBlock() &&
             first->isBeforeInBlock(second);
    });
    for (OpOperand *reader : llvm::drop_begin(readers, !readers.empty()))
      error.attachNote(reader->getOwner()->getLoc())
          << "give %y to operand " << reader->getOperandNumber() << " of this "
          << reader->getOwner()->getName().getStringRef()
          << ", too: it reads what is moved there";
    // A mesh that an option asked for stands where the module does.
    if (told.size() == 1 && mesh.getLoc() == module.getLoc())
      error.attachNote(module.getLoc())
          << "a file with constraints has its mesh in it: write '" << mesh
          << "' into the module and leave out --mesh";
  });
  return failure(!told.empty());
}

struct DistPartition : sheaf::impl::DistPartitionBase<DistPartition> {
  using DistPartitionBase::DistPartitionBase;

  void runOnOperation() final {
    auto timing = llvm::StringSwitch<std::optional<Timing>>(reduce)
                      .Case("cheapest", Timing::Cheapest)
                      .Case("early", Timing::Early)
                      .Case("late", Timing::Late)
                      .Default(std::nullopt);
    if (!timing) {
      getOperation().emitError("dist-partition: option 'reduce' is '")
          << reduce << "', expected cheapest, early or late";
      return signalPassFailure();
    }
    if (failed(checkWhole()) || failed(verifyManualCalls(getOperation())))
      return signalPassFailure();
    if (!llvm::is_contained({"gather", "ring"}, context)) {
      getOperation().emitError("dist-partition: option 'context' is '")
          << context << "', expected gather or ring";
      return signalPassFailure();
    }
    FailureOr<MeshInfo> mesh = MeshInfo::get(getOperation());
    if (failed(mesh) ||
        failed(Partitioner(getOperation(), *mesh, *timing, context == "ring")
                   .run()) ||
        (strict >= 0 && failed(checkImplicit(getOperation(), strict))))
      return signalPassFailure();
    if (getContext().getRemarkEngine())
      reportCollectives();
  }

  /// Collectives and partial values are inside manual regions alone: the rest
  /// is whole, straight-line code on tensors.
  LogicalResult checkWhole() {
    if (failed(nn::refuseRecursion(getOperation())))
      return failure();
    auto isPartial = [](Type type) {
      return dist::getPartial(type) != nullptr;
    };
    WalkResult result = getOperation().walk<WalkOrder::PreOrder>([&](Operation
                                                                         *op) {
      if (isa<dist::ManualOp>(op))
        return WalkResult::skip();
      auto function = dyn_cast<func::FuncOp>(op);
      if (function && !function.isExternal() &&
          !function.getBody().hasOneBlock()) {
        op->emitOpError(
            "has several blocks; dist-partition expects straight-line code");
        return WalkResult::interrupt();
      }
      for (Type type : function ? TypeRange(function.getArgumentTypes())
                                : TypeRange(op->getResultTypes()))
        if (!isa<RankedTensorType>(type)) {
          op->emitOpError() << "has " << (function ? "an argument" : "a result")
                            << " of type " << type
                            << "; dist-partition expects tensors with a rank";
          return WalkResult::interrupt();
        }
      if (!isa<dist::CollectiveOpInterface>(op) &&
          !llvm::any_of(op->getResultTypes(), isPartial) &&
          !(function && llvm::any_of(function.getArgumentTypes(), isPartial)))
        return WalkResult::advance();
      op->emitOpError(
          "is of the program of one device already; dist-partition expects a "
          "program on whole tensors");
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// A remark for every collective: what asked for it.
  void reportCollectives() {
    getOperation().walk([](dist::CollectiveOpInterface op) {
      auto why = op->getAttrOfType<DictionaryAttr>(dist::kReasonAttr);
      auto text = why ? why.getAs<StringAttr>("text") : StringAttr();
      if (!text)
        return;
      std::string type;
      llvm::raw_string_ostream(type) << op->getOperand(0).getType();
      auto remark = remark::analysis(
          op->getLoc(),
          remark::RemarkOpts::name("collective")
              .category("sharding")
              .function(op->getParentOfType<func::FuncOp>().getName()));
      remark << (op.getCollectiveKind().str() + " over " +
                 axesText(op.getGroupAxes()) + " of " + type + ": " +
                 text.str());
    });
  }
};
} // namespace
