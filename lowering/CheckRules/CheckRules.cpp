//===- CheckRules.cpp - Check rules by running ops ------------------------===//

#include "lowering/CheckRules/CheckRules.h"
#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "lowering/CheckRules/Interpreter.h"
#include "lowering/NNToLinalg/NNToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/PassManager.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/Shardings.h"
#include <cmath>
#include <random>
#include <set>

namespace sheaf {
#define GEN_PASS_DEF_DISTCHECKRULES
#include "lowering/CheckRules/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::checking;
using namespace sheaf::sharding;

namespace {
/// One sharding of an op: sizes of the axes of the mesh, and the sharding of
/// each factor on them; whether keys of attention go round.
struct Assignment {
  SmallVector<int64_t, 2> mesh;
  FactorShardings factors;
  bool ring = false;
};

using Tensors = std::vector<Tensor>;

class Checker {
public:
  Checker(Operation *op, nn::ShardingRule rule, uint64_t seed)
      : op(op), rule(std::move(rule)), random(seed) {}

  /// Over how many elements it loops.
  double loops() const {
    double count = 1;
    for (const nn::Factor &factor : rule.factors)
      count *= factor.size;
    return count;
  }

  /// Tries everything; adds to `count` how many shardings.
  LogicalResult check(int64_t &count) {
    inputs = draw();
    OwningOpRef<ModuleOp> module = makeModule();
    if (failed(lower(*module)))
      return failure();
    plain = *module->getOps<func::FuncOp>().begin();
    FailureOr<Tensors> found = whole(inputs);
    if (failed(found))
      return failure();
    expected = std::move(*found);
    for (Assignment &assignment : assignments()) {
      if (failed(sharded(assignment)))
        return failure();
      ++count;
    }
    return checkSums();
  }

private:
  Operation *op;
  nn::ShardingRule rule;
  std::mt19937_64 random;
  Tensors inputs, expected;
  func::FuncOp plain;

  static RankedTensorType tensorOf(Value value) {
    return cast<RankedTensorType>(value.getType());
  }

  //===--------------------------------------------------------------------===//
  // Numbers
  //===--------------------------------------------------------------------===//

  Tensors draw() {
    Tensors tensors;
    std::uniform_real_distribution<double> reals(-2, 2);
    std::uniform_int_distribution<int64_t> bits(0, 1), integers(-1, 6);
    for (Value operand : op->getOperands()) {
      RankedTensorType type = tensorOf(operand);
      Tensor &tensor = tensors.emplace_back(type.getShape());
      for (Element &element : tensor.data) {
        if (isa<FloatType>(type.getElementType()))
          element.f = reals(random);
        else
          element.i = type.getElementType().isInteger(1) ? bits(random)
                                                         : integers(random);
      }
    }
    return tensors;
  }

  static bool differ(Element a, Element b, Type type) {
    if (!isa<FloatType>(type))
      return a.i != b.i;
    if (std::isnan(a.f) || std::isnan(b.f))
      return std::isnan(a.f) != std::isnan(b.f);
    return a.f != b.f && !(std::fabs(a.f - b.f) <= 1e-9 * (1 + std::fabs(b.f)));
  }

