#include "Options.h"
#include "sheaf/Error.h"
#include "sheaf/Text.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

using namespace sheaf;

namespace {
struct Option {
  std::string name;
  std::string value; ///< what the value is; empty: none; "[...]": may be absent
  std::string help;
  std::function<void(RunOptions &, const std::string &)> store;
};

[[noreturn]] void wrong(const std::string &name, const std::string &value,
                        std::string_view expected) {
  fail("--{}={}: expected {}", name, value, expected);
}

template <typename T>
T number(const std::string &name, const std::string &text, T least, T most,
         std::string_view expected) {
  T value{};
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(value >= least && value <= most))
    wrong(name, text, expected);
  return value;
}

Option text(const char *name, const char *value, const char *help,
            std::string RunOptions::*field) {
  return {name, value, help,
          [name, field](RunOptions &options, const std::string &v) {
            if (v.empty())
              wrong(name, v, "a value");
            options.*field = v;
          }};
}

Option count(const char *name, const char *help, int64_t RunOptions::*field,
             int64_t least = 0) {
  return {name, "N", help,
          [name, field, least](RunOptions &options, const std::string &v) {
            options.*field =
                number<int64_t>(name, v, least, int64_t{1} << 40,
                                least ? "a whole number of at least 1"
                                      : "a whole number of at least 0");
          }};
}

Option flag(const char *name, const char *help, bool RunOptions::*field) {
  return {name, "", help, [field](RunOptions &options, const std::string &) {
            options.*field = true;
          }};
}

/// The largest decay rate: at 1 the average never moves, and its correction
/// divides by zero.
const double belowOne = std::nextafter(1.0, 0.0);

Option scalar(const char *name, const char *buffer, const char *help,
              double least, double most) {
  return {
      name, "X", help,
      [name, buffer, least, most](RunOptions &options, const std::string &v) {
        options.scalars[buffer] =
            number<double>(name, v, least, most,
                           fmt::format("a number from {:g} to {}{:g}", least,
                                       most == belowOne ? "below " : "", most));
      }};
}

