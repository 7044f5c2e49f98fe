// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/engine/timer_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "provider/engine/intrusive_list.h"
#include "tests/sim/random.h"

namespace uroce::test {
namespace {

using engine::kNever;
using engine::Time;

struct Item {
  engine::TimerSlot timer;
  engine::ListLink<Item> link;
  Time armed = kNever;  // what the heap must not miss
  int number = 0;
};
using Heap = engine::TimerHeap<Item, &Item::timer>;
using List = engine::IntrusiveList<Item, &Item::link>;

TEST(TimerHeap, against_a_plain_search) {
  sim::Random random(5);
  std::vector<Item> items(200);
  Heap heap;
  heap.reserve(items.size());
  Time now{0};
  for (int step = 0; step < 100'000; ++step) {
    Item& item = items[random.below(items.size())];
    switch (random.below(4)) {
      case 0:
      case 1: {
        const Time at = now + static_cast<int64_t>(random.below(1000));
        heap.arm(item, at);
        if (item.armed == kNever || at < item.armed) item.armed = at;
        break;
      }
      case 2:
        heap.remove(item);
        item.armed = kNever;
        break;
      default: {
        now = now + static_cast<int64_t>(random.below(20));
        while (Item* due = heap.pop_due(now)) {
          ASSERT_LE(due->armed, now);
          due->armed = kNever;
        }
        break;
      }
    }
    Time earliest = kNever;
    for (const Item& i : items) earliest = std::min(earliest, i.armed);
    ASSERT_EQ(heap.next(), earliest) << "step " << step;
  }
}

TEST(TimerHeap, never_is_not_armed) {
  Item item;
  Heap heap;
  heap.arm(item, kNever);
  EXPECT_EQ(heap.next(), kNever);
  EXPECT_EQ(heap.pop_due(Time{1}), nullptr);
  heap.remove(item);
}

TEST(IntrusiveList, first_in_first_out_with_removal_in_the_middle) {
  Item items[5];
  List list;
  for (int i = 0; i < 5; ++i) {
    items[i].number = i;
    list.push_back(items[i]);
    list.push_back(items[i]);  // twice is once
  }
  list.remove(items[2]);
  list.remove(items[2]);
  list.remove(items[0]);
  list.push_front(items[2]);
  for (const int expected : {2, 1, 3, 4}) EXPECT_EQ(list.pop_front()->number, expected);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.pop_front(), nullptr);
  list.push_back(items[4]);
  EXPECT_EQ(list.front(), &items[4]);
}

}  // namespace
}  // namespace uroce::test
