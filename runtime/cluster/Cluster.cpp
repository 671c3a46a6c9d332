//===- Cluster.cpp - descriptions of clusters -----------------------------===//
//
// Reads and writes the files of docs/design/simulation.md. Anyone may have
// written them: what read() returns is consistent, everything else is an Error
// that names the field by its path.
//
//===----------------------------------------------------------------------===//

#include "sheaf/Cluster.h"
#include "sheaf/Error.h"
#include "sheaf/Files.h"
#include "sheaf/Json.h"
#include "sheaf/Text.h"
#include "sheaf/Types.h"
#include <algorithm>
#include <cmath>
#include <initializer_list>

using namespace sheaf;
using Json = nlohmann::ordered_json;

namespace {
/// No figure of a machine is larger, and sums of many fit a double.
constexpr double largest = 1e30;

/// Typed access to the fields of one object, which is at `path` in the file.
class Object {
public:
  Object(const Json &json, const std::string &file, std::string path,
         std::initializer_list<std::string_view> known)
      : json(json), file(file), path(std::move(path)) {
    if (!json.is_object())
      fail("{}: {} is {}; expected an object with {}", file, this->path,
           jsonText(json), fmt::join(known, ", "));
    std::vector<std::string_view> keys(known);
    keys.push_back("source");
    for (const auto &[key, value] : json.items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        fail("{}: {} is no key of a description; did you mean \"{}\"? Known "
             "here: {}",
             file, at(key), nearestName(keys, key), fmt::join(keys, ", "));
      if (key == "source")
        checkSource(value);
    }
  }

  std::string at(std::string_view key) const {
    return path == "the file" ? std::string(key)
                              : fmt::format("{}.{}", path, key);
  }
  bool has(const char *key) const { return json.contains(key); }
  const Json &get(const char *key) const {
    auto found = json.find(key);
    if (found == json.end())
      fail("{}: {} is missing", file, at(key));
    return *found;
  }

  std::string text(const char *key, const char *otherwise) const {
    if (!has(key))
      return otherwise;
    const Json &value = get(key);
    if (!value.is_string())
      wrong(key, value, "a text");
    std::string text = value.get<std::string>();
    for (unsigned char c : text)
      if (c < 0x20 || c == 0x7f)
        wrong(key, value, "a text without control characters");
    return text;
  }

  /// A number from `least` to `most`, `least` itself only where `isOpen` does
  /// not say otherwise.
  double number(const char *key, double least, bool isOpen, double most,
                const char *unit) const {
    const Json &value = get(key);
    double found = value.is_number() ? value.get<double>() : NAN;
    if (!std::isfinite(found) || found < least || found > most ||
        (isOpen && found == least))
      wrong(key, value,
            fmt::format(
                "{}{}{}{}", unit, isOpen ? " above " : " of at least ", least,
                most < largest ? fmt::format(" and at most {}", most) : ""));
    return found;
  }
  double amount(const char *key, const char *unit) const {
    return number(key, 0, true, largest, unit);
  }
  double seconds(const char *key, double otherwise) const {
    return has(key) ? number(key, 0, false, 1e6, "seconds") : otherwise;
  }

  int64_t count(const char *key, int64_t least, int64_t most) const {
    const Json &value = get(key);
    // Digits that a double cannot hold are no count of anything.
    double found = value.is_number() ? value.get<double>() : NAN;
    if (!(found >= static_cast<double>(least)) ||
        !(found <= static_cast<double>(most)) || found != std::floor(found))
      wrong(key, value,
            fmt::format("a whole number from {} to {}", least, most));
    return static_cast<int64_t>(found);
  }

  /// `unit` is the key of the stated rate.
  Rate rate(const char *key, const char *unit) const {
    Object object(get(key), file, at(key), {unit, "efficiency"});
    return {object.amount(unit, unit), object.efficiency("efficiency", true)};
  }
  double efficiency(const char *key, bool isOptional) const {
    return isOptional && !has(key)
               ? 1
               : number(key, 0, true, 1, "a part of what is stated,");
  }

