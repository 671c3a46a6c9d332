//===- KernelsTest.cpp - Kernels against an interpreter -------------------===//
//
// Every function of cases/*.mlir is a test. It is lowered and compiled, run on
// random inputs, and compared with the interpreter. It is run as one range,
// item by item backwards, and cut at random: the bits must be the same; so must
// they be where an output has the buffer of an input, as far as the kernel says
// that it may. Nothing may be written outside of the outputs. The same
// functions, by way of `nn-to-linalg` and upstream's loops, are the tests of
// that conversion.
//
// A function in which `FT` stands for a type is run with each float type, `ST`
// being the type of statistics that belongs to it (f32, or f64). Arguments may
// carry `test.range = [low, high]`, functions `test.tolerance` (a factor) and
// `test.special` (inputs get infinities, NaN and zeros).
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"
#include "Jit.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/CSE.h"
#include "sheaf/Casts.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::test;

namespace {

constexpr size_t kGuard = 256;
constexpr uint8_t kGuardByte = 0xA5;

/// Bytes of a tensor as the runtime would provide them, with guards around.
class Buffer {
public:
  explicit Buffer(size_t size, size_t offset = 0) : size(size), offset(offset) {
    size_t whole = (size + 2 * kGuard + offset + 63) / 64 * 64;
    memory.reset(static_cast<uint8_t *>(std::aligned_alloc(64, whole)));
    std::memset(memory.get(), kGuardByte, whole);
  }
  uint8_t *data() const { return memory.get() + kGuard + offset; }
  std::vector<uint8_t> bytes() const { return {data(), data() + size}; }
  bool guardsHold() const {
    for (size_t i = 0; i < kGuard; ++i)
      if (memory.get()[i] != kGuardByte || data()[size + i] != kGuardByte)
        return false;
    return true;
  }

private:
  struct Free {
    void operator()(uint8_t *p) const { std::free(p); }
  };
  size_t size;
  /// From where a line of the cache begins.
  size_t offset;
  std::unique_ptr<uint8_t, Free> memory;
};

size_t byteWidth(Type element) {
  return std::max<size_t>(1, element.getIntOrFloatBitWidth() / 8);
}

void writeElement(Type element, double value, uint8_t *to) {
  uint64_t bits = 0;
  if (auto type = dyn_cast<FloatType>(element)) {
    APFloat number(value);
    bool lost;
    number.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                   &lost);
    bits = number.bitcastToAPInt().getZExtValue();
  } else {
    bits = static_cast<uint64_t>(static_cast<int64_t>(value));
  }
  std::memcpy(to, &bits, byteWidth(element));
}

double readElement(Type element, const uint8_t *from) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, byteWidth(element));
  auto type = dyn_cast<FloatType>(element);
  if (!type) {
    if (element.isInteger(32))
      return static_cast<int32_t>(bits);
    return element.isInteger(8) ? static_cast<int8_t>(bits)
                                : static_cast<double>(bits);
  }
  APFloat number(type.getFloatSemantics(), APInt(type.getWidth(), bits));
  bool lost;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return number.convertToDouble();
}

RankedTensorType tensorType(Type type) { return cast<RankedTensorType>(type); }

Buffer toBuffer(RankedTensorType type, const Tensor &tensor) {
  size_t width = byteWidth(type.getElementType());
  Buffer buffer(width * tensor.data.size());
  for (size_t i = 0; i < tensor.data.size(); ++i)
    writeElement(type.getElementType(), tensor.data[i],
                 buffer.data() + i * width);
  return buffer;
}

