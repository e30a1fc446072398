#include "kernels/home_gemm/chunks.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

namespace causeway::kernels::home_gemm {
namespace {

constexpr std::int64_t kOffsetStep = 256;
// Boundaries are considered at so many equal distances, and closer together near both ends.
constexpr std::int64_t kDistances = 64;
constexpr std::array<std::int64_t, 10> kNearEnds = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
// Pieces more than the scratch makes necessary.
constexpr std::int64_t kPiecesMore = 24;
constexpr double kNearly = 1e-3;
// The library's tiles, as its products of thousands of rows showed them.
constexpr std::int64_t kTileRows = 128;
constexpr std::int64_t kTileColumns = 256;

std::int64_t round_up_to(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

// Bytes of w for one column of out.
std::int64_t column_bytes(const gemm::CudaRequest& r) { return (r.silu_mul ? 2 : 1) * r.k * 2; }

// Seconds of the product of `columns` columns, w in HBM. In proportion to the whole; where the
// library's tiles make whole waves over the SMs, not less than its waves.
class ProductTime {
 public:
  ProductTime(const gemm::CudaRequest& r, const ChunkRates& rates)
      : request_(r), rates_(rates), all_waves_(waves(r.n)) {}

  double operator()(std::int64_t columns) const {
    double share = static_cast<double>(columns) / static_cast<double>(request_.n);
    if (request_.m > gemm::kSplitMax) {
      share =
          std::max(share, static_cast<double>(waves(columns)) / static_cast<double>(all_waves_));
    }
    return rates_.product_start + share * rates_.product_seconds;
  }

 private:
  std::int64_t waves(std::int64_t columns) const {
    const std::int64_t rows = (request_.silu_mul ? 2 : 1) * columns;
    const std::int64_t tiles = ceil_div(request_.m, kTileRows) * ceil_div(rows, kTileColumns);
    return ceil_div(tiles, std::max(1, rates_.sm_count));
  }

  const gemm::CudaRequest& request_;
  const ChunkRates& rates_;
  std::int64_t all_waves_;
};

// The product of some columns.
Result<gemm::CudaPlan> product_of(gemm::CudaRequest request, std::int64_t columns, int sm_count) {
  request.n = columns;
  return gemm::choose(request, {.sm_count = sm_count});
}

// Columns between which the weight may be cut, ascending, with both ends. No two neighbours are
// further apart than `most`.
std::vector<std::int64_t> boundaries(std::int64_t n, std::int64_t most) {
  const std::int64_t far = round_up_to(ceil_div(n, kDistances), kTileColumns);
  const std::int64_t distance = std::min(far, most);
  std::set<std::int64_t> places = {0, n};
  for (std::int64_t at = distance; at < n; at += distance) places.insert(at);
  for (const std::int64_t steps : kNearEnds) {
    const std::int64_t off = steps * kChunkColumns;
    if (off > 2 * distance || off >= n) break;
    places.insert(off);
    places.insert((n - off) / kChunkColumns * kChunkColumns);
  }
  return {places.begin(), places.end()};
}

// By dynamic programming: for each boundary and number of pieces, the cut in front of it with which
// all columns up to there are multiplied first.
class Cuts {
 public:
  Cuts(std::vector<std::int64_t> places, std::int64_t most, std::int64_t pieces_max)
      : places_(std::move(places)), most_(most), pieces_max_(static_cast<std::size_t>(pieces_max)) {
    seconds_.assign(places_.size() * (pieces_max_ + 1), std::numeric_limits<double>::infinity());
    from_.assign(seconds_.size(), 0);
  }

  void solve(double seconds_a_column, const ProductTime& product, const ChunkRates& rates) {
    seconds_[at(0, 0)] = 0;
    for (std::size_t to = 1; to < places_.size(); ++to) {
      const double bytes_there = static_cast<double>(places_[to]) * seconds_a_column;
      for (std::size_t from = to; from-- > 0 && places_[to] - places_[from] <= most_;) {
        const double its_product = product(places_[to] - places_[from]);
        for (std::size_t pieces = 1; pieces <= pieces_max_; ++pieces) {
          const auto count = static_cast<double>(pieces);
          const double end =
              std::max({seconds_[at(from, pieces - 1)], bytes_there + count * rates.copy_start,
                        count * rates.enqueue}) +
              its_product;
          if (end >= seconds_[at(to, pieces)]) continue;
          seconds_[at(to, pieces)] = end;
          from_[at(to, pieces)] = from;
        }
      }
    }
  }

  // Ends of the pieces: the fewest pieces that end as early as any, or nearly so.
  std::vector<std::int64_t> ends() const {
    const std::size_t last = places_.size() - 1;
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t p = 1; p <= pieces_max_; ++p) best = std::min(best, seconds_[at(last, p)]);
    std::size_t pieces = 1;
    while (seconds_[at(last, pieces)] > best * (1 + kNearly)) ++pieces;
    std::vector<std::int64_t> cuts;
    for (std::size_t place = last; place > 0; place = from_[at(place, pieces--)]) {
      cuts.push_back(places_[place]);
    }
    std::reverse(cuts.begin(), cuts.end());
    return cuts;
  }

 private:
  std::size_t at(std::size_t place, std::size_t pieces) const {
    return place * (pieces_max_ + 1) + pieces;
  }

  std::vector<std::int64_t> places_;
  std::int64_t most_;
  std::size_t pieces_max_;
  std::vector<double> seconds_;
  std::vector<std::size_t> from_;
};

// The last of the first `count` pieces that lies in [begin, end) of the scratch; −1: none does.
int last_in(const std::vector<Chunk>& chunks, std::size_t count, std::int64_t a_column,
            std::int64_t begin, std::int64_t end) {
  for (std::size_t i = count; i-- > 0;) {
    const std::int64_t from = chunks[i].offset.count, to = from + chunks[i].columns * a_column;
    if (from < end && begin < to) return static_cast<int>(i);
  }
  return -1;
}

// Gives every piece its place: behind the one before, or at the beginning of a half of the scratch,
// wherever it has to wait least.
void place(std::vector<Chunk>& chunks, std::int64_t a_column, std::int64_t scratch) {
  std::int64_t head = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const std::int64_t bytes = round_up_to(chunks[i].columns * a_column, kOffsetStep);
    const std::int64_t half = scratch / 2 / kOffsetStep * kOffsetStep;
    int best = std::numeric_limits<int>::max();
    for (const std::int64_t begin : {head, std::int64_t{0}, half}) {
      if (begin + bytes > scratch) continue;
      const int waits_for = last_in(chunks, i, a_column, begin, begin + bytes);
      if (waits_for >= best) continue;
      best = waits_for;
      chunks[i].offset = Bytes(begin);
    }
    chunks[i].waits_for = best;
    head = chunks[i].offset.count + bytes;
  }
}

}  // namespace

