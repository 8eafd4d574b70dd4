// Operations on interactions (user, item, value) by code: sort them by user and item, and count those that two tables have in common.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

constexpr int64_t kFew = 32;  // up to so many items of a user are sorted by insertion

// Sort the items of a user, and their values with them. Equal items keep their order.
void sort_items(int64_t* items, double* values, int64_t number, std::vector<std::pair<int64_t, double>>& memory) {
    if (std::is_sorted(items, items + number)) return;
    if (number <= kFew) {
        for (int64_t next = 1; next < number; ++next) {
            const int64_t item = items[next];
            const double value = values[next];
            int64_t place = next;
            for (; place > 0 && items[place - 1] > item; --place) items[place] = items[place - 1], values[place] = values[place - 1];
            items[place] = item, values[place] = value;
        }
        return;
    }
    memory.clear();
    for (int64_t j = 0; j < number; ++j) memory.emplace_back(items[j], values[j]);
    std::stable_sort(memory.begin(), memory.end(), [](const auto& one, const auto& other) { return one.first < other.first; });
    for (int64_t j = 0; j < number; ++j) items[j] = memory[j].first, values[j] = memory[j].second;
}

}  // namespace

extern "C" {

// Write the offsets `[num_users + 1]`, all 0 before, of the rows of each user. Return 1 if the rows ascend by (user, item), 0 if they do
// not, and -1 if a user is not below `num_users`.
int64_t count_by_user(const int64_t* users, const int64_t* items, int64_t rows, int64_t num_users, int64_t* offsets) {
    bool is_sorted = true;
    for (int64_t row = 0; row < rows;) {
        const int64_t user = users[row], first = row++;
        if (user < 0 || user >= num_users) return -1;
        for (; row < rows && users[row] == user; ++row) is_sorted &= items[row] >= items[row - 1];
        is_sorted &= row == rows || users[row] > user;
        offsets[user + 1] += row - first;
    }
    for (int64_t user = 0; user < num_users; ++user) offsets[user + 1] += offsets[user];
    return is_sorted;
}

// Copy the items and values of rows, sorted by (user, item). Equal rows keep their order. `next` is where the rows of each user start;
// these move to where they end.
void sort_by_user(const int64_t* users, const int64_t* items, const double* values, int64_t rows, int64_t num_users, int64_t* next,
                  int64_t* sorted_items, double* sorted_values) {
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t place = next[users[row]]++;
        sorted_items[place] = items[row], sorted_values[place] = values[row];
    }
    std::vector<std::pair<int64_t, double>> memory;
    for (int64_t user = 0, first = 0; user < num_users; first = next[user++])
        sort_items(sorted_items + first, sorted_values + first, next[user] - first, memory);
}

// Return how many items of users, ascending for each, are among the other items of their user, which ascend too.
int64_t count_common(const int64_t* offsets, const int64_t* items, const int64_t* other_offsets, const int64_t* others, int64_t num_users) {
    int64_t common = 0;
    for (int64_t user = 0; user < num_users; ++user) {
        int64_t other = other_offsets[user];
        const int64_t end = other_offsets[user + 1];
        for (int64_t cell = offsets[user]; cell < offsets[user + 1]; ++cell) {
            while (other < end && others[other] < items[cell]) ++other;
            common += other < end && others[other] == items[cell];
        }
    }
    return common;
}
}