Tensor randomTensor(RankedTensorType type, ArrayAttr range, bool special,
                    std::mt19937 &random) {
  Type element = type.getElementType();
  double low = -3, high = 3;
  if (range) {
    low = cast<FloatAttr>(range[0]).getValueAsDouble();
    high = cast<FloatAttr>(range[1]).getValueAsDouble();
  }
  std::uniform_real_distribution<double> real(low, high);
  std::uniform_int_distribution<int64_t> integer(static_cast<int64_t>(low),
                                                 static_cast<int64_t>(high));
  Tensor tensor{type.getShape().vec(), {}};
  const double specials[] = {INFINITY, -INFINITY, NAN,  0.0,
                             -0.0,     1.0,       -1.0, 2.0};
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    double value = real(random);
    if (element.isInteger(1))
      value = random() % 2;
    else if (isa<IntegerType>(element))
      value = integer(random);
    else if (special && random() % 3 == 0)
      value = specials[random() % 8];
    tensor.data.push_back(roundTo(element, value));
  }
  return tensor;
}

/// How far a result may be from the reference, relative to 1 and to itself.
double toleranceOf(Type element) {
  if (element.isF64())
    return 1e-13;
  if (element.isF32())
    return 1e-6;
  if (element.isF16())
    return 1.0 / 1024;
  if (element.isBF16())
    return 1.0 / 128;
  if (isa<FloatType>(element))
    return 1.0 / 8;
  return 0;
}

void decompose(func::FuncOp function) {
  bool again = true;
  while (again) {
    again = false;
    function.walk([&](nn::DecomposableOpInterface op) {
      OpBuilder builder(op);
      op->replaceAllUsesWith(op.decompose(builder));
      op->erase();
      again = true;
    });
  }
}

class KernelTest : public testing::Test {
public:
  KernelTest(std::string text, Jit::Route route)
      : text(std::move(text)), route(route) {}

