// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/device_page.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace uroce::daemon {

namespace {

Fd make_memory(const char* name, size_t bytes, int seals, std::string& why) {
  Fd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      (seals != 0 && fcntl(fd.get(), F_ADD_SEALS, seals) != 0)) {
    why = fmt::format("cannot make a shared page: {}", std::strerror(errno));
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

void* map(int fd, size_t bytes, int protection, std::string& why) {
  void* mapped = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (mapped != MAP_FAILED) return mapped;
  why = fmt::format("cannot map a shared page: {}", std::strerror(errno));
  return nullptr;
}

}  // namespace

bool DevicePage::open(KeeperLine& keeper, uint32_t device, std::string& why) {
  if (const Kept* kept = keeper.inherited(Keep::device_page, device);
      kept != nullptr && kept->mapping != nullptr) {
    page_ = static_cast<uroce_device_page*>(kept->mapping);
    memory_ = keeper.take_inherited(Keep::device_page, device);
    // A predecessor that died while it wrote leaves an odd number behind, and readers waiting.
    if ((page_->sequence & 1) != 0) __atomic_store_n(&page_->sequence, page_->sequence + 1, __ATOMIC_RELEASE);
    return true;
  }
  memory_ = make_memory("uroce-device", sizeof(uroce_device_page), 0, why);
  if (!memory_) return false;
  page_ = static_cast<uroce_device_page*>(map(memory_.get(), sizeof *page_, PROT_READ | PROT_WRITE, why));
  if (page_ == nullptr) return false;
  if (keeper.keep(Keep::device_page, device, memory_.get(), sizeof *page_)) return true;
  why = fmt::format("the keeper process does not take the device's page: {}", std::strerror(errno));
  drop(keeper, device);
  return false;
}

void DevicePage::drop(KeeperLine& keeper, uint32_t device) {
  keeper.drop(Keep::device_page, device);
  memory_.reset();
  if (page_ != nullptr) munmap(std::exchange(page_, nullptr), sizeof *page_);
}

void DevicePage::write(const std::function<void(uroce_device_page&)>& change) {
  if (page_ == nullptr) return;
  const uint32_t even = page_->sequence & ~1u;
  __atomic_store_n(&page_->sequence, even + 1, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  change(*page_);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  __atomic_store_n(&page_->sequence, even + 2, __ATOMIC_RELEASE);
}

Fd DevicePage::for_reader() const {
  return Fd(::open(fmt::format("/proc/self/fd/{}", memory_.get()).c_str(), O_RDONLY | O_CLOEXEC));
}

SlotPage::SlotPage(SlotPage&& other) noexcept
    : memory_(std::move(other.memory_)), page_(std::exchange(other.page_, nullptr)) {}

SlotPage& SlotPage::operator=(SlotPage&& other) noexcept {
  memory_ = std::move(other.memory_);
  std::swap(page_, other.page_);
  return *this;
}

SlotPage::~SlotPage() {
  if (page_ != nullptr) munmap(const_cast<uroce_slot_page*>(page_), sizeof *page_);
}

bool SlotPage::open(KeeperLine& keeper, uint32_t slot, std::string& why) {
  memory_ = keeper.take_inherited(Keep::slot_page, slot);
  if (!memory_) {
    memory_ = make_memory("uroce-slot", sizeof(uroce_slot_page), F_SEAL_SHRINK | F_SEAL_GROW, why);
    if (!memory_) return false;
    if (!keeper.keep(Keep::slot_page, slot, memory_.get())) {
      why = "the keeper process does not take the context's page";
      return false;
    }
  }
  page_ = static_cast<const uroce_slot_page*>(map(memory_.get(), sizeof *page_, PROT_READ, why));
  return page_ != nullptr;
}

void SlotPage::drop(KeeperLine& keeper, uint32_t slot) {
  keeper.drop(Keep::slot_page, slot);
  *this = SlotPage();
}

uint64_t SlotPage::counter(uint32_t index) const {
  return page_ == nullptr ? 0 : __atomic_load_n(&page_->counters[index], __ATOMIC_RELAXED);
}

std::string SlotPage::transport_text() const {
  if (page_ == nullptr) return {};
  char copy[sizeof page_->transport_text];
  std::memcpy(copy, page_->transport_text, sizeof copy);
  std::string text(copy, strnlen(copy, sizeof copy));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return text;
}

uroce_slot_qp SlotPage::qp(uint32_t index) const {
  uroce_slot_qp copy{};
  if (page_ != nullptr && index < std::size(page_->qps)) std::memcpy(&copy, &page_->qps[index], sizeof copy);
  return copy;
}

}  // namespace uroce::daemon
