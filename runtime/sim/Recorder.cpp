#include "Recorder.h"
#include "sheaf/Error.h"
#include "sheaf/Types.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>
#include <sys/mman.h>

using namespace sheaf;
using namespace sheaf::sim;

namespace {
/// Addresses of zero bytes that become memory, page by page, where they are
/// written to.
class Reserved {
public:
  explicit Reserved(int64_t bytes) : length(std::max<int64_t>(bytes, 1)) {
    void *mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
      fail("cannot reserve {} of addresses, which the simulated device needs "
           "but does not fill: {}",
           bytesText(bytes), std::strerror(errno));
    // A handle of eight bytes must not become a page of two megabytes.
    madvise(mapped, length, MADV_NOHUGEPAGE);
    pointer = static_cast<char *>(mapped);
  }
  ~Reserved() { munmap(pointer, length); }
  Reserved(const Reserved &) = delete;
  Reserved &operator=(const Reserved &) = delete;
  char *data() const { return pointer; }

private:
  char *pointer;
  int64_t length;
};

double matrixBytes(const SheafMatmul &m, int64_t rows, int64_t columns,
                   const int64_t *strides, int32_t type) {
  double bytes = static_cast<double>(rows) * static_cast<double>(columns) *
                 static_cast<double>(elementSize(static_cast<SheafType>(type)));
  // One matrix for all indices of a dimension with stride 0.
  for (int i = 0; i < SHEAF_MATMUL_BATCH_RANK; ++i)
    if (strides[i] != 0)
      bytes *= static_cast<double>(m.batch[i]);
  return bytes;
}

class Recorder {
public:
  Recorder(const Manifest &manifest, const Cluster &cluster,
           const Places &places, int64_t stage, Queues &queues)
      : manifest(manifest), cluster(cluster), places(places), queues(queues) {
    recording.stage = stage;
    recording.rank = places.representative(stage);
    isNarrow =
        cluster.device.products.count(productTypeOf(manifest.model.precision));
  }

  Recording recording;

  /// Does a part of a call; an error is kept until the entry is back, since
  /// generated code cannot be unwound.
  template <typename Body>
  void guard(const Body &body) {
    if (pending)
      return;
    try {
      body();
    } catch (...) {
      pending = std::current_exception();
    }
  }
  void throwPending() {
    if (pending)
      std::rethrow_exception(pending);
  }

  void launch(const SheafLaunch &launch) {
    const KernelInfo &kernel = kernelOf(launch.id);
    // What only casts is a part of others.
    if (isNarrow && kernel.narrowBytes == 0)
      return;
    work(&launch, [&](WorkInfo &info) {
      info = {kernel.name, kernel.kind, kernel.location, kernel.flops,
              bytesOf(kernel)};
      bool isBackward = kernel.kind == "attention gradient";
      return isBackward || kernel.kind == "attention"
                 ? cluster.attentionSeconds(info.flops, info.bytes,
                                            typeOf(kernel, SHEAF_F32),
                                            isBackward)
                 : cluster.kernelSeconds(info.flops, info.bytes);
    });
  }

  void matmul(const SheafMatmul &matmul) {
    work(&matmul, [&](WorkInfo &info) {
      const KernelInfo &kernel = kernelOf(matmul.id);
      checkType(matmul.type_a);
      checkType(matmul.type_b);
      checkType(matmul.type_c);
      double flops = 2.0 * static_cast<double>(matmul.m) *
                     static_cast<double>(matmul.n) *
                     static_cast<double>(matmul.k);
      for (int64_t size : matmul.batch)
        flops *= static_cast<double>(size);
      double bytes = matrixBytes(matmul, matmul.m, matmul.k, matmul.stride_a,
                                 matmul.type_a) +
                     matrixBytes(matmul, matmul.k, matmul.n, matmul.stride_b,
                                 matmul.type_b) +
                     matrixBytes(matmul, matmul.m, matmul.n, matmul.stride_c,
                                 matmul.type_c) *
                         (matmul.beta != 0 ? 2 : 1);
      if (isNarrow && kernel.narrowBytes >= 0)
        bytes = kernel.narrowBytes;
      info = {kernel.name, kernel.kind, kernel.location, flops, bytes};
      return cluster.productSeconds(
          flops, bytes, typeOf(kernel, static_cast<SheafType>(matmul.type_a)),
          typeOf(kernel, static_cast<SheafType>(matmul.type_b)));
    });
  }

