//===- sheaf-model.cpp - Writes model IR ----------------------------------===//
//
// Parses the command line, calls the library of models, and writes the result.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "models/Models.h"
#include "support/Version.h"
#include "support/WriteFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"
#include <csignal>

using namespace sheaf::models;
namespace cl = llvm::cl;

namespace {
cl::OptionCategory ours("Options of sheaf-model");

cl::opt<std::string> familyName(cl::Positional,
                                cl::desc("gpt|llama|mixtral|qwen|deepseek"),
                                cl::cat(ours));
struct Size : cl::opt<int64_t> {
  Size(llvm::StringRef name, llvm::StringRef text)
      : cl::opt<int64_t>(name, cl::desc(text), cl::value_desc("N"),
                         cl::cat(ours)) {}
};
Size layers("layers", "Layers (4)");
Size hidden("hidden", "Width of an activation (128)");
Size heads("heads", "Attention heads (4)");
Size
    kvHeads("kv-heads",
            "Key and value heads, but for gpt and deepseek (as many as heads)");
Size ffn(
    "ffn",
    "Width of the MLP (gpt: 4 hidden; others: 8/3 hidden, rounded up to 64)");
Size experts("experts", "Experts of a layer (8)");
Size expertsPerToken("experts-per-token", "Experts that a token goes to (2)");
Size sharedExperts("shared-experts",
                   "Experts of deepseek that every token goes to (1)");
Size expertFfn("expert-ffn",
               "Width of an expert (that of the MLP; deepseek: a ninth of it)");
Size
    denseLayers("dense-layers",
                "First layers of deepseek with an MLP in place of experts (1)");
struct Number : cl::opt<double> {
  Number(llvm::StringRef name, llvm::StringRef text)
      : cl::opt<double>(name, cl::desc(text), cl::value_desc("X"),
                        cl::cat(ours)) {}
};
Number capacityFactor(
    "capacity-factor",
    "Let an expert take X times its share of a sample's tokens and drop the "
    "rest (no token is dropped)");
Number balanceLoss("balance-loss",
                   "Weight of the loss that balances experts (0); it is logged "
                   "whatever its weight");
Number zLoss("z-loss", "Weight of the loss that keeps router logits small (0)");
Number balanceBias(
    "balance-bias",
    "Balance experts by a bias that each step moves by X (deepseek: 0.001; "
    "others: no bias)");
Size vocab("vocab", "Tokens in the vocabulary (256)");
Size seq("seq", "Tokens of a sample (128)");
Size batch("batch", "Samples of one step, on all devices together (8)");
cl::opt<std::string>
    hfConfig("hf-config",
             cl::desc("Take the shape from a Hugging Face config.json "
                      "instead of the options above, but for seq and batch"),
             cl::value_desc("file"), cl::cat(ours));
cl::opt<bool>
    tie("tie", cl::desc("Use the embedding table as the head (default of gpt)"),
        cl::cat(ours));
cl::opt<bool>
    untie("untie",
          cl::desc("Give the head a weight of its own (default of others)"),
          cl::cat(ours));
cl::opt<double>
    dropout("dropout",
            cl::desc("Dropout of gpt, of the embedding and of both parts of a "
                     "block (0); attention probabilities have none"),
            cl::value_desc("P"), cl::cat(ours));
Size window("window",
            "Let a token see N tokens, itself included (all before it)");
cl::opt<bool> documents(
    "documents",
    cl::desc("Keep attention within a document: adds a batch argument with "
             "the number of each token's document (positions run on)"),
    cl::cat(ours));
cl::opt<double> labelSmoothing("label-smoothing",
                               cl::desc("Label smoothing of the loss (0)"),
                               cl::value_desc("E"), cl::cat(ours));
enum class Dtype { f32, f64 };
cl::opt<Dtype> dtype("dtype",
                     cl::desc("Type of parameters and activations (f32)"),
                     cl::values(clEnumValN(Dtype::f32, "f32", "32-bit floats"),
                                clEnumValN(Dtype::f64, "f64", "64-bit floats")),
                     cl::init(Dtype::f32), cl::cat(ours));
cl::opt<bool> parameters(
    "parameters",
    cl::desc("Print the number of parameters; writes a model only with -o"),
    cl::cat(ours));
cl::opt<std::string> output("o",
                            cl::desc("Where the model goes (standard output)"),
                            cl::value_desc("file"), cl::init("-"),
                            cl::cat(ours));

llvm::Error error(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

llvm::Expected<Family> parseFamily() {
  if (familyName == "gpt")
    return Family::GPT;
  if (familyName == "llama")
    return Family::Llama;
  if (familyName == "mixtral")
    return Family::Mixtral;
  if (familyName == "qwen")
    return Family::Qwen;
  if (familyName == "deepseek")
    return Family::DeepSeek;
  if (familyName.empty())
    return error("no family of models is given, expected gpt, llama, mixtral, "
                 "qwen or deepseek; see sheaf-model --help");
  return error("unknown family '" + familyName +
               "', expected gpt, llama, mixtral, qwen or deepseek");
}

/// What the options say about experts, which `model` has or not.
llvm::Error describeExperts(Model &model) {
  bool deepSeek = model.family == Family::DeepSeek;
  struct Setting {
    Size &option;
    int64_t Experts::*field;
    bool deepSeekAlone;
  };
  const Setting sizes[] = {{experts, &Experts::count, false},
                           {expertsPerToken, &Experts::perToken, false},
                           {expertFfn, &Experts::ffn, false},
                           {sharedExperts, &Experts::shared, true},
                           {denseLayers, &Experts::denseLayers, true}};
  struct Weight {
    Number &option;
    double Experts::*field;
  };
  const Weight weights[] = {{balanceLoss, &Experts::balanceLoss},
                            {zLoss, &Experts::zLoss},
                            {balanceBias, &Experts::biasRate}};
  auto refuse = [&](const cl::Option &option, bool deepSeekAlone) {
    return error("--" + option.ArgStr + " has no meaning for " + familyName +
                 ", expected " +
                 (deepSeekAlone ? "deepseek" : "mixtral, qwen or deepseek"));
  };
  bool fromFile = hfConfig.getNumOccurrences() != 0;
  if (model.experts && deepSeek && !fromFile)
    model.experts->denseLayers = model.layers > 1 ? 1 : 0;
  for (const Setting &setting : sizes) {
    if (!setting.option.getNumOccurrences())
      continue;
    if (!model.experts || (setting.deepSeekAlone && !deepSeek))
      return refuse(setting.option, setting.deepSeekAlone);
    if (fromFile)
      return error(
          "--" + setting.option.ArgStr +
          " and --hf-config both give the shape, expected one of them");
    // Those of DeepSeek alone may be 0.
    int64_t least = setting.deepSeekAlone ? 0 : 1;
    if (setting.option < least)
      return error(setting.option.ArgStr + " is " +
                   llvm::Twine(setting.option) +
                   ", expected a number of at least " + llvm::Twine(least));
    *model.experts.*setting.field = setting.option;
  }
  for (const Weight &weight : weights) {
    if (!weight.option.getNumOccurrences())
      continue;
    if (!model.experts)
      return refuse(weight.option, false);
    *model.experts.*weight.field = weight.option;
  }
  if (balanceBias.getNumOccurrences())
    model.experts->bias |= balanceBias != 0;
  if (capacityFactor.getNumOccurrences()) {
    if (!model.experts)
      return refuse(capacityFactor, false);
    model.experts->capacityFactor = capacityFactor.getValue();
  }
  // V3 has 256 experts in 8 groups, of which a token may choose 4.
  if (deepSeek && !fromFile) {
    Experts &all = *model.experts;
    if (all.count % 4 == 0 && all.count / 2 >= all.perToken &&
        all.count / 4 >= 2) {
      all.groups = 4;
      all.groupsKept = 2;
      all.groupBest = 2;
    }
  }
  return llvm::Error::success();
}

llvm::Expected<Model> describe() {
  llvm::Expected<Family> family = parseFamily();
  if (!family)
    return family.takeError();
  Model model(*family);

  struct Setting {
    Size &option;
    int64_t &field;
  };
  int64_t windowSize = 0;
  Setting shape[] = {{layers, model.layers}, {hidden, model.hidden},
                     {heads, model.heads},   {kvHeads, model.kvHeads},
                     {ffn, model.ffn},       {vocab, model.vocab}};
  Setting others[] = {
      {seq, model.seq}, {batch, model.batch}, {window, windowSize}};
  auto take = [](Setting setting) -> llvm::Error {
    if (!setting.option.getNumOccurrences())
      return llvm::Error::success();
    if (setting.option < 1)
      return error(setting.option.ArgStr + " is " +
                   llvm::Twine(setting.option) +
                   ", expected a number of at least 1");
    setting.field = setting.option;
    return llvm::Error::success();
  };
  for (Setting setting : shape) {
    if (hfConfig.getNumOccurrences() && setting.option.getNumOccurrences())
      return error(
          "--" + setting.option.ArgStr +
          " and --hf-config both give the shape, expected one of them");
    if (llvm::Error e = take(setting))
      return e;
  }
  for (Setting setting : others)
    if (llvm::Error e = take(setting))
      return e;

  if (hfConfig.getNumOccurrences())
    if (llvm::Error e = readHuggingFaceConfig(
            hfConfig, model, dropout.getNumOccurrences() != 0, llvm::errs()))
      return e;
  if (llvm::Error e = describeExperts(model))
    return e;
  if (tie && untie)
    return error("--tie and --untie exclude each other");
  if (tie || untie)
    model.tied = tie;
  if (windowSize)
    model.window = windowSize;
  model.dropout = dropout;
  model.labelSmoothing = labelSmoothing;
  model.documents = documents;
  model.doublePrecision = dtype == Dtype::f64;
  if (llvm::Error e = complete(model))
    return e;
  return model;
}

llvm::Error run() {
  llvm::Expected<Model> model = describe();
  if (!model)
    return model.takeError();
  if (parameters)
    llvm::outs() << countParameters(*model) << "\n";
  if (parameters && !output.getNumOccurrences())
    return llvm::Error::success();

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module = build(context, *model);
  if (mlir::failed(mlir::verify(*module)))
    return error("the model does not verify");
  std::string text;
  llvm::raw_string_ostream os(text);
  print(*module, *model, os);
  return sheaf::writeFile(output, text);
}
} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // A file-size limit is then an error of write(), with a message.
  signal(SIGXFSZ, SIG_IGN);
  // The shared library brings hundreds of options of its own.
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (!llvm::is_contained(option->Categories, &ours) && name != "help")
      option->setHiddenFlag(cl::Hidden);
  cl::SetVersionPrinter(sheaf::printVersion);
  cl::ParseCommandLineOptions(
      argc, argv,
      "Writes the IR of a language model: its loss and its logits.\n");
  if (llvm::Error e = run()) {
    llvm::WithColor::error(llvm::errs(), "sheaf-model")
        << llvm::toString(std::move(e)) << "\n";
    return 1;
  }
  return 0;
}
