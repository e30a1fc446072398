// Whether blocks hold what they should after they have moved: each has a pattern of its own, whose
// words all differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "bench/copy_lanes.h"
#include "bench/kv_rotator.h"
#include "bench/kv_stage.h"

namespace causeway::bench {

// Of whole words of 8 bytes.
void write_pattern(std::span<std::byte> bytes, std::uint64_t block);
bool has_pattern(std::span<const std::byte> bytes, std::uint64_t block);

// Of blocks that move both ways, as many in as out: prepare(), all of them move, check(). One
// thread, which uses others.
class KvContents {
 public:
  KvContents(KvStage& stage, CopyLanes& lanes, const BlockMoves& moves)
      : stage_(stage), lanes_(lanes), moves_(moves) {}

  // What is to go out has its patterns in frames, what is to come in has them in twins, and all
  // their targets hold something else.
  Status prepare();
  // kCorrupt names the first block whose content is not its own. What is in twins is lost.
  Status check();

 private:
  std::int64_t count() const { return std::ssize(moves_.out); }
  std::span<std::byte> twin(const std::vector<BlockMove>& moves, std::int64_t i) const;
  void fill(const std::vector<BlockMove>& moves, std::uint64_t first_block);
  Status expect(const std::vector<BlockMove>& moves, std::uint64_t first_block,
                const char* where) const;
  // Between the frames of some moves and the twins of others, by plain copies.
  Status copy(transfer::Direction direction, const std::vector<BlockMove>& frames,
              const std::vector<BlockMove>& twins);

  KvStage& stage_;
  CopyLanes& lanes_;
  const BlockMoves& moves_;
};

}  // namespace causeway::bench