  void groupedMatmul(const SheafGroupedMatmul &matmul) {
    work(&matmul, [&](WorkInfo &info) {
      const KernelInfo &kernel = kernelOf(matmul.id);
      checkType(matmul.type);
      info = {kernel.name, kernel.kind, kernel.location, kernel.flops,
              bytesOf(kernel)};
      SheafType type = typeOf(kernel, static_cast<SheafType>(matmul.type));
      return cluster.productSeconds(info.flops, info.bytes, type, type);
    });
  }

  void copy(const char *name, double bytes) {
    auto [found, isNew] = copies.try_emplace({name, bytes}, 0);
    if (isNew)
      found->second =
          addWork({name, "copy", "", 0, bytes}, cluster.copySeconds(bytes));
    recording.program.ops.push_back({Op::Work, found->second});
  }

  void mark(int64_t action) {
    bool isKnown =
        action >= 0 && action < static_cast<int64_t>(manifest.actions.size());
    recording.program.ops.push_back(
        {Op::Mark, isKnown ? static_cast<int32_t>(action) : -1});
  }

  int64_t start(const SheafCollective &collective) {
    auto [found, isNew] = starts.try_emplace(&collective, 0);
    if (isNew)
      found->second = addStart(collective);
    int32_t index = found->second;
    if (int row = recording.starts[index].row; row >= 0) {
      // The first is counted where the row is made or found.
      if (!isNew)
        recording.rows[row].count += 1;
    }
    recording.program.ops.push_back({Op::Start, index});
    open.insert(handles);
    return handles++;
  }

  void wait(int64_t handle) {
    if (!open.erase(handle))
      fail("a wait for transfer {}, which is not open; {} are", handle,
           open.size());
    recording.program.ops.push_back({Op::Wait, static_cast<int32_t>(handle)});
  }

  int64_t openTransfers() const { return static_cast<int64_t>(open.size()); }

private:
  const Manifest &manifest;
  const Cluster &cluster;
  const Places &places;
  Queues &queues;
  std::exception_ptr pending;
  /// Whether the device multiplies in the types of the recipe, rather than in
  /// f32 between casts as the program does.
  bool isNarrow = false;
  /// Descriptions are constant data of the artifact: known by their addresses.
  std::unordered_map<const void *, int32_t> works, starts;
  std::map<std::pair<std::string, double>, int32_t> copies;
  std::set<int64_t> open;
  int64_t handles = 0;

  const KernelInfo &kernelOf(int32_t id) const {
    if (id < 0 || id >= static_cast<int32_t>(manifest.kernels.size()))
      fail("a call of kernel {}; the manifest has {}", id,
           manifest.kernels.size());
    return manifest.kernels[id];
  }

  double bytesOf(const KernelInfo &kernel) const {
    return isNarrow && kernel.narrowBytes >= 0 ? kernel.narrowBytes
                                               : kernel.bytes;
  }
  SheafType typeOf(const KernelInfo &kernel, SheafType otherwise) const {
    return isNarrow ? kernel.type.value_or(otherwise) : otherwise;
  }

  static void checkType(int32_t type) {
    if (type < SHEAF_F64 || type > SHEAF_F8E8M0)
      fail("a product of element type {}; expected 0 to {}", type,
           static_cast<int>(SHEAF_F8E8M0));
  }

  int32_t addWork(WorkInfo info, double seconds) {
    recording.works.push_back(std::move(info));
    recording.program.works.push_back(seconds);
    return static_cast<int32_t>(recording.works.size()) - 1;
  }

  /// `describe` fills in what it is and gives its seconds.
  template <typename Describe>
  void work(const void *description, const Describe &describe) {
    auto [found, isNew] = works.try_emplace(description, 0);
    if (isNew) {
      WorkInfo info;
      double seconds = describe(info);
      found->second = addWork(std::move(info), seconds);
    }
    recording.program.ops.push_back({Op::Work, found->second});
  }

  /// What transfers over the same axes, and of pairs with the same peer, have
  /// in common.
  struct GroupFacts {
    Group group; ///< of the recorded rank
    /// On the nodes, of the groups of all ranks of this place.
    std::set<GroupShape> shapes;
    /// Places along pp that take part, in order; of a pair its other end's.
    std::vector<int> stages;
  };
  std::map<std::vector<int64_t>, GroupFacts> facts;

