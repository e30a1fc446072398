// A map from ids to values, for ids that are small and dense, as those of a catalogue's models: a
// look-up reads one pointer, however many there are. Iterates in the order of the ids; values stay
// where they are until they are erased.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"

namespace causeway {

template <typename IdType, typename Value>
class IdMap {
 public:
  using value_type = std::pair<const IdType, Value>;

 private:
  using Slots = std::vector<std::unique_ptr<value_type>>;  // by id; null: no value

  template <typename Entry>
  class Iterator {
   public:
    Iterator(const Slots* slots, std::size_t at) : slots_(slots), at_(at) { skip(); }
    Entry& operator*() const { return *(*slots_)[at_]; }
    Entry* operator->() const { return (*slots_)[at_].get(); }
    Iterator& operator++() {
      ++at_;
      skip();
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    void skip() {
      while (at_ < slots_->size() && (*slots_)[at_] == nullptr) ++at_;
    }
    const Slots* slots_;
    std::size_t at_;
  };

 public:
  using iterator = Iterator<value_type>;
  using const_iterator = Iterator<const value_type>;

  iterator begin() { return {&slots_, 0}; }
  iterator end() { return {&slots_, slots_.size()}; }
  const_iterator begin() const { return {&slots_, 0}; }
  const_iterator end() const { return {&slots_, slots_.size()}; }

  iterator find(IdType id) { return {&slots_, place_of(id)}; }
  const_iterator find(IdType id) const { return {&slots_, place_of(id)}; }
  bool contains(IdType id) const { return place_of(id) < slots_.size(); }
  Value& at(IdType id) { return slots_[checked_place_of(id)]->second; }
  const Value& at(IdType id) const { return slots_[checked_place_of(id)]->second; }

  // False when the id has a value already, which then stays as it is.
  std::pair<iterator, bool> emplace(IdType id, Value value) {
    CAUSEWAY_CHECK(id.value >= 0 && id.value < kIdsMax, "an id outside [0, 2^24)");
    const auto place = static_cast<std::size_t>(id.value);
    if (contains(id)) return {iterator(&slots_, place), false};
    if (place >= slots_.size()) slots_.resize(place + 1);
    slots_[place] = std::make_unique<value_type>(id, std::move(value));
    size_ += 1;
    return {iterator(&slots_, place), true};
  }
  // How many: one or none.
  std::size_t erase(IdType id) {
    if (!contains(id)) return 0;
    slots_[static_cast<std::size_t>(id.value)].reset();
    size_ -= 1;
    return 1;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  static constexpr std::int64_t kIdsMax = std::int64_t{1} << 24;

  // Equals slots_.size() when the id has no value.
  std::size_t place_of(IdType id) const {
    const auto place = static_cast<std::size_t>(id.value);  // an invalid id lies beyond all slots
    return place < slots_.size() && slots_[place] != nullptr ? place : slots_.size();
  }
  std::size_t checked_place_of(IdType id) const {
    const std::size_t place = place_of(id);
    CAUSEWAY_CHECK(place < slots_.size(), "the id is not known");
    return place;
  }

  Slots slots_;
  std::size_t size_ = 0;
};

// Erases those for which `goes(entry)` is true.
template <typename IdType, typename Value, typename Goes>
void erase_if(IdMap<IdType, Value>& map, Goes goes) {
  for (const auto& entry : map) {
    if (goes(entry)) map.erase(entry.first);
  }
}

}  // namespace causeway