  [[noreturn]] void wrong(std::string_view key, const Json &value,
                          std::string_view expected) const {
    fail("{}: {} is {}; expected {}", file, at(key), jsonText(value), expected);
  }

  const Json &json;
  const std::string &file;
  const std::string path;

private:
  void checkSource(const Json &value) const {
    bool good = value.is_string() ||
                (value.is_array() &&
                 std::all_of(value.begin(), value.end(), [](const Json &text) {
                   return text.is_string();
                 }));
    if (!good)
      wrong("source", value, "a text or a list of texts");
  }
};

TransferKind transferKind(const Object &row, const Json &value) {
  std::vector<std::string_view> names;
  for (int i = 0; i < transferKinds; ++i) {
    names.push_back(transferName(static_cast<TransferKind>(i)));
    if (value.is_string() && value.get<std::string>() == names.back())
      return static_cast<TransferKind>(i);
  }
  row.wrong("kinds", value,
            fmt::format(
                "{}{}", fmt::join(names, ", "),
                value.is_string()
                    ? fmt::format("; did you mean {}?",
                                  nearestName(names, value.get<std::string>()))
                    : ""));
}

void readTransfers(Cluster &cluster, const Object &communication) {
  int64_t share = communication.has("multiprocessors")
                      ? communication.count("multiprocessors", 0,
                                            cluster.device.multiprocessors)
                      : 0;
  const Json &rows = communication.get("transfers");
  if (!rows.is_array())
    communication.wrong("transfers", rows, "a list of rows");
  size_t index = 0;
  for (const Json &value : rows) {
    Object row(value, communication.file,
               fmt::format("communication.transfers[{}]", index++),
               {"kinds", "members_per_node", "nodes", "bytes_per_second",
                "latency_seconds", "multiprocessors"});
    TransferRow read;
    read.shape.members =
        row.count("members_per_node", 1, cluster.devicesPerNode);
    read.shape.nodes = row.count("nodes", 1, 1 << 20);
    if (read.shape.size() < 2)
      fail("{}: {} has 1 member in 1 node; expected a group of several",
           row.file, row.path);
    read.bytesPerSecond = row.amount("bytes_per_second", "bytes_per_second");
    row.get("latency_seconds");
    read.latency = row.seconds("latency_seconds", 0);
    read.multiprocessors =
        row.has("multiprocessors")
            ? row.count("multiprocessors", 0, cluster.device.multiprocessors)
            : share;
    const Json &kinds = row.get("kinds");
    if (!kinds.is_array() || kinds.empty())
      row.wrong("kinds", kinds, "a list of kinds");
    for (const Json &kind : kinds) {
      TransferKind of = transferKind(row, kind);
      auto &all = cluster.transfers[static_cast<int>(of)].rows;
      for (const TransferRow &other : all)
        if (other.shape == read.shape)
          fail("{}: {} is the second row for {} with {} members in each of {} "
               "nodes; expected one",
               row.file, row.path, transferName(of), read.shape.members,
               read.shape.nodes);
      all.push_back(read);
    }
  }
  for (Cluster::Transfers &transfers : cluster.transfers)
    std::sort(transfers.rows.begin(), transfers.rows.end(),
              [](const TransferRow &a, const TransferRow &b) {
                return a.shape < b.shape;
              });
  if (!communication.has("latency_by"))
    return;
  Object by(
      communication.get("latency_by"), communication.file,
      "communication.latency_by",
      {"all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send"});
  for (int i = 0; i < transferKinds; ++i) {
    std::string key(transferName(static_cast<TransferKind>(i)));
    std::string how = by.text(key.c_str(), "members");
    if (how != "members" && how != "log-members")
      by.wrong(key, by.get(key.c_str()), "\"members\" or \"log-members\"");
    cluster.transfers[i].byLogOfMembers = how == "log-members";
  }
}

void readDevice(Cluster &cluster, const Json &json, const std::string &file) {
  Object object(json, file, "device",
                {"name", "memory_bytes", "multiprocessors", "memory",
                 "products", "attention", "elementwise", "launch_seconds",
                 "least_kernel_seconds", "issue_seconds"});
  Cluster::Device &device = cluster.device;
  device.name = object.text("name", "device");
  device.memoryBytes = object.number("memory_bytes", 0, true, 1e18, "bytes");
  device.multiprocessors = object.count("multiprocessors", 1, 1 << 20);
  device.memory = object.rate("memory", "bytes_per_second");
  device.elementwise = object.rate("elementwise", "flops_per_second");
  device.launch = object.seconds("launch_seconds", 0);
  device.leastKernel = object.seconds("least_kernel_seconds", 0);
  device.issue = object.seconds("issue_seconds", 0);
  Object products(object.get("products"), file, "device.products",
                  {"f64", "f32", "bf16", "f16", "f8e4m3", "f8e5m2", "i8"});
  for (const auto &[key, value] : products.json.items())
    if (key != "source")
      device.products[*typeFromName(key)] =
          products.rate(key.c_str(), "flops_per_second");
  if (device.products.empty())
    fail("{}: device.products is empty; expected a rate for each element type "
         "of products, such as \"bf16\"",
         file);
  if (object.has("attention")) {
    Object attention(object.get("attention"), file, "device.attention",
                     {"forward_efficiency", "backward_efficiency"});
    device.attentionForward = attention.efficiency("forward_efficiency", false);
    device.attentionBackward =
        attention.efficiency("backward_efficiency", false);
  }
}
} // namespace