Result<std::vector<Chunk>> cut(const gemm::CudaRequest& request, Bytes scratch,
                               const ChunkRates& rates) {
  const std::int64_t a_column = column_bytes(request), n = request.n;
  const std::int64_t whole = round_up_to(n * a_column, kOffsetStep);
  // A half each, so that one piece is copied while another one is multiplied.
  std::int64_t most = scratch.count / 2 / kOffsetStep * kOffsetStep / a_column;
  if (whole <= scratch.count) {
    most = n;
  } else {
    most = most / kChunkColumns * kChunkColumns;
  }
  if (most < std::min(n, kChunkColumns)) {
    return unsupported("GEMM at home: the scratch does not hold two pieces of 128 columns");
  }
  // The biases of a piece's gate and up do not lie behind each other.
  const bool one_piece = request.silu_mul && request.bias;
  if (one_piece && most < n) {
    return unsupported("GEMM at home: with biases, silu_mul's weight must fit into the scratch");
  }
  Cuts cuts(boundaries(n, most), most, one_piece ? 1 : ceil_div(n, most) + kPiecesMore);
  cuts.solve(static_cast<double>(a_column) / rates.link_bytes_per_s, ProductTime(request, rates),
             rates);
  std::vector<Chunk> chunks;
  std::int64_t first = 0;
  for (const std::int64_t end : cuts.ends()) {
    Chunk chunk;
    chunk.first = first;
    chunk.columns = end - first;
    CAUSEWAY_ASSIGN(chunk.product, product_of(request, chunk.columns, rates.sm_count));
    chunks.push_back(std::move(chunk));
    first = end;
  }
  place(chunks, a_column, scratch.count);
  return chunks;
}

double staged_seconds(const gemm::CudaRequest& request, const std::vector<Chunk>& chunks,
                      const ChunkRates& rates) {
  const ProductTime product(request, rates);
  const auto a_column = static_cast<double>(column_bytes(request));
  double copied = 0, multiplied = 0;
  std::vector<double> ends;
  for (const Chunk& chunk : chunks) {
    const double issued = static_cast<double>(ends.size() + 1) * rates.enqueue;
    if (chunk.waits_for >= 0) {
      copied = std::max(copied, ends[static_cast<std::size_t>(chunk.waits_for)]);
    }
    copied +=
        rates.copy_start + static_cast<double>(chunk.columns) * a_column / rates.link_bytes_per_s;
    multiplied = std::max({multiplied, copied, issued}) + product(chunk.columns);
    ends.push_back(multiplied);
  }
  return multiplied;
}

}  // namespace causeway::kernels::home_gemm
