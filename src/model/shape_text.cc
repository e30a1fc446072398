#include "model/shape_text.h"

#include <fmt/format.h>

#include "model/step_work.h"

namespace causeway::model {

std::string shape_text(const ModelConfig& c, DType storage) {
  std::string text = fmt::format("{} layers of {}, heads {}/{} of {}, MLP {}, vocabulary {}, {}",
                                 c.layers, c.hidden, c.heads, c.kv_heads, c.head_dim,
                                 c.intermediate, c.vocab, name_of(storage));
  if (c.moe) {
    text += fmt::format(", {} experts of {} in {} layers, {} a token", c.moe->experts,
                        c.moe->intermediate, sparse_layers(c), c.moe->experts_per_token);
  }
  std::int64_t windowed = 0;
  for (std::int64_t layer = 0; layer < c.layers; ++layer) windowed += c.has_window(layer) ? 1 : 0;
  if (windowed > 0) text += fmt::format(", window {} in {} layers", c.sliding_window, windowed);
  return text;
}

}  // namespace causeway::model