  void TestBody() override {
    auto context = Jit::makeContext();
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(text, context.get());
    ASSERT_TRUE(module) << text;
    auto function = *module->getOps<func::FuncOp>().begin();
    func::FuncOp reference = function.clone();
    std::mt19937 random(7);
    std::vector<Tensor> inputs;
    bool special = function->hasAttr("test.special");
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      inputs.push_back(
          randomTensor(tensorType(type),
                       function.getArgAttrOfType<ArrayAttr>(i, "test.range"),
                       special, random));
    decompose(reference);
    std::vector<Tensor> wanted = interpret(reference, inputs);
    SmallVector<Type> argumentTypes(function.getArgumentTypes());
    SmallVector<Type> resultTypes(function.getResultTypes());
    double factor = 1;
    if (auto tolerance = function->getAttrOfType<FloatAttr>("test.tolerance"))
      factor = tolerance.getValueAsDouble();
    reference.erase();

    std::string error;
    auto jit = Jit::compile(*module, error, route);
    ASSERT_TRUE(jit) << error << "\n" << text;
    ASSERT_EQ(jit->getKernels().size(), 1u);
    const CompiledKernel &kernel = jit->getKernels()[0];
    ASSERT_GE(kernel.extent, 1);
    ASSERT_GE(kernel.grain, 1);

    using Cut = std::vector<std::pair<int64_t, int64_t>>;
    bool displaced = false;
    auto run = [&](const Cut &cut, llvm::ArrayRef<int64_t> inPlace) {
      std::vector<Buffer> in, out;
      std::vector<void *> pointers;
      for (auto [type, tensor] : llvm::zip(argumentTypes, inputs)) {
        in.push_back(toBuffer(tensorType(type), tensor));
        pointers.push_back(in.back().data());
      }
      for (Type type : resultTypes) {
        RankedTensorType tensor = tensorType(type);
        size_t width = byteWidth(tensor.getElementType());
        // Vectors that go past the caches begin at a line wherever a result
        // does.
        bool moved = route == Jit::Route::Streamed && displaced;
        out.emplace_back(tensor.getNumElements() * width,
                         moved ? width * (3 + 2 * out.size()) : 0);
        pointers.push_back(out.back().data());
      }
      for (size_t i = 0; i + 1 < inPlace.size(); i += 2)
        pointers[in.size() + inPlace[i + 1]] = pointers[inPlace[i]];
      for (auto [begin, end] : cut)
        kernel.entry(pointers.data(), begin, end);
      std::vector<std::vector<uint8_t>> results;
      for (auto [i, buffer] : llvm::enumerate(out)) {
        EXPECT_TRUE(buffer.guardsHold()) << "result " << i;
        results.push_back(buffer.bytes());
      }
      for (auto [i, buffer] : llvm::enumerate(in))
        EXPECT_TRUE(buffer.guardsHold()) << "argument " << i;
      for (size_t i = 0; i + 1 < inPlace.size(); i += 2)
        results[inPlace[i + 1]] = in[inPlace[i]].bytes();
      return results;
    };
    auto whole = run({{0, kernel.extent}}, {});

    // Against the reference.
    for (auto [i, type] : llvm::enumerate(resultTypes)) {
      RankedTensorType tensor = tensorType(type);
      Type element = tensor.getElementType();
      double tolerance = factor * toleranceOf(element);
      int wrong = 0;
      for (int64_t j = 0; j < tensor.getNumElements() && wrong < 5; ++j) {
        double got =
            readElement(element, whole[i].data() + j * byteWidth(element));
        double want = wanted[i].data[j];
        bool equal = got == want || (std::isnan(got) && std::isnan(want)) ||
                     std::fabs(got - want) <= tolerance * (1 + std::fabs(want));
        if (!equal) {
          ++wrong;
          ADD_FAILURE() << "result " << i << ", element " << j << ": got "
                        << got << ", expected " << want << "\n"
                        << text;
        }
      }
    }

    // However it is cut.
    Cut single, pieces;
    for (int64_t i = kernel.extent; i-- > 0;)
      single.push_back({i, i + 1});
    for (int64_t i = 0; i < kernel.extent;) {
      int64_t end = std::min<int64_t>(kernel.extent, i + 1 + random() % 7);
      pieces.push_back({i, end});
      i = end;
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    EXPECT_EQ(run(single, {}), whole) << text;
    EXPECT_EQ(run(pieces, {}), whole) << text;
    displaced = true;
    EXPECT_EQ(run(pieces, {}), whole) << text;
    displaced = false;

    // In place: each buffer once.
    std::vector<int64_t> pairs;
    std::set<int64_t> inputsUsed, resultsUsed;
    for (size_t i = 0; i + 1 < kernel.inPlace.size(); i += 2)
      if (!inputsUsed.count(kernel.inPlace[i]) &&
          !resultsUsed.count(kernel.inPlace[i + 1])) {
        inputsUsed.insert(kernel.inPlace[i]);
        resultsUsed.insert(kernel.inPlace[i + 1]);
        pairs.push_back(kernel.inPlace[i]);
        pairs.push_back(kernel.inPlace[i + 1]);
      }
    if (!pairs.empty()) {
      EXPECT_EQ(run({{0, kernel.extent}}, pairs), whole) << "in place\n"
                                                         << text;
      EXPECT_EQ(run(single, pairs), whole) << "in place\n" << text;
    }
  }

private:
  std::string text;
  Jit::Route route;
};

/// The error of a function of f32, on numbers from `low` to `high`.
void checkAccuracy(const std::string &op, double (*exact)(double), double low,
                   double high, double relative, double absolute) {
  constexpr int64_t count = 1 << 18;
  std::string type = "tensor<" + std::to_string(count) + "xf32>";
  std::string text = "func.func @f(%x: " + type + ") -> " + type +
                     " attributes {exec.kernel} {\n  %y = nn." + op +
                     " %x : " + type + "\n  return %y : " + type + "\n}";
  auto context = Jit::makeContext();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, context.get());
  ASSERT_TRUE(module);
  std::string error;
  auto jit = Jit::compile(*module, error);
  ASSERT_TRUE(jit) << error;
  Buffer in(count * 4), out(count * 4);
  std::vector<float> x(count), y(count);
  for (int64_t i = 0; i < count; ++i)
    x[i] = static_cast<float>(low + (high - low) * i / (count - 1));
  std::memcpy(in.data(), x.data(), count * 4);
  void *pointers[] = {in.data(), out.data()};
  jit->getKernels()[0].entry(pointers, 0, jit->getKernels()[0].extent);
  std::memcpy(y.data(), out.data(), count * 4);
  double worst = 0;
  int64_t where = 0;
  for (int64_t i = 0; i < count; ++i) {
    double want = exact(x[i]);
    double bound = relative * std::fabs(want) + absolute;
    double ratio = std::fabs(y[i] - want) / bound;
    if (!(ratio <= worst)) {
      worst = ratio;
      where = i;
    }
  }
  EXPECT_LE(worst, 1) << op << "(" << x[where] << ") = " << y[where]
                      << ", expected " << exact(x[where]);
  testing::Test::RecordProperty(op, std::to_string(worst));
}

