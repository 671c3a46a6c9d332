#include "sheaf/Artifact.h"
#include "sheaf/Error.h"
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

using namespace sheaf;

namespace {
std::string countText(double count) {
  static constexpr const char *units[] = {"", " k", " M", " G", " T", " P"};
  size_t unit = 0;
  while (count >= 1000 && unit + 1 < std::size(units)) {
    count /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}", count)
                   : fmt::format("{:.2f}{}", count, units[unit]);
}
} // namespace

std::string sheaf::describe(const Artifact &artifact) {
  const Manifest &m = artifact.manifest;
  std::string out;
  auto line = [&]<typename... Args>(fmt::format_string<Args...> format,
                                    Args &&...args) {
    out += fmt::format(format, std::forward<Args>(args)...) + "\n";
  };
  line("artifact    {}", artifact.path);
  line("producer    {}", m.producer);
  line("target      {}{}{}", m.target, m.cpu.empty() ? "" : ", ", m.cpu);
  if (!m.cpuFeatures.empty())
    line("features    {}", fmt::join(m.cpuFeatures, " "));
  std::vector<std::string> axes;
  for (const MeshAxis &axis : m.mesh.axes)
    axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  line("ranks       {}{}", m.ranks,
       axes.empty() ? "" : fmt::format(", mesh {}", fmt::join(axes, ",")));
  if (!m.mesh.devices.empty())
    line("places      rank {}", fmt::join(m.mesh.devices, ", "));
  for (size_t i = 0; i < m.schedule.size(); ++i)
    line("{:<11} {}", i ? "" : "schedule", m.schedule[i]);
  if (m.model.batch) {
    line("model       {}: batch {} x seq {}, vocab {}, {} microbatch{}",
         m.model.name, m.model.batch, m.model.sequence, m.model.vocab,
         m.model.microbatches, m.model.microbatches == 1 ? "" : "es");
    line("precision   {}{}", m.model.precision,
         m.model.precisionOptions.empty()
             ? ""
             : fmt::format(" {}", fmt::join(m.model.precisionOptions, " ")));
    line("parameters  {} ({})", countText(m.model.parameters),
         m.model.parameters);
    line("model FLOPs {} a step", countText(m.model.flopsPerStep));
    line("            mfu in a log is these over the step's time over the peak "
         "measured at start");
  }
  line("bytecode    {}", artifact.model.empty()
                             ? std::string("none")
                             : bytesText(artifact.model.size()));

  line("");
  line("persistent buffers");
  std::map<BufferKind, std::pair<int, int64_t>> kinds;
  for (const BufferInfo &buffer : m.buffers) {
    kinds[buffer.kind].first += 1;
    kinds[buffer.kind].second += buffer.bytes;
  }
  for (const auto &[kind, total] : kinds)
    line("  {:<10} {:>5} buffers {:>12}  ({} bytes)", kindName(kind),
         total.first, bytesText(total.second), total.second);

  line("");
  line("entries");
  for (const EntryInfo &entry : m.entries) {
    int64_t state = 0, other = 0;
    for (int index : entry.arguments)
      (isState(m.buffers[index].kind) ? state : other) +=
          m.buffers[index].bytes;
    line("  {:<10} arena {:>12}  ({} bytes), state {}, other buffers {}",
         entry.name, bytesText(entry.arenaBytes), entry.arenaBytes,
         bytesText(state), bytesText(other));
  }

  if (const EntryInfo *step = m.findEntry("step")) {
    line("");
    line("memory of a step, where most is in use");
    int64_t total = 0;
    for (const auto &[kind, bytes] : memoryOf(m, *step)) {
      total += bytes;
      int64_t inArena = 0;
      for (const auto &[name, part] : step->arena)
        if (name == kind)
          inArena = part;
      line("  {:<15} {:>12}  ({} bytes{})", kind, bytesText(bytes), bytes,
           inArena ? ", in the arena" : "");
    }
    line("  {:<15} {:>12}  ({} bytes)", "arena", bytesText(step->arenaBytes),
         step->arenaBytes);
    line("  {:<15} {:>12}  ({} bytes)", "all", bytesText(total), total);
    if (step->gatheredBytes)
      line("of the arena, most of gathered weights at once: {}  ({} bytes)",
           bytesText(step->gatheredBytes), step->gatheredBytes);
  }

  line("");
  line("scalars");
  for (const BufferInfo &buffer : m.buffers)
    if (buffer.kind == BufferKind::Scalar)
      line("  {:<14} {:g}", buffer.name, buffer.value);

  line("");
  line("parameters");
  for (const BufferInfo &buffer : m.buffers)
    if (buffer.kind == BufferKind::Parameter)
      line("  {:<48} {:<6} {}{}{}", buffer.name, typeName(buffer.type),
           shapeText(buffer.layout.global), buffer.frozen ? " frozen" : "",
           buffer.layout.isSharded()
               ? fmt::format(", {} a rank", shapeText(buffer.shape))
               : "");

  std::map<std::string, std::tuple<int, double, double>> byKind;
  for (const KernelInfo &kernel : m.kernels) {
    auto &[count, flops, bytes] = byKind[kernel.kind];
    count += 1;
    flops += kernel.flops;
    bytes += kernel.bytes;
  }
  line("");
  line("kernels     {} (figures of one call each)", m.kernels.size());
  for (const auto &[kind, total] : byKind)
    line("  {:<10} {:>5}  {} FLOPs, {} bytes", kind, std::get<0>(total),
         countText(std::get<1>(total)), countText(std::get<2>(total)));
  return out;
}

std::string sheaf::describeJson(const Artifact &artifact) {
  auto manifest = nlohmann::ordered_json::parse(artifact.manifestText);
  std::map<std::string, int64_t> bytes;
  for (const BufferInfo &buffer : artifact.manifest.buffers)
    bytes[std::string(kindName(buffer.kind))] += buffer.bytes;
  manifest["bytes"] = bytes;
  for (const EntryInfo &entry : artifact.manifest.entries) {
    auto &memory = manifest["memory"][entry.name];
    int64_t total = 0;
    for (const auto &[kind, part] : memoryOf(artifact.manifest, entry)) {
      memory[kind == "optimizer state" ? "optimizer_state" : kind] = part;
      total += part;
    }
    memory["all"] = total;
  }
  return manifest.dump(1) + "\n";
}
