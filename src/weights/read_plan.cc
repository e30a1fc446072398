#include "weights/read_plan.h"

#include <algorithm>

#include "base/check.h"

namespace causeway::weights {
namespace {

// A tensor of the checkpoint with its place in the model.
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
  const std::int64_t rows = planned.rows_of_tensor();
  if (shape.size() == 1) {
    return (rows == 1 || planned.cols == 1) && shape[0] == rows * planned.cols;
  }
  return shape.size() == 2 && shape[0] == rows && shape[1] == planned.cols;
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
                   ", but config.json asks for " +
                   shown_shape({planned.rows_of_tensor(), planned.cols}));
  }
  if (!info.dtype) {
    return unsupported(where + "has the dtype " + std::string(info.stored_type) +
                       "; F32, F16 and BF16 are served");
  }
  CAUSEWAY_CHECK(
      planned.first_row >= 0 && planned.first_row + planned.rows <= planned.rows_of_tensor(),
      "rows that the tensor has not");
  const Bytes row = size_of(*info.dtype) * planned.cols;
  return Source{tensor->file, info.offset + row * planned.first_row, row * planned.rows,
                *info.dtype, Bytes(0)};
}

class ReadPlanner {
 public:
  ReadPlanner(const LoadPlan& plan, const WeightLayout& layout, const Checkpoint& checkpoint)
      : plan_(plan), layout_(layout), checkpoint_(checkpoint) {}

  Result<ReadPlan> run() {
    CAUSEWAY_CHECK(plan_.groups.size() == layout_.groups.size(), "the layout of another plan");
    reads_.dtype = plan_.dtype;
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      const auto& planned = plan_.groups[g].tensors;
      const auto& placed = layout_.groups[g].tensors;
      for (std::size_t t = 0; t < planned.size(); ++t) {
        CAUSEWAY_TRY(find_sources(planned[t], placed[t].offset));
      }
    }
    sort_into_runs();
    return std::move(reads_);
  }

 private:
  Status find_sources(const PlannedTensor& planned, Bytes target) {
    for (const SourceTensor& part : planned.sources) {
      CAUSEWAY_ASSIGN(Source source, find_source(part, checkpoint_));
      source.target = target;
      target += size_of(plan_.dtype) * (source.bytes / size_of(source.from));
      if (source.bytes > Bytes(0)) sources_.push_back(source);
    }
    return {};
  }

  void sort_into_runs() {
    std::sort(sources_.begin(), sources_.end(), [](const Source& a, const Source& b) {
      return a.file != b.file ? a.file < b.file : a.offset < b.offset;
    });
    for (const Source& source : sources_) {
      reads_.bytes += source.bytes;
      for (Bytes done; done < source.bytes; done += kRunBytesMax) {
        const Bytes bytes = std::min(kRunBytesMax, source.bytes - done);
        add_read(source, done, bytes);
      }
    }
  }

  // Joins the read to the last run when it continues it.
  void add_read(const Source& source, Bytes skip, Bytes bytes) {
    const Bytes offset = source.offset + skip;
    auto& runs = reads_.runs;
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
  const WeightLayout& layout_;
  const Checkpoint& checkpoint_;
  ReadPlan reads_;
  std::vector<Source> sources_;
};

}  // namespace

Result<ReadPlan> plan_reads(const LoadPlan& plan, const WeightLayout& layout,
                            const Checkpoint& checkpoint) {
  return ReadPlanner(plan, layout, checkpoint).run();
}

}  // namespace causeway::weights
