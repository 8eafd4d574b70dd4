// One pass over each row of scores that gives everything that is read from it: the best items, the scores and positions of some items,
// and their ranks. Called through ctypes.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

// Code for several instruction sets, of which the best is chosen when it runs.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define HAS_INSTRUCTION_SETS
#include <immintrin.h>
#endif
#define INLINE inline __attribute__((always_inline))
#define OUT_OF_LINE __attribute__((noinline))

namespace {

// Integers of the width of a score, and keys: (score, item) as one integer, higher is better: score descending, then item ascending.
template <class Score>
struct Kind;

template <>
struct Kind<float> {
    using Bits = uint32_t;
    using Key = uint64_t;
};

template <>
struct Kind<double> {
    using Bits = uint64_t;
    using Key = unsigned __int128;
};

template <class Score>
using Bits = typename Kind<Score>::Bits;
template <class Score>
using Key = typename Kind<Score>::Key;

template <class Score>
constexpr int kBits = 8 * sizeof(Score);
template <class Score>
constexpr Bits<Score> kSign = Bits<Score>(1) << (kBits<Score> - 1);
template <class Score>
constexpr Score kLowest = -std::numeric_limits<Score>::infinity();

constexpr int64_t kStep = 64;    // scores compared with the bound at once
constexpr int64_t kAtOnce = 4;   // candidates of a step that are written without a branch
constexpr int64_t kFew = 256;    // up to so many candidates are sorted by counting
constexpr int kHalvings = 12;
constexpr int64_t kLayers = 256;  // scores per lane from which the bound of a long row is computed
template <class Score>
constexpr int64_t kLine = 64 / sizeof(Score);  // scores in a cache line
template <class Score>
constexpr int64_t kBlock = (1 << 14) / sizeof(Score);  // scores that stay in the L1 cache

// Integers in the order of the scores, and back.
template <class Score>
INLINE Bits<Score> order_of(Score score) {
    score += 0;  // -0.0 becomes 0.0
    Bits<Score> bits;
    std::memcpy(&bits, &score, sizeof bits);
    return bits & kSign<Score> ? ~bits : bits | kSign<Score>;
}

template <class Score>
INLINE Score in_order(Bits<Score> place) {
    place = place & kSign<Score> ? place & ~kSign<Score> : ~place;
    Score score;
    std::memcpy(&score, &place, sizeof score);
    return score;
}

template <class Score>
INLINE Key<Score> key_of(Score score, Bits<Score> item) {
    return Key<Score>(order_of(score)) << kBits<Score> | Bits<Score>(~item);
}

// The inputs and outputs of a scan; outputs with null pointers are not computed. The scores of masked items, which are distinct and
// ascending in a row, count as -inf. Nothing is written to the scores, which are the caller's.
template <class Score>
struct Scan {
    const Score* scores;
    int64_t rows, items;
    const int64_t *masked, *masked_offsets;
    // The k best of each row by (score descending, item ascending), -inf after the last item that is not masked. A row with NaN, or with
    // NaN or +inf among its masked scores, begins with one.
    int64_t k;
    Score* values;
    int64_t* best;
    // Items of each row, ascending: their scores, and their positions in the list of the k best, k if they are not in it. Without items,
    // the scores are given.
    const int64_t *cells, *cell_offsets;
    Score* cell_scores;
    int64_t* positions;
    // The number of scores above a score of the items plus the number of those at least as high, summed over those above -inf; and the
    // number of scores above -inf.
    int64_t *ranks, *offered;
};

// Memory that the rows of a scan share.
template <class Score>
struct Workspace {
    Score *block, *maxima, *values;  // some scores of a row; maxima of its lanes; sorted values
    Score *scores, *sorted;          // candidates, in the order of items and sorted, and their items
    Bits<Score>*items, *sorted_items;
    Key<Score>* keys;
    uint64_t* hidden;     // a bit for each item that cannot be listed
    int64_t lanes, room;  // candidates from which the best are kept
    int64_t bad;          // an item whose score is to be refused, or -1

    explicit Workspace(const Scan<Score>& scan) {
        lanes = round_up(2 * scan.k);
        room = 4 * scan.k + 4 * kStep;
        const int64_t block_size = std::max(kBlock<Score>, lanes), most = round_up(room) + 2 * kStep;
        scores_memory.resize(block_size + lanes + 2 * most + kStep);
        items_memory.resize(2 * most);
        keys_memory.resize(most);
        hidden_memory.resize(scan.items / kStep + 1);
        hidden_memory.back() = ~uint64_t(0) << scan.items % kStep;  // after the end of the row
        block = scores_memory.data();
        while (reinterpret_cast<uintptr_t>(block) % 64) ++block;  // no vector is in two cache lines
        maxima = block + block_size;
        scores = maxima + lanes;
        sorted = scores + most;
        items = items_memory.data();
        sorted_items = items + most;
        keys = keys_memory.data();
        hidden = hidden_memory.data();
    }

