// Operations on sampled candidates: draw negatives, and rank candidates by score. Large numbers of them are not sorted by comparisons:
// items are marked in a table, and scores are sorted digit by digit.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace {

constexpr uint64_t kStep = 0x9E3779B97F4A7C15u;
constexpr int64_t kWord = 64, kFewWords = 8;
constexpr int kDigit = 8, kValues = 1 << kDigit;
constexpr int64_t kFew = 192;  // up to so many scores are sorted by comparisons

// The finalizer of splitmix64.
inline uint64_t mix(uint64_t number) {
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9u;
    number = (number ^ number >> 27) * 0x94D049BB133111EBu;
    return number ^ number >> 31;
}

// Integers in the order of falling scores; -0.0 equals 0.0.
inline uint64_t falling(double score) {
    score += 0;
    uint64_t bits;
    std::memcpy(&bits, &score, sizeof bits);
    return bits >> 63 ? bits : ~(bits | uint64_t(1) << 63);
}

}  // namespace

extern "C" {

// For each user, draw items of the pool with replacement, the same as in Python: the n-th by a hash of (seed, user, n). Keep the first
// required[user] distinct ones that are not excluded, from at most `draws` draws. `cumulative` are the cumulative sums of the weights of
// the pool, null if they are equal. `excluded` are ascending keys (user * num_items + item). Write the keys of the items, ascending, and
// their number per user; return the number of all. `keys` has room for one more than required of all users.
int64_t draw_negatives(uint64_t seed, const int64_t* users, int64_t num_users, const int64_t* pool, int64_t size, const double* cumulative,
                       int64_t num_items, const int64_t* excluded, int64_t num_excluded, const int64_t* required, int64_t draws,
                       int64_t* keys, int64_t* counts) {
    std::vector<uint64_t> drawn(num_items / kWord + 1);
    std::vector<int64_t> holder(num_items, -1);  // the last user who has an item or got it
    const double scale = 0x1p-53;
    int64_t total = 0, next = 0;
    for (int64_t user = 0; user < num_users; ++user) {
        const int64_t first = user * num_items;
        for (; next < num_excluded && excluded[next] < first + num_items; ++next) holder[excluded[next] - first] = user;
        const uint64_t seeded = mix(uint64_t(users[user]) + seed);
        int64_t* own = keys + total;
        int64_t count = 0;
        for (int64_t turn = 0; turn < draws && count < required[user]; ++turn) {
            const double uniform = (double(mix(seeded + uint64_t(turn) * kStep) >> 11) + 0.5) * scale;
            int64_t place = cumulative ? std::upper_bound(cumulative, cumulative + size, uniform * cumulative[size - 1]) - cumulative
                                       : int64_t(uniform * double(size));
            place = std::min(place, size - 1);  // a product may be rounded up
            const int64_t item = pool[place];
            own[count] = item;
            count += holder[item] != user;
            holder[item] = user;
        }
        if (count * kFewWords * kWord < num_items) {  // too few for a look at the whole table
            std::sort(own, own + count);
        } else {
            for (int64_t j = 0; j < count; ++j) drawn[own[j] / kWord] |= uint64_t(1) << own[j] % kWord;
            for (int64_t word = 0, j = 0; j < count; ++word)
                for (uint64_t& bits = drawn[word]; bits; bits &= bits - 1) own[j++] = word * kWord + __builtin_ctzll(bits);
        }
        for (int64_t j = 0; j < count; ++j) own[j] += first;
        counts[user] = count;
        total += count;
    }
    return total;
}

// Sort each row `[rows, width]` by score, highest first; equal scores stay in their order. Write the scores and items in this order, and
// the position of each item.
void rank_candidates(const double* scores, const int64_t* items, int64_t rows, int64_t width, double* sorted, int64_t* sorted_items,
                     int64_t* positions) {
    typedef std::pair<uint64_t, int64_t> Entry;  // the order of a score, and its column
    std::vector<Entry> memory(2 * width);
    for (int64_t row = 0; row < rows; ++row) {
        Entry *from = memory.data(), *to = from + width;
        uint64_t differing = 0;  // bits that are not the same in all
        for (int64_t j = 0; j < width; ++j) {
            from[j] = {falling(scores[row * width + j]), j};
            differing |= from[j].first ^ from[0].first;
        }
        if (width <= kFew) std::sort(from, from + width), differing = 0;
        for (int shift = 0; shift < 64; shift += kDigit) {
            if (!((differing >> shift) % kValues)) continue;
            int32_t starts[kValues] = {};
            for (int64_t j = 0; j < width; ++j) ++starts[(from[j].first >> shift) % kValues];
            for (int64_t value = 0, sum = 0; value < kValues; ++value) sum += std::exchange(starts[value], int32_t(sum));
            for (int64_t j = 0; j < width; ++j) to[starts[(from[j].first >> shift) % kValues]++] = from[j];
            std::swap(from, to);
        }
        for (int64_t j = 0; j < width; ++j) {
            const int64_t column = from[j].second;
            sorted[row * width + j] = scores[row * width + column];
            sorted_items[row * width + j] = items[row * width + column];
            positions[row * width + column] = j;
        }
    }
}
}
