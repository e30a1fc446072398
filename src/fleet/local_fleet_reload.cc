// A LocalFleet whose catalogue is read again while it serves.
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/dcheck.h"
#include "base/log.h"
#include "fleet/local_fleet_state.h"

namespace causeway::fleet {

ModelSpec spec_of(const CatalogueModel& model) {
  ModelSpec spec = model.spec;
  spec.name = model.entry->name;
  spec.slo = model.entry->slo;
  spec.pinned = model.pinned;
  return spec;
}

bool loads_before(const CatalogueModel& a, const CatalogueModel& b) {
  return std::tuple(!a.pinned, -a.spec.rate, a.entry->id) <
         std::tuple(!b.pinned, -b.spec.rate, b.entry->id);
}

std::vector<const CatalogueEntry*> LocalFleet::State::served() const {
  const std::scoped_lock lock(mutex_);
  CAUSEWAY_DCHECK(entries_.size() == slots_.size(), "each model has an entry");
  std::vector<const CatalogueEntry*> served;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].removed) served.push_back(entries_[i]);
  }
  return served;
}

ReloadReport LocalFleet::State::last_reload() const {
  const std::scoped_lock lock(mutex_);
  return report_;
}

CatalogueRead LocalFleet::State::reread() {
  CAUSEWAY_CHECK(options_.reader != nullptr, "a catalogue is read by a reader");
  std::vector<KnownModel> known;
  {
    const std::scoped_lock lock(mutex_);
    for (const Slot& slot : slots_) {
      const CatalogueEntry& entry = *slot.model.entry;
      const bool left = core_.model(entry.id).phase == ModelPhase::kCold;
      known.push_back({entry.name, !slot.removed, slot.removed && left});
    }
  }
  auto found =
      guarded([&] { return options_.reader->read(known, [this] { return is_cancelled(); }); });
  if (!found.ok()) return {found.error()};
  found_ = std::move(found).value();
  return {CatalogueNews{}};
}

// What was found is known before the core is told of it.
std::vector<ModelId> LocalFleet::State::adopt(CatalogueRead& read) {
  report_ = {};
  if (!read.news.ok()) {
    spdlog::error("the catalogue stays as it is: {}", read.news.error().message);
    return {};
  }
  CatalogueFound found = std::exchange(found_, {});
  CatalogueNews news{.found = {}, .gone = std::move(found.gone)};
  for (CatalogueModel& model : found.models) take(std::move(model), news);
  report_.left_out = std::move(found.left_out);
  for (const auto& [model, why] : report_.left_out)
    spdlog::warn("{} is not served: {}", model, why);
  spdlog::info("the models' folder has been read: {} models are new, {} are gone",
               news.found.size(), news.gone.size());
  std::vector<ModelId> ids;
  for (const FoundModel& one : news.found) ids.push_back(one.model);
  read.news = std::move(news);
  return ids;
}

// The entry of a model that comes back may still be in use: it stays.
void LocalFleet::State::take(CatalogueModel found, CatalogueNews& news) {
  const CatalogueEntry& entry = *found.entry;
  const auto at = static_cast<std::size_t>(entry.id.value);
  if (at == slots_.size()) {
    slots_.emplace_back();
    entries_.emplace_back();
    demand_.emplace_back();
    past_of_.emplace_back();
  } else {
    CAUSEWAY_CHECK(at < slots_.size() && slots_[at].removed && entries_[at]->name == entry.name,
                   "a model that was removed comes back under its name");
    replaced_.push_back(std::move(slots_[at].model.entry));
  }
  report_.added.push_back(entry.name);
  news.found.push_back({entry.id, spec_of(found)});
  entries_[at] = &entry;
  slots_[at].model = std::move(found);
  slots_[at].removed = false;
  by_name_[entry.name] = at;
  CAUSEWAY_DCHECK(demand_.size() == slots_.size() && past_of_.size() == slots_.size(),
                  "what is counted of models is counted of each");
}

// As at the start.
LocalFleet::State::Outputs LocalFleet::State::want_found(const std::vector<ModelId>& found) {
  return options_.load_ahead ? want(found) : Outputs();
}

// The loader begins with the first it hears of, so that this is the one to be loaded first.
LocalFleet::State::Outputs LocalFleet::State::want(std::vector<ModelId> models) {
  std::sort(models.begin(), models.end(),
            [this](ModelId a, ModelId b) { return loads_before(slot(a).model, slot(b).model); });
  Outputs outputs;
  for (const ModelId model : models) {
    Outputs more = tell(ModelWanted{model});
    std::move(more.begin(), more.end(), std::back_inserter(outputs));
  }
  return outputs;
}

void LocalFleet::State::note(const ModelRemoved& removed) {
  slot(removed.model).removed = true;
  report_.removed.push_back(entries_[index(removed.model)]->name);
  spdlog::info("{} is served no longer: its folder is gone", report_.removed.back());
}

void LocalFleet::State::note(const ModelKept& kept) {
  const std::string& name = entries_[index(kept.model)]->name;
  slot(kept.model).removed = false;
  std::erase(report_.removed, name);
  report_.kept.push_back({name, kept.why.message});
  spdlog::warn("{} is served on though its folder is gone: {}", name, kept.why.message);
}

}  // namespace causeway::fleet