  const GroupFacts &factsOf(const SheafCollective &c, bool isPair) {
    std::vector<int64_t> key = {isPair ? c.peer : -1};
    for (int32_t i = 0; i < c.axis_count; ++i)
      key.insert(key.end(), {c.size[i], c.stride[i]});
    auto [found, isNew] = facts.try_emplace(key);
    GroupFacts &known = found->second;
    if (!isNew)
      return known;
    const Mesh &mesh = places.mesh;
    Group &group = known.group;
    group = makeGroup(c, mesh, static_cast<int>(recording.rank));
    if (isPair &&
        (c.peer < 0 || c.peer >= group.size() || c.peer == group.index))
      fail("{}: member {} of {} with member {}", collectiveName(c.kind),
           group.index, group.size(), c.peer);
    // Members as seen from their first: the same for every group.
    std::vector<int64_t> offsets;
    std::set<int> stages;
    for (int member : group.members) {
      int64_t place = places.placeOf[member];
      offsets.push_back(place - places.placeOf[group.members[0]]);
      stages.insert(static_cast<int>(places.ofPlace(place)));
    }
    known.stages.assign(stages.begin(), stages.end());
    if (isPair)
      known.stages = {static_cast<int>(
          places.ofPlace(places.placeOf[group.members[c.peer]]))};
    std::set<int64_t> seen;
    for (int64_t place : places.members(recording.stage)) {
      int64_t base = place;
      for (int32_t i = 0; i < c.axis_count; ++i)
        base -= place / c.stride[i] % c.size[i] * c.stride[i];
      std::vector<int> members;
      if (isPair) {
        members = {static_cast<int>(mesh.rankAt(place)),
                   static_cast<int>(mesh.rankAt(base + offsets[c.peer]))};
      } else if (seen.insert(base).second) {
        for (int64_t offset : offsets)
          members.push_back(static_cast<int>(mesh.rankAt(base + offset)));
      }
      if (!members.empty())
        known.shapes.insert(cluster.shapeOf(members));
    }
    return known;
  }

  int32_t addStart(const SheafCollective &c) {
    const Mesh &mesh = places.mesh;
    checkShape(c, mesh.ranks());
    constexpr int64_t largest = int64_t{1} << 48;
    if (c.elements < 0 || c.elements > largest)
      fail("{} of {} elements; expected 0 to {}", collectiveName(c.kind),
           c.elements, largest);
    bool isPair = c.kind == SHEAF_SEND || c.kind == SHEAF_RECEIVE;
    const GroupFacts &known = factsOf(c, isPair);
    const Group &group = known.group;
    TransferCount count = countOf(c, mesh, group.size(), manifest.purposes);
    StartInfo info;
    info.kind = c.kind;
    info.bytes = static_cast<double>(count.elements) *
                 static_cast<double>(elementSize(count.type));
    if (c.id >= 0 && c.id < static_cast<int64_t>(manifest.transfers.size()))
      info.name = manifest.transfers[c.id];

    Start start;
    for (GroupShape shape : known.shapes) {
      TransferCost cost = cluster.transfer(c.kind, info.bytes, shape);
      if (cost.all() >= start.cost.all())
        start.cost = cost;
    }
    std::string axes = count.axes.empty()
                           ? "no axis"
                           : fmt::format("{}", fmt::join(count.axes, ","));
    start.what =
        fmt::format("{} of {} x {} over {}{}",
                    isPair ? "a transfer" : collectiveName(c.kind), c.elements,
                    typeName(count.type), axes,
                    isPair && !info.name.empty() ? " (" + info.name + ")" : "");

    // Which places take part, and who is known by them.
    std::vector<int64_t> key = {c.channel, c.axis_count};
    for (int32_t i = 0; i < c.axis_count; ++i)
      key.insert(key.end(), {c.size[i], c.stride[i]});
    std::vector<int> members;
    if (isPair) {
      int other = known.stages[0];
      if (other == recording.stage)
        fail("{} over {}: both ends run the program of place {} along pp, "
             "which the simulated device carries out once",
             collectiveName(c.kind), axes, other);
      members = {static_cast<int>(recording.stage), other};
      if (c.kind == SHEAF_RECEIVE)
        std::swap(members[0], members[1]);
    } else {
      members = known.stages;
    }
    key.push_back(isPair);
    key.insert(key.end(), members.begin(), members.end());
    std::string name =
        isPair ? fmt::format("sends from place {} to {}, channel {}",
                             members[0], members[1], c.channel)
               : fmt::format("{}, channel {}", axes, c.channel);
    start.queue = queues.find(key, members, isPair, name);

    if (group.size() > 1 && c.kind != SHEAF_RECEIVE)
      info.row = addCount(recording.rows, std::move(count));
    recording.program.starts.push_back(std::move(start));
    recording.starts.push_back(std::move(info));
    return static_cast<int32_t>(recording.starts.size()) - 1;
  }
};

Recorder &recorderOf(SheafContext *context) {
  return *static_cast<Recorder *>(context->runtime);
}

const SheafDevice recordingDevice = {
    [](SheafContext *context, const SheafLaunch *launch, void *const *) {
      Recorder &recorder = recorderOf(context);
      recorder.guard([&] { recorder.launch(*launch); });
    },
    [](SheafContext *context, const SheafMatmul *matmul, const void *,
       const void *, void *) {
      Recorder &recorder = recorderOf(context);
      recorder.guard([&] { recorder.matmul(*matmul); });
    },
    [](SheafContext *context, void *, const void *, int64_t bytes) {
      Recorder &recorder = recorderOf(context);
      recorder.guard(
          [&] { recorder.copy("copy", 2 * static_cast<double>(bytes)); });
    },
    [](SheafContext *context, void *, int64_t bytes) {
      Recorder &recorder = recorderOf(context);
      recorder.guard(
          [&] { recorder.copy("zero", static_cast<double>(bytes)); });
    },
    [](SheafContext *context, const SheafGroupedMatmul *matmul, void *const *) {
      Recorder &recorder = recorderOf(context);
      recorder.guard([&] { recorder.groupedMatmul(*matmul); });
    },
    [](SheafContext *context, int64_t action) {
      Recorder &recorder = recorderOf(context);
      recorder.guard([&] { recorder.mark(action); });
    }};

int64_t startOn(SheafContext *context, const SheafCollective *collective) {
  Recorder &recorder = recorderOf(context);
  int64_t handle = -1;
  recorder.guard([&] { handle = recorder.start(*collective); });
  return handle;
}

const SheafCommunicator recordingCommunicator = {
    [](SheafContext *context, const SheafCollective *collective, const void *,
       void *) { return startOn(context, collective); },
    [](SheafContext *context, int64_t handle) {
      Recorder &recorder = recorderOf(context);
      recorder.guard([&] { recorder.wait(handle); });
    },
    [](SheafContext *context, const SheafCollective *collective,
       void *const *) { return startOn(context, collective); }};
} // namespace