/// The codes of a kernel are those of the library, to the bit: all signs and
/// exponents with the top 11 bits of the mantissa and four tails. NaN by class.
template <sheaf::Format format, typename Code>
void checkCast(const std::string &type, bool saturates,
               const std::string &word = "") {
  constexpr int64_t count = int64_t{1} << 22;
  std::string from = "tensor<" + std::to_string(count) + "xf32>",
              to = "tensor<" + std::to_string(count) + "x" + type + ">";
  auto context = Jit::makeContext();
  auto kernelOf = [&](const std::string &a, const std::string &b,
                      const std::string &word) {
    std::string text = "func.func @f(%x: " + a + ") -> " + b +
                       " attributes {exec.kernel} {\n  %y = nn.cast %x " +
                       word + ": " + a + " -> " + b + "\n  return %y : " + b +
                       "\n}";
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(text, context.get());
    std::string error;
    auto jit = module ? Jit::compile(*module, error) : nullptr;
    EXPECT_TRUE(jit) << error;
    return jit;
  };
  auto encoder = kernelOf(from, to, word), decoder = kernelOf(to, from, "");
  ASSERT_TRUE(encoder && decoder);
  Buffer in(count * 4), codes(count * sizeof(Code)), out(count * 4);
  std::vector<uint32_t> words(count);
  constexpr uint32_t tails[] = {0, 1, 0x800, 0xfff};
  for (int64_t i = 0; i < count; ++i)
    words[i] = static_cast<uint32_t>(i >> 2) << 12 | tails[i & 3];
  std::memcpy(in.data(), words.data(), count * 4);
  void *encoded[] = {in.data(), codes.data()},
       *decoded[] = {codes.data(), out.data()};
  encoder->getKernels()[0].entry(encoded, 0, encoder->getKernels()[0].extent);
  decoder->getKernels()[0].entry(decoded, 0, decoder->getKernels()[0].extent);
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) {
    Code found;
    float back;
    std::memcpy(&found, codes.data() + i * sizeof(Code), sizeof(Code));
    std::memcpy(&back, out.data() + i * 4, 4);
    float x;
    std::memcpy(&x, &words[i], 4);
    uint32_t expected = sheaf::encode<format>(x, saturates);
    float number = sheaf::decode<format>(expected);
    bool isRight = std::isnan(number)
                       ? std::isnan(back)
                       : found == expected &&
                             std::memcmp(&back, &number, sizeof(float)) == 0;
    if (!isRight && ++wrong == 1)
      ADD_FAILURE() << type << " of " << x << ": found " << uint32_t(found)
                    << ", " << back << ", expected " << expected << ", "
                    << number;
  }
  EXPECT_EQ(wrong, 0) << type;
}