    static int64_t round_up(int64_t number) { return (number + kStep - 1) / kStep * kStep; }

    std::vector<uint64_t> hidden_memory;
    std::vector<Score> scores_memory, values_memory;
    std::vector<Bits<Score>> items_memory;
    std::vector<Key<Score>> keys_memory;
};

// Keep the k best candidates in their order; return the lowest score of these.
template <class Score>
OUT_OF_LINE Score select_best(Workspace<Score>& space, int64_t count, int64_t k) {
    for (int64_t j = 0; j < count; ++j) space.keys[j] = key_of(space.scores[j], space.items[j]);
    std::nth_element(space.keys, space.keys + k - 1, space.keys + count, std::greater<Key<Score>>());
    const Key<Score> lowest = space.keys[k - 1];
    int64_t kept = 0;
    for (int64_t j = 0; j < count; ++j) {
        const bool is_kept = key_of(space.scores[j], space.items[j]) >= lowest;
        space.scores[kept] = space.scores[j], space.items[kept] = space.items[j];
        kept += is_kept;
    }
    return in_order<Score>(Bits<Score>(lowest >> kBits<Score>));
}

// Sort the candidates by (score descending, item ascending).
template <class Score>
OUT_OF_LINE void sort_many(Workspace<Score>& space, int64_t count) {
    std::vector<int64_t> order(count);
    for (int64_t j = 0; j < count; ++j) order[j] = j, space.keys[j] = key_of(space.scores[j], space.items[j]);
    std::sort(order.begin(), order.end(), [&](int64_t one, int64_t other) { return space.keys[one] > space.keys[other]; });
    for (int64_t j = 0; j < count; ++j) space.sorted[j] = space.scores[order[j]], space.sorted_items[j] = space.items[order[j]];
}

// Sort the values above -inf; return their number.
template <class Score>
OUT_OF_LINE int64_t sort_values(const Score* values, int64_t number, Workspace<Score>& space) {
    space.values_memory.clear();
    for (int64_t j = 0; j < number; ++j)
        if (values[j] > kLowest<Score>) space.values_memory.push_back(values[j]);
    std::sort(space.values_memory.begin(), space.values_memory.end());
    space.values = space.values_memory.data();
    return int64_t(space.values_memory.size());
}

namespace any_processor {
#define VECTOR_BYTES 16
#include "row_scan.h"
}  // namespace any_processor

#ifdef HAS_INSTRUCTION_SETS
#undef VECTOR_BYTES
#define VECTOR_BYTES 32
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,lzcnt,popcnt")
namespace avx2 {
#include "row_scan.h"
}  // namespace avx2
#pragma GCC pop_options

#undef VECTOR_BYTES
#define VECTOR_BYTES 64
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,lzcnt,popcnt")
namespace avx512 {
#include "row_scan.h"
}  // namespace avx512
#pragma GCC pop_options
#endif

// Scan with instruction set 0 (any processor), 1 (AVX2) or 2 (AVX-512), or the best below that the processor has.
template <class Score>
void run(const Scan<Score>& scan, int64_t instruction_set) {
    Workspace<Score> space(scan);
#ifdef HAS_INSTRUCTION_SETS
    const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (instruction_set > 1 && has_avx512) return avx512::scan_rows(scan, space);
    if (instruction_set > 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) return avx2::scan_rows(scan, space);
#endif
    any_processor::scan_rows(scan, space);
}

}  // namespace

extern "C" {

void scan_float32(int64_t instruction_set, const float* scores, int64_t rows, int64_t items, const int64_t* masked,
                  const int64_t* masked_offsets, int64_t k, float* values, int64_t* best, const int64_t* cells, const int64_t* cell_offsets,
                  float* cell_scores, int64_t* positions, int64_t* ranks, int64_t* offered) {
    run<float>({scores, rows, items, masked, masked_offsets, k, values, best, cells, cell_offsets, cell_scores, positions, ranks, offered},
               instruction_set);
}

void scan_float64(int64_t instruction_set, const double* scores, int64_t rows, int64_t items, const int64_t* masked,
                  const int64_t* masked_offsets, int64_t k, double* values, int64_t* best, const int64_t* cells, const int64_t* cell_offsets,
                  double* cell_scores, int64_t* positions, int64_t* ranks, int64_t* offered) {
    run<double>({scores, rows, items, masked, masked_offsets, k, values, best, cells, cell_offsets, cell_scores, positions, ranks, offered},
                instruction_set);
}
}