  /// Complains where a result differs; `how` says how it came about.
  LogicalResult compare(Tensors &found, Tensors &wanted, const Twine &how) {
    for (auto [r, result] : llvm::enumerate(op->getResults())) {
      Type type = tensorOf(result).getElementType();
      LogicalResult equal = success();
      found[r].each([&, r = r](ArrayRef<int64_t> index, Element &element) {
        Element other = wanted[r].at(index);
        if (failed(equal) || !differ(element, other, type))
          return;
        std::string place;
        llvm::raw_string_ostream os(place);
        llvm::interleaveComma(index, os);
        InFlightDiagnostic error = emitError(op->getLoc());
        error << op->getName() << " gives something else " << how.str()
              << ": result " << r << " at [" << place << "] is ";
        if (isa<FloatType>(type))
          error << element.f << ", expected " << other.f;
        else
          error << element.i << ", expected " << other.i;
        error.attachNote() << "its rule is " << rule.str();
        equal = failure();
      });
      if (failed(equal))
        return failure();
    }
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Programs
  //===--------------------------------------------------------------------===//

  /// The op alone in a function.
  OwningOpRef<ModuleOp> makeModule() {
    OwningOpRef<ModuleOp> module = ModuleOp::create(op->getLoc());
    OpBuilder builder = OpBuilder::atBlockBegin(module->getBody());
    auto function = func::FuncOp::create(
        builder, op->getLoc(), "f",
        builder.getFunctionType(op->getOperandTypes(), op->getResultTypes()));
    builder.setInsertionPointToStart(function.addEntryBlock());
    Operation *copy = builder.clone(*op);
    copy->setOperands(function.getArguments());
    for (StringRef name : {dist::kShardingsAttr, dist::kBecauseAttr})
      copy->removeAttr(name);
    func::ReturnOp::create(builder, op->getLoc(), copy->getResults());
    return module;
  }

  /// To ops that the interpreter knows, collectives as they are.
  LogicalResult lower(ModuleOp module) {
    auto plainType = [](Type type) -> Type {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor ? dist::withPartial(tensor, nullptr) : type;
    };
    module.walk([&](Operation *inner) {
      for (Value result : inner->getResults())
        result.setType(plainType(result.getType()));
      for (Region &region : inner->getRegions())
        for (BlockArgument argument : region.getArguments())
          argument.setType(plainType(argument.getType()));
    });
    MLIRContext *context = module.getContext();
    ConversionTarget target(*context);
    target.markUnknownOpDynamicallyLegal([](Operation *inner) {
      return !isa<nn::NNDialect>(inner->getDialect()) &&
             !isa<nn::DecomposableOpInterface>(inner);
    });
    RewritePatternSet patterns(context);
    populateNNToLinalgPatterns(patterns);
    for (Dialect *dialect : context->getLoadedDialects())
      if (auto *interface =
              dialect->getRegisteredInterface<NNToLinalgInterface>())
        interface->populatePatterns(patterns, target);
    return applyPartialConversion(module, target, std::move(patterns));
  }

  FailureOr<Tensors> whole(const Tensors &given) {
    auto results = run(plain, nullptr, {given});
    if (failed(results))
      return failure();
    return std::move((*results)[0]);
  }

  std::string describe(const MeshInfo &mesh, const Assignment &assignment) {
    std::string text;
    llvm::raw_string_ostream os(text);
    for (auto [f, own] : llvm::enumerate(assignment.factors)) {
      if (own.axes.empty())
        continue;
      os << (text.empty() ? "" : ", ") << rule.factors[f].name << " over ";
      llvm::interleave(
          own.axes, os,
          [&](int axis) {
            os << mesh.nameOf(axis) << " = " << mesh.sizeOf(axis);
          },
          " and ");
      if (own.blocks > 1)
        os << " in " << own.blocks << " blocks";
      if (own.zigzag)
        os << " in zig-zag order of " << own.zigzag << " chunks";
    }
    if (assignment.ring)
      os << ", keys going round";
    os << " (operands";
    for (const nn::ValueFactors &value : rule.operands)
      os << " "
         << textOf(mesh, shardingOf(mesh, rule, value, assignment.factors));
    os << ")";
    return text;
  }
  static std::string textOf(const MeshInfo &mesh,
                            const ValueSharding &sharding) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << mesh.print(sharding);
    StringRef inner = text;
    inner.consume_front("#dist.sharding<");
    inner.consume_back(">");
    return inner.str();
  }