/// The same of casts that round by random bits: numbers of all signs and
/// exponents and such as are often wrong, with extreme and random bits. NaN has
/// the library's code, too.
template <sheaf::Format format, typename Code>
void checkStochastic(const std::string &type, bool saturates) {
  constexpr int64_t count = int64_t{1} << 20;
  std::string size = "tensor<" + std::to_string(count) + "x";
  std::string from = size + "f32>", bits = size + "i32>",
              to = size + type + ">";
  std::string text =
      "func.func @f(%x: " + from + ", %r: " + bits + ") -> " + to +
      " attributes {exec.kernel} {\n  %y = nn.cast %x stochastic %r " +
      (saturates ? "saturate " : "") + ": " + from + ", " + bits + " -> " + to +
      "\n  return %y : " + to + "\n}";
  std::mt19937 random(11);
  Buffer in(count * 4), words(count * 4);
  std::vector<float> x(count);
  std::vector<uint32_t> r(count);
  constexpr uint32_t extremes[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word = static_cast<uint32_t>(i) << 12;
    if (i % 4 == 1)
      word |= random() & 0xfff;
    if (i % 4 == 2)
      word = random();
    std::memcpy(&x[i], &word, 4);
    r[i] = random() % 4 == 0 ? extremes[random() % 5] : random();
  }
  // Where formats end, and where their codes do.
  size_t at = 0;
  for (float edge : {448.0F, 464.0F, 480.0F, 57344.0F, 61440.0F, 65504.0F,
                     65535.0F, 3.3895314e38F, 3.4028235e38F, INFINITY, NAN,
                     0x1p-9F, 0x1p-10F, 0x1p-17F, 0x1p-25F, 1e-45F, 1e-38F})
    for (float sign : {1.0F, -1.0F})
      for (uint32_t word : extremes) {
        x[at] = sign * edge;
        r[at++] = word;
      }
  std::memcpy(in.data(), x.data(), count * 4);
  std::memcpy(words.data(), r.data(), count * 4);
  for (Jit::Route route : {Jit::Route::Kernels, Jit::Route::Linalg}) {
    auto context = Jit::makeContext();
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(text, context.get());
    ASSERT_TRUE(module) << text;
    std::string error;
    auto jit = Jit::compile(*module, error, route);
    ASSERT_TRUE(jit) << error;
    Buffer codes(count * sizeof(Code));
    void *pointers[] = {in.data(), words.data(), codes.data()};
    jit->getKernels()[0].entry(pointers, 0, jit->getKernels()[0].extent);
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; ++i) {
      Code found;
      std::memcpy(&found, codes.data() + i * sizeof(Code), sizeof(Code));
      uint32_t expected =
          sheaf::encodeStochastic<format>(x[i], saturates, r[i]);
      if (found != expected && ++wrong == 1)
        ADD_FAILURE() << type << " of " << x[i] << " by " << r[i] << ": found "
                      << uint32_t(found) << ", expected " << expected;
    }
    EXPECT_EQ(wrong, 0) << type;
  }
}

TEST(casts, by_random_bits) {
  for (bool saturates : {false, true}) {
    checkStochastic<sheaf::Format::BF16, uint16_t>("bf16", saturates);
    checkStochastic<sheaf::Format::FP16, uint16_t>("f16", saturates);
  }
  checkStochastic<sheaf::Format::E4M3, uint8_t>("f8E4M3FN", true);
  checkStochastic<sheaf::Format::E5M2, uint8_t>("f8E5M2", true);
}

TEST(casts, as_the_library) {
  checkCast<sheaf::Format::BF16, uint16_t>("bf16", false);
  checkCast<sheaf::Format::FP16, uint16_t>("f16", false);
  checkCast<sheaf::Format::E4M3, uint8_t>("f8E4M3FN", true);
  checkCast<sheaf::Format::E5M2, uint8_t>("f8E5M2", true);
  checkCast<sheaf::Format::E8M0, uint8_t>("f8E8M0FNU", true);
  checkCast<sheaf::Format::BF16, uint16_t>("bf16", true, "saturate ");
  checkCast<sheaf::Format::FP16, uint16_t>("f16", true, "saturate ");
}