const std::vector<Option> &table() {
  static const std::vector<Option> options = {
      text("data", "FILE",
           "tokens to train on: raw u16, u32 or u8, or llm.c's format",
           &RunOptions::data),
      {"token-type", "u16|u32|u8",
       "type of raw tokens (u16); u8 trains on the bytes of any file",
       [](RunOptions &o, const std::string &v) {
         if (v == "u8")
           o.tokenType = TokenType::U8;
         else if (v == "u16")
           o.tokenType = TokenType::U16;
         else if (v == "u32")
           o.tokenType = TokenType::U32;
         else
           wrong("token-type", v, "u16, u32 or u8");
       }},
      {"steps", "N", "optimizer steps of the whole run, resumed ones included",
       [](RunOptions &o, const std::string &v) {
         o.steps = number<int64_t>("steps", v, 0, int64_t{1} << 31,
                                   "a whole number from 0 to 2^31");
       }},
      {"seed", "N", "seed of initial values, order, dropout and samples (0)",
       [](RunOptions &o, const std::string &v) {
         o.seed = number<uint64_t>("seed", v, 0, UINT64_MAX,
                                   "a whole number from 0 to 2^64 - 1");
       }},
      {"order", "sequential|random", "order of the samples (sequential)",
       [](RunOptions &o, const std::string &v) {
         if (v != "sequential" && v != "random")
           wrong("order", v, "sequential or random");
         o.order = v == "random" ? DataOrder::Random : DataOrder::Sequential;
       }},
      {"threads", "N",
       "threads of each rank (the cores over the ranks of the process)",
       [](RunOptions &o, const std::string &v) {
         o.threads = number<int>("threads", v, 1, 1024,
                                 "a whole number from 1 to 1024");
       }},
      {"device", "cpu|sim",
       "where to run (cpu); sim predicts a step on the cluster of --cluster, "
       "without data and without computing",
       [](RunOptions &o, const std::string &v) {
         if (v != "cpu" && v != "sim")
           wrong("device", v, "cpu or sim, the devices of this build");
         o.device = v;
       }},
      text("cluster", "FILE.json",
           "the cluster of --device=sim, such as examples/clusters/h100.json",
           &RunOptions::cluster),
      text("report", "FILE.json", "writes what --device=sim predicts as JSON",
           &RunOptions::report),
      text("measure-cluster", "FILE.json",
           "needs no artifact: measures this machine and writes the cluster "
           "that its CPU ranks are",
           &RunOptions::measureCluster),
      text("collectives", "FILE",
           "writes what the ranks sent to each other as JSON: kind, axes, "
           "bytes, count",
           &RunOptions::collectives),
      {"wait-limit", "SECONDS",
       "ends the run where a rank waits longer for what another sends, and "
       "says which, for what, and in which action (600); 0: never",
       [](RunOptions &o, const std::string &v) {
         o.waitLimit = number<double>("wait-limit", v, 0, 1e9,
                                      "a number of seconds from 0 to 1e9");
       }},
      {"transfer-delays", "SEED",
       "tests what goes on beside transfers: each begins and ends up to a "
       "millisecond late, by times that follow from the seed and the rank; "
       "what is sent is read as late as may be, and what comes is all ones "
       "until it is waited for",
       [](RunOptions &o, const std::string &v) {
         o.transferDelays =
             number<uint64_t>("transfer-delays", v, 0, UINT64_MAX,
                              "a whole number from 0 to 2^64 - 1");
       }},
      text("log", "FILE", "writes a JSON object a line for each step",
           &RunOptions::log),
      text("plot", "FILE.svg", "draws the loss at the end", &RunOptions::plot),
      text("load", "FILE", "starts from the parameters of a safetensors file",
           &RunOptions::load),
      text("save", "FILE",
           "saves the parameters at the end; with --steps=0 the initial ones",
           &RunOptions::save),
      text("checkpoint", "DIR", "saves the run there, at the end at least",
           &RunOptions::checkpoint),
      count("checkpoint-every", "saves every N steps",
            &RunOptions::checkpointEvery, 1),
      flag("resume", "goes on from the newest whole checkpoint, to the bit",
           &RunOptions::resume),
      text("eval-data", "FILE", "held-out tokens", &RunOptions::evalData),
      count("eval-every", "held-out loss after every N steps (at the end only)",
            &RunOptions::evalEvery, 1),
      count("eval-batches", "held-out batches each time, at most (8)",
            &RunOptions::evalBatches, 1),
      count("sample", "generates N tokens at the end", &RunOptions::sample),
      text("prompt", "TEXT",
           "what the sample goes on from; token numbers with commas where the "
           "vocabulary is not bytes",
           &RunOptions::prompt),
      {"temperature", "X", "of the sample (1); 0 takes the likeliest",
       [](RunOptions &o, const std::string &v) {
         o.temperature =
             number<double>("temperature", v, 0, 1e6, "a number of at least 0");
       }},
      {"verify", "[REF]",
       "compares loss and gradients of one step with a reference artifact, by "
       "default one that the sheaf-compile beside this program makes",
       [](RunOptions &o, const std::string &v) {
         o.verify = true;
         o.reference = v;
       }},
      {"info", "[json]",
       "shows what the artifact is; =json prints its manifest",
       [](RunOptions &o, const std::string &v) {
         if (!v.empty() && v != "json")
           wrong("info", v, "no value, or json");
         o.info = true;
         o.infoJson = !v.empty();
       }},
      flag(
          "profile",
          "shows at the end the time of each kernel and product, and its share "
          "of what this machine can do",
          &RunOptions::profile),
      text("trace", "FILE.json",
           "writes each call of a kernel or product, each action of a "
           "pipeline and each transfer of every rank as an event for Chrome's "
           "tracing or Perfetto",
           &RunOptions::trace),
      flag("memory-report",
           "shows memory before the first step, its peak, and the manifest's "
           "promise",
           &RunOptions::memoryReport),
      flag("quiet", "no progress, no curve", &RunOptions::quiet),
      text("call", "ENTRY",
           "calls one entry, several with commas between, or all",
           &RunOptions::call),
      text("inputs", "FILE",
           "safetensors file with buffers for --call, by name",
           &RunOptions::inputs),
      text("outputs", "FILE",
           "safetensors file for all buffers of the entries called",
           &RunOptions::outputs),
      scalar("lr", "lr", "learning rate", 0, 1e6),
      scalar("warmup", "warmup", "steps of linear warm-up", 0, 1e9),
      scalar("min-lr", "min_lr", "learning rate after the decay", 0, 1e6),
      scalar("decay-steps", "decay_steps", "steps of decay; 0: constant", 0,
             1e9),
      scalar("weight-decay", "weight_decay", "AdamW's weight decay", 0, 1e6),
      scalar("beta1", "beta1", "AdamW's first decay rate", 0, belowOne),
      scalar("beta2", "beta2", "AdamW's second decay rate", 0, belowOne),
      scalar("eps", "eps", "AdamW's epsilon", 0, 1e6),
      scalar("clip", "clip", "largest gradient norm; 0: off", 0, 1e30),
      scalar("momentum", "momentum", "SGD's momentum", 0, 1),
      scalar("loss-scale", "first_loss_scale",
             "fp16: the first scale of the loss", 1, 1e30),
      scalar("loss-scale-window", "loss_scale_window",
             "fp16: steps without an overflow that double the scale", 1, 1e9),
  };
  return options;
}