  LogicalResult sharded(const Assignment &assignment) {
    OwningOpRef<ModuleOp> module = makeModule();
    MLIRContext *context = op->getContext();
    OpBuilder builder = OpBuilder::atBlockBegin(module->getBody());
    static constexpr llvm::StringLiteral names[] = {"x", "y"};
    SmallVector<Attribute> axes;
    for (auto [i, size] : llvm::enumerate(assignment.mesh))
      axes.push_back(dist::MeshAxisAttr::get(context,
                                             StringAttr::get(context, names[i]),
                                             size, "memory", nullptr, nullptr));
    dist::MeshOp::create(builder, op->getLoc(), "mesh",
                         builder.getArrayAttr(axes), nullptr);
    FailureOr<MeshInfo> mesh = MeshInfo::get(*module);
    if (failed(mesh))
      return failure();

    auto function = *module->getOps<func::FuncOp>().begin();
    function.setPrivate(); // An entry's arguments keep their order.
    SmallVector<ValueSharding> given;
    for (auto [i, value] : llvm::enumerate(rule.operands)) {
      given.push_back(shardingOf(*mesh, rule, value, assignment.factors));
      function.setArgAttr(i, dist::kShardingAttr, mesh->print(given.back()));
    }
    SmallVector<Attribute> made;
    for (auto [i, value] : llvm::enumerate(rule.results)) {
      made.push_back(
          mesh->print(shardingOf(*mesh, rule, value, assignment.factors)));
      function.setResultAttr(i, dist::kShardingAttr,
                             mesh->print(ValueSharding(value.size())));
    }
    function.front().front().setAttr(dist::kShardingsAttr,
                                     builder.getArrayAttr(made));

    std::string how = "sharded, " + describe(*mesh, assignment);
    PassManager manager(context, ModuleOp::getOperationName());
    DistPartitionOptions options;
    options.context = assignment.ring ? "ring" : "gather";
    manager.addPass(createDistPartition(options));
    if (failed(manager.run(*module)) || failed(lower(*module)))
      return emitError(op->getLoc())
             << op->getName() << " cannot be computed " << how;
    function = *module->getOps<func::FuncOp>().begin();

    Devices devices(*module->getOps<dist::MeshOp>().begin());
    std::vector<Tensors> arguments(devices.count());
    for (auto [rank, own] : llvm::enumerate(arguments))
      for (auto [i, tensor] : llvm::enumerate(inputs)) {
        Tensor part = tensor;
        Element padding =
            paddingFor(tensorOf(op->getOperand(i)).getElementType());
        for (auto [d, dim] : llvm::enumerate(given[i].dims))
          if (!dim.axes.empty()) {
            if (dim.zigzag)
              part = inOrder(part, d, dim, padding);
            int64_t block = part.shape[d] / dim.blocks,
                    parts = mesh->sizeOf(dim.axes);
            part = shardOf(part, d, (block + parts - 1) / parts,
                           devices.indexOf(rank, mesh->axesOf(dim.axes)),
                           padding, dim.blocks);
          }
        own.push_back(std::move(part));
      }
    auto results = run(function, &devices, arguments);
    if (failed(results))
      return failure();
    for (auto [rank, found] : llvm::enumerate(*results))
      if (failed(compare(found, expected, how + ", on device " + Twine(rank))))
        return failure();
    return success();
  }

  /// The tensor with dimension `d` in the order of its sharding.
  static Tensor inOrder(Tensor &whole, unsigned d, const DimSharding &dim,
                        Element padding) {
    SmallVector<int64_t> shape = whole.shape;
    int64_t size = shape[d];
    shape[d] = dim.orderedSize(size);
    Tensor result(shape);
    result.each([&](ArrayRef<int64_t> index, Element &to) {
      SmallVector<int64_t> at(index);
      at[d] = dim.placeOf(index[d], size);
      to = at[d] < size ? whole.at(at) : padding;
    });
    return result;
  }

  //===--------------------------------------------------------------------===//
  // What is tried
  //===--------------------------------------------------------------------===//

  /// The factor of the queries of attention whose keys can go round; -1 of
  /// others.
  int ringQueries() {
    auto can = [](auto attention) { return !attention.getBias(); };
    auto attention = dyn_cast<nn::AttentionOp>(op);
    auto gradient = dyn_cast<nn::AttentionGradOp>(op);
    bool is = (attention && can(attention)) || (gradient && can(gradient));
    return is && llvm::any_of(rule.factors,
                              [](const nn::Factor &factor) {
                                return factor.expansion == "ring";
                              })
               ? rule.operands[0][1].front()
               : -1;
  }