TEST(accuracy, exp) {
  checkAccuracy("exp", std::exp, -87, 88, 2e-7, 0);
  checkAccuracy("exp", std::exp, -1, 1, 1.5e-7, 0);
  // Subnormal results, and 0.
  checkAccuracy("exp", std::exp, -120, -87, 2e-7, 1e-45);
}
TEST(accuracy, log) {
  checkAccuracy("log", std::log, 1e-38, 100, 2e-7, 0);
  checkAccuracy("log", std::log, 0.9, 1.1, 2e-7, 0);
  checkAccuracy("log", std::log, 1e-45, 1e-37, 2e-7, 0);
  checkAccuracy("log", std::log, 1, 3e38, 2e-7, 0);
}
TEST(accuracy, tanh) {
  checkAccuracy("tanh", std::tanh, -12, 12, 3e-7, 0);
  checkAccuracy("tanh", std::tanh, -1, 1, 3e-7, 0);
  checkAccuracy("tanh", std::tanh, -1e-4, 1e-4, 3e-7, 0);
  checkAccuracy("tanh", std::tanh, -1000, 1000, 3e-7, 0);
}
TEST(accuracy, erf) {
  checkAccuracy("erf", std::erf, -5, 5, 3e-7, 0);
  checkAccuracy("erf", std::erf, -1e-3, 1e-3, 3e-7, 0);
  checkAccuracy("erf", std::erf, -1000, 1000, 3e-7, 0);
}
TEST(accuracy, sin_cos) {
  checkAccuracy("sin", std::sin, -1e5, 1e5, 1e-7, 1e-12);
  checkAccuracy("cos", std::cos, -1e5, 1e5, 1e-7, 1e-12);
  checkAccuracy("sin", std::sin, -4, 4, 1e-7, 0);
  checkAccuracy("cos", std::cos, -4, 4, 1e-7, 1e-12);
  checkAccuracy("sin", std::sin, -1e9, 1e9, 0, 1e-7);
}
TEST(accuracy, sigmoid) {
  checkAccuracy(
      "sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80, 4e-7,
      0);
}

/// The functions of a file, as text.
std::vector<std::string> splitFunctions(StringRef text) {
  std::vector<std::string> functions;
  while (true) {
    size_t start = text.find("func.func");
    if (start == StringRef::npos)
      return functions;
    size_t end = text.find("\n}", start);
    functions.push_back(text.slice(start, end + 2).str());
    text = text.drop_front(end + 2);
  }
}

void replaceAll(std::string &text, StringRef from, StringRef to) {
  for (size_t at = 0; (at = text.find(from.str(), at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to.str());
}

void registerFile(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    llvm::report_fatal_error("cannot read " + path);
  std::string suite = llvm::sys::path::stem(path).str();
  for (const std::string &function : splitFunctions((*buffer)->getBuffer())) {
    StringRef name = StringRef(function).split('@').second.split('(').first;
    bool generic = StringRef(function).contains("FT");
    for (StringRef type : {"f32", "f64", "bf16", "f16"}) {
      std::string text = function;
      replaceAll(text, "FT", type);
      replaceAll(text, "ST", type == "f64" ? "f64" : "f32");
      std::string test = name.str() + (generic ? "_" + type.str() : "");
      auto add = [&](const std::string &suite, Jit::Route route) {
        testing::RegisterTest(suite.c_str(), test.c_str(), nullptr, nullptr,
                              path.data(), 1,
                              [text, route]() -> testing::Test * {
                                return new KernelTest(text, route);
                              });
      };
      add(suite, Jit::Route::Kernels);
      if (suite == "rows")
        add("streamed_rows", Jit::Route::Streamed);
      if (!generic || type == "f32" || type == "bf16")
        add("linalg_" + suite, Jit::Route::Linalg);
      if (!generic)
        break;
    }
  }
}
} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  std::error_code error;
  std::vector<std::string> files;
  for (llvm::sys::fs::directory_iterator it(SHEAF_KERNEL_CASES, error), end;
       it != end && !error; it.increment(error))
    files.push_back(it->path());
  std::sort(files.begin(), files.end());
  for (const std::string &file : files)
    registerFile(file);
  return RUN_ALL_TESTS();
}