SheafType sheaf::sim::productTypeOf(const std::string &precision) {
  if (precision == "fp16")
    return SHEAF_F16;
  return precision == "fp32" ? SHEAF_F32 : SHEAF_BF16;
}

int Queues::find(const std::vector<int64_t> &key,
                 const std::vector<int> &members, bool isPair,
                 const std::string &name) {
  auto [found, isNew] = byKey.try_emplace(key, static_cast<int>(all.size()));
  if (isNew)
    all.push_back({members, isPair, name});
  return found->second;
}

Places::Places(const Mesh &mesh) : mesh(mesh) {
  placeOf.resize(mesh.ranks());
  for (int64_t place = 0; place < mesh.ranks(); ++place)
    placeOf[mesh.rankAt(place)] = place;
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    if (mesh.axes[i].name == "pp") {
      count = mesh.axes[i].size;
      stride = mesh.stride(i);
    }
}

std::vector<int64_t> Places::members(int64_t stage) const {
  std::vector<int64_t> all;
  for (int64_t place = 0; place < mesh.ranks(); ++place)
    if (ofPlace(place) == stage)
      all.push_back(place);
  return all;
}

Recording sheaf::sim::record(const Artifact &artifact, const std::string &name,
                             const Cluster &cluster, const Places &places,
                             int64_t stage, Queues &queues) {
  const Manifest &manifest = artifact.manifest;
  const EntryInfo &entry = manifest.entry(name).at(stage);
  Recorder recorder(manifest, cluster, places, stage, queues);
  int64_t bytes = 0;
  auto aligned = [](int64_t size) {
    return (size + SHEAF_ALIGNMENT - 1) / SHEAF_ALIGNMENT * SHEAF_ALIGNMENT;
  };
  for (int index : entry.arguments)
    bytes += aligned(manifest.buffers[index].bytes);
  Reserved persistent(bytes), arena(entry.arenaBytes);
  std::vector<void *> buffers;
  int64_t offset = 0;
  for (int index : entry.arguments) {
    buffers.push_back(persistent.data() + offset);
    offset += aligned(manifest.buffers[index].bytes);
  }
  SheafContext context = {&recordingDevice,       buffers.data(),
                          arena.data(),           &recorder,
                          &recordingCommunicator, recorder.recording.rank};
  int32_t code = artifact.functions.at(entry.symbol)(&context);
  try {
    recorder.throwPending();
  } catch (const Error &error) {
    fail("entry '{}' of rank {}: {}", name, recorder.recording.rank,
         error.what());
  }
  if (code != 0)
    fail("entry '{}' of {} returned error {}", name, artifact.path, code);
  if (recorder.openTransfers() > 0)
    fail("entry '{}' of {} ended with {} open transfers", name, artifact.path,
         recorder.openTransfers());
  return std::move(recorder.recording);
}