  /// Whether the rule allows it: each factor can be sharded so, and each
  /// dimension can say it.
  bool isAllowed(const Assignment &assignment, const MeshInfo &mesh) {
    for (auto [factor, own] : llvm::zip_equal(rule.factors, assignment.factors))
      if (!own.axes.empty() &&
          (!isShardable(factor, own) ||
           // Queries in another order need keys that go round.
           (own.zigzag && factor.expansion == "offset_mask" &&
            !assignment.ring)))
        return false;
    for (const auto *values : {&rule.operands, &rule.results})
      for (const nn::ValueFactors &value : *values)
        for (const nn::DimFactors &dim : value) {
          bool complete;
          fromFactors(mesh, rule, dim, assignment.factors, complete);
          if (!complete)
            return false;
        }
    return true;
  }

  std::vector<Assignment> assignments() {
    std::vector<Assignment> list;
    auto add = [&](ArrayRef<int64_t> mesh,
                   ArrayRef<std::pair<size_t, DimSharding>> factors,
                   bool ring = false) {
      Assignment assignment{SmallVector<int64_t, 2>(mesh),
                            FactorShardings(rule.factors.size()), ring};
      for (auto &[f, own] : factors)
        assignment.factors[f] = own;
      MeshInfo info;
      planner::Mesh axes;
      for (int64_t size : mesh)
        axes.push_back({size, {}});
      info.planner = planner::Planner(std::move(axes));
      if (isAllowed(assignment, info))
        list.push_back(std::move(assignment));
    };
    DimSharding x{{0}, 1}, y{{1}, 1};
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      int64_t size = rule.factors[f].size;
      // Shards that fit, that are padded, of one element, and an empty one.
      for (int64_t devices : std::set<int64_t>{2, 3, size, size + 1})
        if (devices > 1)
          add({devices}, {{f, x}});
    }
    // The simple ones first: what fails should be easy to read.
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      int64_t size = rule.factors[f].size;
      add({2, 3}, {{f, DimSharding{{0, 1}, 1}}});
      add({3, 2}, {{f, DimSharding{{1, 0}, 1}}});
      for (int64_t blocks : {2, 3})
        if (size % blocks == 0 && size > blocks)
          add({2}, {{f, DimSharding{{0}, blocks}}});
      add({2}, {{f, DimSharding{{0}, 1, 4}}});
      for (size_t g = 0; g < rule.factors.size(); ++g)
        if (g != f)
          add({2, 3}, {{f, x}, {g, y}});
    }
    if (int queries = ringQueries(); queries >= 0) {
      auto f = static_cast<size_t>(queries);
      for (int64_t devices : {2, 3, 4}) {
        add({devices}, {{f, x}}, /*ring=*/true);
        add({devices}, {{f, DimSharding{{0}, 1, 2 * devices}}}, /*ring=*/true);
      }
      for (size_t g = 0; g < rule.factors.size(); ++g)
        if (g != f) {
          add({3, 2}, {{f, x}, {g, y}}, /*ring=*/true);
          add({3, 2}, {{f, DimSharding{{0}, 1, 6}}, {g, y}}, /*ring=*/true);
        }
    }
    return list;
  }

