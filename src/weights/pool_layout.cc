#include "weights/pool_layout.h"

#include <algorithm>

#include "base/check.h"

namespace causeway::weights {
namespace {

// Beyond any machine's memory; sums below it cannot overflow.
constexpr Bytes kModelBytesMax = Bytes(std::int64_t{1} << 50);

// A tensor of the checkpoint with its place in the region.
struct Source {
  std::size_t file = 0;
  Bytes offset;
  Bytes bytes;
  DType from = DType::kBF16;
  Bytes target;
};

std::string shown_shape(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

// A vector may be planned as a row or as a column.
bool has_shape(const std::vector<std::int64_t>& shape, const SourceTensor& planned) {
  if (shape.size() == 1) {
    return (planned.rows == 1 || planned.cols == 1) && shape[0] == planned.rows * planned.cols;
  }
  return shape.size() == 2 && shape[0] == planned.rows && shape[1] == planned.cols;
}

Result<Source> find_source(const SourceTensor& planned, const Checkpoint& checkpoint) {
  const Checkpoint::Tensor* tensor = checkpoint.find(planned.name);
  if (tensor == nullptr) {
    return not_found(checkpoint.path().string() + ": tensor " + planned.name + " is missing");
  }
  const TensorInfo& info = *tensor->info;
  const std::string where =
      checkpoint.files()[tensor->file].file.path().string() + ": " + shown_name(info.name) + ": ";
  if (!has_shape(info.shape, planned)) {
    return corrupt(where + "has the shape " + shown_shape(info.shape) +
                   ", but config.json asks for " + shown_shape({planned.rows, planned.cols}));
  }
  if (!info.dtype) {
    return unsupported(where + "has the dtype " + std::string(info.stored_type) +
                       "; F32, F16 and BF16 are served");
  }
  return Source{tensor->file, info.offset, info.bytes, *info.dtype, Bytes(0)};
}

class Planner {
 public:
  Planner(const LoadPlan& plan, const Checkpoint& checkpoint)
      : plan_(plan), checkpoint_(checkpoint) {}

  Result<PoolLayout> run() {
    layout_.dtype = plan_.dtype;
    for (const PlannedGroup& planned : plan_.groups) {
      end_ = round_up(end_, kGroupAlignment);
      PlacedGroup group{planned.name, end_, Bytes(0), {}};
      for (const PlannedTensor& tensor : planned.tensors) CAUSEWAY_TRY(place(tensor, group));
      group.bytes = end_ - group.offset;
      layout_.groups.push_back(std::move(group));
    }
    layout_.bytes = end_;
    plan_reads();
    return std::move(layout_);
  }

 private:
  Status place(const PlannedTensor& planned, PlacedGroup& group) {
    CAUSEWAY_CHECK(!planned.sources.empty(), "a planned tensor without sources");
    end_ = round_up(end_, kTensorAlignment);
    PlacedTensor placed{planned.name, 0, planned.sources[0].cols, end_};
    for (const SourceTensor& part : planned.sources) {
      CAUSEWAY_CHECK(part.cols == placed.cols, "stacked tensors of different widths");
      CAUSEWAY_ASSIGN(Source source, find_source(part, checkpoint_));
      source.target = end_;
      placed.rows += part.rows;
      end_ += size_of(plan_.dtype) * (source.bytes / size_of(source.from));
      if (end_ > kModelBytesMax) {
        return exhausted(checkpoint_.path().string() + ": larger than 2^50 bytes");
      }
      if (source.bytes > Bytes(0)) sources_.push_back(source);
    }
    group.tensors.push_back(std::move(placed));
    return {};
  }

  void plan_reads() {
    std::sort(sources_.begin(), sources_.end(), [](const Source& a, const Source& b) {
      return a.file != b.file ? a.file < b.file : a.offset < b.offset;
    });
    for (const Source& source : sources_) {
      layout_.read_bytes += source.bytes;
      for (Bytes done; done < source.bytes; done += kRunBytesMax) {
        const Bytes bytes = std::min(kRunBytesMax, source.bytes - done);
        add_read(source, done, bytes);
      }
    }
  }

  // Joins the read to the last run when it continues it.
  void add_read(const Source& source, Bytes skip, Bytes bytes) {
    const Bytes offset = source.offset + skip;
    auto& runs = layout_.runs;
    const bool joins =
        !runs.empty() && runs.back().file == source.file && runs.back().from == source.from &&
        runs.back().offset + runs.back().bytes == offset &&
        runs.back().bytes + bytes <= kRunBytesMax && runs.back().segments.size() < kRunSegmentsMax;
    if (!joins) runs.push_back({source.file, offset, Bytes(0), source.from, {}});
    runs.back().bytes += bytes;
    const std::int64_t elements_before = skip / size_of(source.from);
    runs.back().segments.push_back({bytes, source.target + size_of(plan_.dtype) * elements_before});
  }

  const LoadPlan& plan_;
  const Checkpoint& checkpoint_;
  PoolLayout layout_;
  Bytes end_;
  std::vector<Source> sources_;
};

}  // namespace

Result<PoolLayout> plan_layout(const LoadPlan& plan, const Checkpoint& checkpoint) {
  return Planner(plan, checkpoint).run();
}

}  // namespace causeway::weights
