// Operations on lists of items: check their order, and find items. A table with an element for each item of the catalogue avoids sorting.

#include <cstdint>
#include <vector>

extern "C" {

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