  /// What the rule says of sums, maxima and minima that are taken after the op.
  LogicalResult checkSums() {
    auto try_ = [&](ArrayRef<int> operands, nn::Reduction kind,
                    StringRef what) -> LogicalResult {
      for (int i : operands)
        if (!isa<FloatType>(tensorOf(op->getOperand(i)).getElementType()))
          return success();
      auto combine = [&](Element a, Element b) {
        return kind == nn::Reduction::Sum   ? a.f + b.f
               : kind == nn::Reduction::Max ? std::fmax(a.f, b.f)
                                            : std::fmin(a.f, b.f);
      };
      Tensors other = inputs, both = inputs, drawn = draw();
      std::string names;
      for (int i : operands) {
        names += (names.empty() ? "" : ", ") + std::to_string(i);
        other[i] = drawn[i];
        for (auto [to, a, b] :
             llvm::zip_equal(both[i].data, inputs[i].data, drawn[i].data))
          to.f = combine(a, b);
      }
      FailureOr<Tensors> first = whole(inputs), second = whole(other),
                         wanted = whole(both);
      if (failed(first) || failed(second) || failed(wanted))
        return failure();
      for (auto [r, result] : llvm::enumerate(op->getResults()))
        if (isa<FloatType>(tensorOf(result).getElementType()))
          for (auto [a, b, c] : llvm::zip_equal(
                   (*first)[r].data, (*second)[r].data, (*wanted)[r].data))
            // Of what has no value, such as the logarithm of a negative number,
            // nothing is claimed.
            a.f = std::isnan(a.f) || std::isnan(b.f) ? c.f : combine(a, b);
        else
          for (auto [a, b] :
               llvm::zip_equal((*first)[r].data, (*second)[r].data))
            a.i = kind == nn::Reduction::Sum   ? a.i + b.i
                  : kind == nn::Reduction::Max ? std::max(a.i, b.i)
                                               : std::min(a.i, b.i);
      return compare(*first, *wanted,
                     "where the " + what + " over operands " + names +
                         " is taken behind it");
    };
    SmallVector<int> all(rule.linearOperands);
    if (rule.linearity == nn::Linearity::Joint &&
        failed(try_(all, nn::Reduction::Sum, "sum")))
      return failure();
    for (int i = 0; i < static_cast<int>(op->getNumOperands()); ++i) {
      if (rule.linearity == nn::Linearity::Separate &&
          llvm::is_contained(all, i) &&
          failed(try_({i}, nn::Reduction::Sum, "sum")))
        return failure();
      if (rule.mayDefer(i, nn::Reduction::Max) &&
          failed(try_({i}, nn::Reduction::Max, "maximum")))
        return failure();
      if (rule.mayDefer(i, nn::Reduction::Min) &&
          failed(try_({i}, nn::Reduction::Min, "minimum")))
        return failure();
    }
    return success();
  }
};

struct DistCheckRules : sheaf::impl::DistCheckRulesBase<DistCheckRules> {
  using DistCheckRulesBase::DistCheckRulesBase;

  void runOnOperation() final {
    std::set<std::string> seen;
    int64_t ops = 0, shardings = 0;
    WalkResult result = getOperation()->walk([&](Operation *op) {
      auto isPlain = [](Type type) {
        auto tensor = dyn_cast<RankedTensorType>(type);
        return tensor && tensor.hasStaticShape() && !tensor.getEncoding();
      };
      if (op->getNumRegions() != 0 || op->getNumResults() == 0 ||
          op->hasTrait<OpTrait::IsTerminator>() ||
          !llvm::all_of(op->getOperandTypes(), isPlain) ||
          !llvm::all_of(op->getResultTypes(), isPlain))
        return WalkResult::advance();
      FailureOr<nn::ShardingRule> rule = nn::getRule(op);
      if (failed(rule))
        return WalkResult::advance();
      Checker checker(op, std::move(*rule), seed);
      if (checker.loops() > mostLoops) {
        emitRemark(op->getLoc())
            << op->getName() << " is not checked: it loops over more than "
            << mostLoops.getValue() << " elements; write it smaller";
        return WalkResult::advance();
      }
      seen.insert(op->getName().getStringRef().str());
      ++ops;
      return WalkResult(checker.check(shardings));
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    for (StringRef dialect : complete) {
      if (!getContext().getLoadedDialect(dialect)) {
        getOperation().emitError("dist-check-rules: there is no dialect '")
            << dialect << "'";
        return signalPassFailure();
      }
      for (RegisteredOperationName name :
           getContext().getRegisteredOperations())
        if (name.getDialectNamespace() == dialect &&
            name.hasInterface<nn::RuleOpInterface>() &&
            !seen.count(name.getStringRef().str())) {
          emitError(getOperation().getLoc())
              << name.getStringRef()
              << " has a rule and is not in the module, expected one to "
              << "check";
          signalPassFailure();
        }
    }
    emitRemark(getOperation().getLoc())
        << "rules of " << ops << " ops hold in " << shardings << " shardings";
    markAllAnalysesPreserved();
  }
};
} // namespace