Cluster Cluster::parse(std::string_view text, const std::string &name) {
  Json json = parseJson(text, name);
  Object top(json, name, "the file",
             {"name", "device", "node", "communication"});
  Cluster cluster;
  cluster.name = name;
  top.text("name", "");
  readDevice(cluster, top.get("device"), name);
  Object node(top.get("node"), name, "node", {"devices"});
  cluster.devicesPerNode = node.count("devices", 1, 1 << 20);
  readTransfers(cluster,
                Object(top.get("communication"), name, "communication",
                       {"multiprocessors", "latency_by", "transfers"}));
  return cluster;
}

Cluster Cluster::read(const std::string &path) {
  return parse(readFile(path), path);
}

std::string sheaf::clusterJson(const Cluster &cluster) {
  auto rate = [](const Rate &value, const char *unit) {
    Json json = {{unit, value.stated}};
    if (value.efficiency != 1)
      json["efficiency"] = value.efficiency;
    return json;
  };
  const Cluster::Device &device = cluster.device;
  Json products = Json::object();
  for (const auto &[type, value] : device.products)
    products[std::string(typeName(type))] = rate(value, "flops_per_second");
  Json rows = Json::array(), by = Json::object();
  for (int i = 0; i < transferKinds; ++i) {
    std::string kind(transferName(static_cast<TransferKind>(i)));
    if (cluster.transfers[i].byLogOfMembers)
      by[kind] = "log-members";
    for (const TransferRow &row : cluster.transfers[i].rows)
      rows.push_back({{"kinds", {kind}},
                      {"members_per_node", row.shape.members},
                      {"nodes", row.shape.nodes},
                      {"bytes_per_second", row.bytesPerSecond},
                      {"latency_seconds", row.latency},
                      {"multiprocessors", row.multiprocessors}});
  }
  Json json = {{"name", cluster.name},
               {"device",
                {{"name", device.name},
                 {"memory_bytes", device.memoryBytes},
                 {"multiprocessors", device.multiprocessors},
                 {"memory", rate(device.memory, "bytes_per_second")},
                 {"products", products},
                 {"attention",
                  {{"forward_efficiency", device.attentionForward},
                   {"backward_efficiency", device.attentionBackward}}},
                 {"elementwise", rate(device.elementwise, "flops_per_second")},
                 {"launch_seconds", device.launch},
                 {"least_kernel_seconds", device.leastKernel},
                 {"issue_seconds", device.issue}}},
               {"node", {{"devices", cluster.devicesPerNode}}},
               {"communication", {{"latency_by", by}, {"transfers", rows}}}};
  return json.dump(1) + "\n";
}
