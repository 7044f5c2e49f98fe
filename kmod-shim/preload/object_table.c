// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/object_table.h"

#include <stddef.h>

#include "kmod-shim/preload/memory.h"

// Open addressing, linear probing, never more than half full.
enum { room_at_first = 128, by_number = 0x100 };

static uint32_t home_of(const struct object_table* table, uint32_t kind, uint32_t id) {
  const uint64_t key = (uint64_t)kind << 32 | id;
  return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (table->room - 1);
}

static struct object* place_of(struct object_table* table, uint32_t kind, uint32_t id) {
  if (table->room == 0) return NULL;
  for (uint32_t i = home_of(table, kind, id);; i = (i + 1) & (table->room - 1)) {
    struct object* object = &table->at[i];
    if (object->kind == 0 || (object->kind == kind && object->id == id)) return object;
  }
}

static struct object* find(struct object_table* table, uint32_t kind, uint32_t id) {
  struct object* place = place_of(table, kind, id);
  return place == NULL || place->kind == 0 ? NULL : place;
}

static void put(struct object_table* table, const struct object* object) {
  struct object* place = place_of(table, object->kind, object->id);
  if (place->kind == 0) ++table->used;
  *place = *object;
}

// What sits behind the hole and would no longer be found moves into it.
static void take_out(struct object_table* table, struct object* gone) {
  uint32_t hole = (uint32_t)(gone - table->at);
  const uint32_t mask = table->room - 1;
  for (uint32_t i = (hole + 1) & mask; table->at[i].kind != 0; i = (i + 1) & mask) {
    const uint32_t home = home_of(table, table->at[i].kind, table->at[i].id);
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    table->at[hole] = table->at[i];
    hole = i;
  }
  table->at[hole] = (struct object){.kind = 0};
  --table->used;
}

bool object_table_reserve(struct object_table* table) {
  if ((table->used + 2) * 2 <= table->room) return true;
  struct object_table grown = {.room = table->room == 0 ? room_at_first : table->room * 2};
  grown.at = memory_map(grown.room * sizeof *grown.at);
  if (grown.at == NULL) return false;
  for (uint32_t i = 0; i < table->room; ++i) {
    if (table->at[i].kind != 0) put(&grown, &table->at[i]);
  }
  memory_unmap(table->at, table->room * sizeof *table->at);
  *table = grown;
  return true;
}

void object_table_insert(struct object_table* table, const struct object* object) {
  put(table, object);
  const struct object by = {.kind = object->kind | by_number, .id = object->number, .number = object->id};
  if (find(table, by.kind, by.id) == NULL) put(table, &by);
}

struct object* object_table_find(struct object_table* table, enum object_kind kind, uint32_t handle) {
  return find(table, kind, handle);
}

static struct object* search(struct object_table* table, uint32_t kind, uint32_t number,
                             uint64_t user_handle) {
  for (uint32_t i = 0; i < table->room; ++i) {
    struct object* object = &table->at[i];
    if (object->kind == kind && object->number == number && object->user_handle == user_handle) return object;
  }
  return NULL;
}

struct object* object_table_by_number(struct object_table* table, enum object_kind kind, uint32_t number,
                                      uint64_t user_handle) {
  const struct object* by = find(table, kind | by_number, number);
  struct object* object = by == NULL ? NULL : find(table, kind, by->number);
  if (object != NULL && object->user_handle == user_handle) return object;
  struct object* other = search(table, kind, number, user_handle);
  return other != NULL ? other : object;
}

void object_table_remove(struct object_table* table, enum object_kind kind, uint32_t handle) {
  struct object* object = find(table, kind, handle);
  if (object == NULL) return;
  const uint32_t number = object->number;
  take_out(table, object);
  struct object* by = find(table, kind | by_number, number);
  if (by != NULL && by->number == handle) take_out(table, by);
}

void object_table_drop(struct object_table* table) {
  memory_unmap(table->at, table->room * sizeof *table->at);
  *table = (struct object_table){.room = 0};
}