const Option &findOption(const std::string &name) {
  const std::vector<Option> &options = table();
  auto found = std::find_if(options.begin(), options.end(),
                            [&](const Option &o) { return o.name == name; });
  if (found != options.end())
    return *found;
  std::vector<std::string> names;
  for (const Option &option : options)
    names.push_back(option.name);
  fail("unknown option --{}; did you mean --{}? (--help lists all)", name,
       nearestName(names, name));
}
} // namespace

std::optional<RunOptions>
sheaf::parseOptions(const std::vector<std::string> &words) {
  RunOptions options;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string &word = words[i];
    if (word == "--help" || word == "-h")
      return std::nullopt;
    if (word.rfind("--", 0) != 0) {
      if (word.rfind("-", 0) == 0)
        fail("unknown option {}; options start with --", word);
      if (!options.artifact.empty())
        fail("two artifacts: '{}' and '{}'; expected one", options.artifact,
             word);
      options.artifact = word;
      continue;
    }
    size_t equal = word.find('=');
    std::string name = word.substr(
        2, equal == std::string::npos ? std::string::npos : equal - 2);
    const Option &option = findOption(name);
    std::string value;
    if (equal != std::string::npos) {
      value = word.substr(equal + 1);
      if (option.value.empty())
        fail("--{} takes no value", name);
    } else if (!option.value.empty() && option.value[0] != '[') {
      if (++i == words.size())
        fail("--{} needs a value: {}", name, option.value);
      value = words[i];
    }
    option.store(options, value);
  }
  if (options.device != "sim")
    for (const auto &[name, value] :
         {std::pair("cluster", &options.cluster), {"report", &options.report}})
      if (!value->empty())
        fail("--{} belongs to --device=sim; this run is on --device={}", name,
             options.device);
  if (options.device == "sim" && options.transferDelays)
    fail("--transfer-delays belongs to --device=cpu; a simulated transfer "
         "moves nothing");
  if (options.artifact.empty() && options.measureCluster.empty())
    fail("give an artifact, as sheaf-compile writes it (--help lists the "
         "options)");
  return options;
}

std::string sheaf::helpText() {
  std::string out =
      "usage: sheaf-run ARTIFACT [options]\n\n"
      "Trains the model that sheaf-compile made an artifact of. Options are "
      "--name=value\nor --name value.\n\n";
  for (const Option &option : table()) {
    std::string left = "  --" + option.name;
    if (!option.value.empty())
      left += option.value[0] == '[' ? "[=" + option.value.substr(1)
                                     : "=" + option.value;
    // Folded to 80 columns.
    std::string line = fmt::format("{:<28}", left);
    if (left.size() >= 28)
      line = left + "\n" + std::string(28, ' ');
    size_t column = 28;
    std::string words = option.help;
    while (!words.empty()) {
      size_t space = words.find(' ');
      std::string word = words.substr(0, space);
      words = space == std::string::npos ? "" : words.substr(space + 1);
      if (column > 28 && column + 1 + word.size() > 79) {
        line += "\n" + std::string(28, ' ');
        column = 28;
      }
      if (column > 28) {
        line += " ";
        ++column;
      }
      line += word;
      column += word.size();
    }
    out += line + "\n";
  }
  out +=
      "\nThe scalars --lr to --loss-scale-window replace what the artifact was "
      "compiled with;\n--warmup and --decay-steps count steps.\n\n"
      "Sample j = step * batch + i reads T + 1 tokens from position j T, "
      "wrapping; in random\norder from Philox(seed, j) modulo the number of "
      "tokens less T.\n\n"
      "mfu in the log is model FLOPs utilisation: the FLOPs of the model's "
      "products, forward\nand backward, without recomputation, over the "
      "step's time over the rate of a large product\nmeasured at start with "
      "the run's threads.\n\n"
      "An artifact compiled for a mesh runs its ranks as threads of one "
      "process, or "
      "under\n`mpirun -n N` as N processes, with the same bits.\n\n"
      "--version alone prints the version.\n\n"
      "Exit status: 0 done, 1 failed or not equal to the reference, 128 + "
      "signal when stopped.\n";
  return out;
}
