// Simple host twins for tests: they answer RotationView by counting over a real KvCache that knows
// only HBM. A sequence that is outside is closed there, and opened again when it returns; its
// blocks that are still cached need no copy, as with the real twins.
#pragma once

#include <span>
#include <unordered_map>

#include "kv/kv_cache.h"
#include "schedule/rotation_view.h"

namespace causeway::schedule {

class TwinBooks final : public RotationView {
 public:
  // `eager`: full blocks have twins before their sequence must go.
  TwinBooks(kv::KvCache& kv, std::int64_t twins, bool eager)
      : kv_(kv), twins_(twins), eager_(eager) {}

  void opened(RequestId sequence, ModelId model);
  // As rotate_out() of the KV room; its copies end with `copied`, its frames are used until
  // `last_user`. `tokens` are those computed, and perhaps more.
  void rotate_out(RequestId sequence, Tokens computed, StepId copied, StepId last_user);
  // Returns the number of copies in.
  std::int64_t rotate_in(RequestId sequence, std::span<const TokenId> tokens, StepId step);
  void released(RequestId sequence);
  void step_done(StepId step);

  bool may_leave(RequestId sequence) const override;
  bool may_return(RequestId sequence) const override;
  std::int64_t twins_available() const override { return twins_ - held_; }
  RotateOutCost out_cost(RequestId sequence) const override;
  RotateInCost in_cost(RequestId sequence) const override;
  // Host memory holds only what sequences hold.
  PrefixCost prefix_cost(ModelId model, std::span<const TokenId> tokens) const override;
  double prefill_rate(ModelId model) const override;
  void set_prefill_rate(ModelId model, double rate) { prefill_rates_[model] = rate; }

 private:
  enum class Place { kHbm, kArriving, kLeaving, kHost };
  struct Entry {
    ModelId model;
    Place place = Place::kHbm;
    StepId until = {};       // kArriving, kLeaving
    Tokens computed{0};      // when it is out
    std::int64_t twins = 0;  // that it holds
  };
  const Entry& entry(RequestId sequence) const { return sequences_.at(sequence); }

  kv::KvCache& kv_;
  std::int64_t twins_;
  bool eager_;
  std::int64_t held_ = 0;
  std::unordered_map<RequestId, Entry> sequences_;
  std::unordered_map<ModelId, double> prefill_rates_;
};

}  // namespace causeway::schedule
