// Operations on lists of items: group rows, check their order, and find items. A table with an element for each item of the catalogue
// avoids sorting.

#include <cstdint>
#include <cstring>
#include <vector>

template <typename Value>
static void scatter(const int32_t* owners, int64_t rows, int64_t* next, const Value* values, Value* grouped) {
    for (int64_t row = 0; row < rows; ++row) grouped[next[owners[row]]++] = values[row];
}

extern "C" {

// Copy values of `width` bytes run by run: run r has the lengths[r] values from starts[r] on.
void copy_runs(const int64_t* starts, const int64_t* lengths, int64_t runs, int64_t width, const char* values, char* copied) {
    for (int64_t run = 0; run < runs; ++run) {
        const int64_t bytes = lengths[run] * width;
        std::memcpy(copied, values + starts[run] * width, bytes);
        copied += bytes;
    }
}

// Copy values of 4 or 8 bytes to the next place of their owner, next[owner], which moves on by one. Each owner's values keep their order.
void scatter_by_owner(const int32_t* owners, int64_t rows, int64_t* next, int64_t width, const void* values, void* grouped) {
    if (width == 4) scatter(owners, rows, next, static_cast<const int32_t*>(values), static_cast<int32_t*>(grouped));
    else scatter(owners, rows, next, static_cast<const int64_t*>(values), static_cast<int64_t*>(grouped));
}

// Return 1 if no list holds an item twice and, if there is merit, each is sorted by (merit descending, item ascending); else 0. With
// `distinct`, no two entries of a list may have the same merit. The entries of list l start at offsets[l].
int64_t lists_are_in_order(const int64_t* offsets, int64_t lists, const int32_t* items, const double* merit, int64_t num_items,
                           int64_t distinct) {
    std::vector<int32_t> holder(num_items, -1);  // the last list that holds an item
    for (int64_t list = 0; list < lists; ++list) {
        const int64_t first = offsets[list], last = offsets[list + 1];
        bool wrong = false;
        for (int64_t cell = first + 1; merit && cell < last; ++cell) {
            const bool same = merit[cell] == merit[cell - 1];
            wrong |= merit[cell] > merit[cell - 1] || (same && (distinct || items[cell] < items[cell - 1]));
        }
        for (int64_t cell = first; cell < last; ++cell) {
            wrong |= holder[items[cell]] == list;
            holder[items[cell]] = int32_t(list);
        }
        if (wrong) return 0;
    }
    return 1;
}

// For keys (list * num_items + item), in the order of lists: the entry of the list that holds the item, or -1. Return how many keys were
// processed: all of them, or those before the first key that is out of order or of no list.
int64_t find_in_lists(const int64_t* offsets, int64_t lists, const int64_t* items, int64_t num_items, const int64_t* keys, int64_t number,
                      int64_t* cells) {
    std::vector<int32_t> cell_of(num_items, -1);  // the last entry that holds an item: of this list unless before its first
    int64_t next = 0;
    for (int64_t list = 0; list < lists && next < number; ++list) {
        const int64_t key = list * num_items, first = offsets[list];
        if (keys[next] >= key + num_items) continue;
        for (int64_t cell = first; cell < offsets[list + 1]; ++cell) cell_of[items[cell]] = int32_t(cell);
        for (; next < number && keys[next] >= key && keys[next] < key + num_items; ++next) {
            const int64_t cell = cell_of[keys[next] - key];
            cells[next] = cell < first ? -1 : cell;
        }
    }
    return next;
}
}
