#include "kv/copy_book.h"

#include <utility>

#include "base/check.h"

namespace causeway::kv {

PendingCopy& CopyBook::add(PendingCopy copy) {
  copy.copy.id = next_;
  ++next_.value;
  const CopyId id = copy.copy.id;
  pending_of(copy).insert(id);
  return copies_.emplace_hint(copies_.end(), id, std::move(copy))->second;
}

PendingCopy* CopyBook::find(CopyId copy) {
  const auto found = copies_.find(copy);
  return found == copies_.end() ? nullptr : &found->second;
}

PendingCopy& CopyBook::at(CopyId copy) {
  PendingCopy* const found = find(copy);
  CAUSEWAY_CHECK(found != nullptr, "no such KV copy is under way");
  return *found;
}

PendingCopy CopyBook::remove(CopyId copy) {
  PendingCopy removed = std::move(at(copy));
  pending_of(removed).erase(copy);
  copies_.erase(copy);
  return removed;
}

void CopyBook::take(PendingCopy& copy) {
  CAUSEWAY_CHECK(!copy.taken, "a KV copy is taken twice");
  copy.taken = true;
  pending_of(copy).erase(copy.copy.id);
}

void CopyBook::forget_model(ModelId model) {
  for (auto& [id, copy] : copies_) {
    if (copy.model == model) copy.hash.reset();
  }
}

}  // namespace causeway::kv
