// The operations that read scores, in about one pass over each row. Functions over arrays, called through ctypes.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

// Code for each generation of processors, chosen when the library is loaded.
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef EACH_PROCESSOR
#define EACH_PROCESSOR
#endif
#define INLINE inline __attribute__((always_inline))

namespace {

// The types that belong to a type of scores: integers of the same width, vectors of 32 bytes, and keys. A key is (score, item) as one
// integer, higher is better: score descending, then item ascending.
template <class Score>
struct Kind;

template <>
struct Kind<float> {
    using Bits = uint32_t;
    using Key = uint64_t;
    typedef float Scores __attribute__((vector_size(32)));
    typedef int32_t Counts __attribute__((vector_size(32)));
};

template <>
struct Kind<double> {
    using Bits = uint64_t;
    using Key = unsigned __int128;
    typedef double Scores __attribute__((vector_size(32)));
    typedef int64_t Counts __attribute__((vector_size(32)));
};

template <class Score>
using Bits = typename Kind<Score>::Bits;
template <class Score>
using Key = typename Kind<Score>::Key;
template <class Score>
using Scores = typename Kind<Score>::Scores;
template <class Score>
using Counts = typename Kind<Score>::Counts;

template <class Score>
constexpr int kBits = 8 * sizeof(Score);
template <class Score>
constexpr Bits<Score> kSign = Bits<Score>(1) << (kBits<Score> - 1);
template <class Score>
constexpr int64_t kWidth = 32 / sizeof(Score);  // scores in a vector
template <class Score>
constexpr Score kLowest = -std::numeric_limits<Score>::infinity();

constexpr int64_t kStep = 32;     // scores compared with the bound at once: a multiple of the vectors of both types
constexpr int64_t kFew = 256;     // up to so many keys are ranked by counting
constexpr int kHalvings = 12;
constexpr int64_t kLayers = 64;   // scores per lane from which the bound of a long row is computed
constexpr int64_t kSkip = 16;     // masked items that are skipped at once
constexpr int64_t kBlock = 2048;  // scores that stay in the L1 cache while they are compared with all values
constexpr int64_t kSide = 2, kSome = 2 * kSide + 1;  // values compared with a score while it is in a register

template <class Score>
INLINE Scores<Score> load(const Score* from) {
    Scores<Score> scores;
    std::memcpy(&scores, from, sizeof scores);
    return scores;
}

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
INLINE Key<Score> key_of(Score score, int64_t item) {
    return Key<Score>(order_of(score)) << kBits<Score> | Bits<Score>(~Bits<Score>(item));
}

template <class Score>
INLINE int64_t item_of(Key<Score> key) {
    return int64_t(Bits<Score>(~Bits<Score>(key)));
}

template <class Score>
INLINE Score score_of(Key<Score> key) {
    return in_order<Score>(Bits<Score>(key >> kBits<Score>));
}

template <class Score>
INLINE int64_t total(Counts<Score> counts) {
    int64_t sum = 0;
    for (int64_t j = 0; j < kWidth<Score>; ++j) sum += counts[j];
    return sum;
}

// The items of a row whose scores count as -inf: distinct and ascending. Nothing is written to the scores, which are the caller's.
struct Masked {
    const int64_t* items;
    int64_t number;
};

// The scores of the items `cells[offsets[row]]` to `cells[offsets[row + 1] - 1]`, ascending, of each row.
template <class Score>
INLINE void read_in_rows(const Score* scores, int64_t rows, int64_t items, const int64_t* masked, const int64_t* masked_offsets,
                         const int64_t* cells, const int64_t* offsets, Score* read) {
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t cell = offsets[row]; cell < offsets[row + 1]; ++cell) read[cell] = scores[row * items + cells[cell]];
        int64_t next = masked_offsets[row];
        const int64_t end = masked_offsets[row + 1];
        for (int64_t cell = offsets[row]; cell < offsets[row + 1] && next < end; ++cell) {
            while (next + kSkip <= end && masked[next + kSkip - 1] < cells[cell]) next += kSkip;
            int64_t equal = 0;
            if (next + kSkip <= end)
                for (int64_t j = 0; j < kSkip; ++j) equal += masked[next + j] == cells[cell];
            else
                for (int64_t j = next; j < end; ++j) equal += masked[j] == cells[cell];
            if (equal) read[cell] = kLowest<Score>;
        }
    }
}

// A score that at least k scores of the row reach: lower ones are not among the k best. NaN, which excludes nothing, if none is known.
// Lane l of `lanes` holds the items l, l + lanes, ...: such maxima vectorize. `maxima` has room for as many scores again.
template <class Score>
INLINE Score first_bound(const Score* row, int64_t items, Masked masked, int64_t k, Score* maxima, int64_t lanes) {
    const int64_t layers = std::min(items / lanes, kLayers);
    if (layers < 3) return std::numeric_limits<Score>::quiet_NaN();
    std::fill(maxima, maxima + lanes, kLowest<Score>);
    Score* kept = maxima + lanes;  // maxima at masked items, which do not change
    int64_t next = 0;
    for (int64_t layer = 0; layer < layers; ++layer) {
        const Score* part = row + layer * lanes;
        const int64_t first = next;
        for (; next < masked.number && masked.items[next] < (layer + 1) * lanes; ++next)
            kept[next - first] = maxima[masked.items[next] - layer * lanes];
        for (int64_t lane = 0; lane < lanes; lane += kWidth<Score>) {
            const Scores<Score> scores = load(part + lane), most = load(maxima + lane);
            const Scores<Score> higher = scores > most ? scores : most;
            std::memcpy(maxima + lane, &higher, sizeof higher);
        }
        for (int64_t j = first; j < next; ++j) maxima[masked.items[j] - layer * lanes] = kept[j - first];
    }
    // Bisection between the lowest and the highest maximum: close enough, and cheaper than selecting the k-th.
    Bits<Score> low = order_of(*std::min_element(maxima, maxima + lanes)), high = order_of(*std::max_element(maxima, maxima + lanes));
    for (int step = 0; step < kHalvings && high - low > 1; ++step) {
        const Bits<Score> middle = low + (high - low) / 2;
        const Score wanted = in_order<Score>(middle);
        Counts<Score> reached = {};
        for (int64_t lane = 0; lane < lanes; lane += kWidth<Score>) reached -= load(maxima + lane) >= wanted;
        (total<Score>(reached) >= k ? low : high) = middle;
    }
    return in_order<Score>(low);
}

// A bit for each of kStep scores that may be among the best: not those below the bound, nor, once k were found, those equal to it.
// The negated comparison sets the bit for NaN on either side.
template <class Score>
INLINE uint32_t candidates(const Score* part, Score bound, bool has_k) {
    Counts<Score> bit = {}, chosen = {};
    for (int64_t j = 0; j < kWidth<Score>; ++j) bit[j] = int64_t(1) << j;
    if (has_k)
        for (int64_t j = 0; j < kStep; j += kWidth<Score>, bit <<= kWidth<Score>) chosen |= bit & ~(load(part + j) <= bound);
    else
        for (int64_t j = 0; j < kStep; j += kWidth<Score>, bit <<= kWidth<Score>) chosen |= bit & ~(load(part + j) < bound);
    uint64_t words[4];
    std::memcpy(words, &chosen, sizeof words);
    const uint64_t all = words[0] | words[1] | words[2] | words[3];
    return uint32_t(all | all >> 32);
}

// The k best of a few keys of 64 bits, by counting how many are higher than each: more comparisons than a sort, but no branch that could
// be mispredicted. The array has room for kStep more keys.
INLINE void place_few(int64_t* keys, int64_t count, int64_t k, int64_t* best) {
    typedef int64_t Keys __attribute__((vector_size(32)));
    constexpr int64_t kLowestKey = std::numeric_limits<int64_t>::min();
    for (int64_t j = 0; j < count; ++j) keys[j] ^= kLowestKey;  // now in the order of signed integers
    std::fill(keys + count, keys + count + 4, kLowestKey);
    for (int64_t i = 0; i < count; i += 4) {
        Keys higher[4] = {};
        for (int64_t j = 0; j < count; j += 4) {
            Keys some;
            std::memcpy(&some, keys + j, sizeof some);
            for (int64_t one = 0; one < 4; ++one) higher[one] -= some > keys[i + one];
        }
        for (int64_t one = 0; one < 4 && i + one < count; ++one) {
            const int64_t place = higher[one][0] + higher[one][1] + higher[one][2] + higher[one][3];
            if (place < k) best[place] = item_of<float>(uint64_t(keys[i + one]));
        }
    }
}

// The k best items of a row and their scores. `found` has room for `room` keys. A row with NaN, or with NaN or +inf among its masked
// scores, begins with one. `hidden` has a bit for each masked item, in words of kStep.
template <class Score>
INLINE void best_of_row(const Score* row, int64_t items, Masked masked, const uint32_t* hidden, int64_t k, Score* maxima,
                        int64_t lanes, Key<Score>* found, int64_t room, Score* values, int64_t* best) {
    int64_t count = 0, bad = -1;
    Score bound = first_bound(row, items, masked, k, maxima, lanes);
    bool has_k = false;
    const auto keep_best = [&] {
        std::nth_element(found, found + k - 1, found + count, std::greater<Key<Score>>());
        count = k;
        bound = score_of<Score>(found[k - 1]);
        has_k = true;
    };
    for (int64_t first = 0; first < items; first += kStep) {
        uint32_t left = first + kStep <= items ? candidates(row + first, bound, has_k) : ~uint32_t(0) >> (first + kStep - items);
        left &= ~hidden[first / kStep];
        for (; left; left &= left - 1) {
            const int64_t item = first + __builtin_ctz(left);
            if (row[item] != row[item]) bad = item;
            found[count++] = key_of(row[item], item);
        }
        if (count > room - kStep) keep_best();
    }
    const int64_t length = std::min(count, k);  // fewer than k if nearly all are masked
    if (sizeof(Score) == 4 && count <= kFew) {
        place_few(reinterpret_cast<int64_t*>(found), count, k, best);
    } else {
        if (count > k) keep_best();
        std::sort(found, found + length, std::greater<Key<Score>>());
        for (int64_t place = 0; place < length; ++place) best[place] = item_of<Score>(found[place]);
    }
    for (int64_t place = 0; place < length; ++place) values[place] = row[best[place]];
    std::fill(values + length, values + k, kLowest<Score>);
    std::fill(best + length, best + k, 0);
    for (int64_t j = 0; j < masked.number; ++j)
        if (!(row[masked.items[j]] < std::numeric_limits<Score>::infinity())) bad = masked.items[j];
    if (bad >= 0) best[0] = bad, values[0] = row[bad];
}

template <class Score>
INLINE void best_of_rows(const Score* scores, int64_t rows, int64_t items, const int64_t* masked, int64_t k, const int64_t* offsets,
                         Score* values, int64_t* best) {
    const int64_t lanes = (2 * k + kWidth<Score> - 1) / kWidth<Score> * kWidth<Score>, room = 4 * k + 8 * kStep;
    std::vector<Score> maxima(2 * lanes);
    std::vector<Key<Score>> found(room);
    std::vector<uint32_t> hidden(items / kStep + 1);
    for (int64_t row = 0; row < rows; ++row) {
        const Masked own = {masked + offsets[row], offsets[row + 1] - offsets[row]};
        for (int64_t j = 0; j < own.number; ++j) hidden[own.items[j] / kStep] |= uint32_t(1) << own.items[j] % kStep;
        best_of_row(scores + row * items, items, own, hidden.data(), k, maxima.data(), lanes, found.data(), room, values + row * k,
                    best + row * k);
        for (int64_t j = 0; j < own.number; ++j) hidden[own.items[j] / kStep] = 0;
    }
}

// The number of scores above a value plus the number of those at least as high. A true comparison is -1.
template <class Score>
INLINE int64_t count_block(const Score* part, int64_t size, Score value) {
    Counts<Score> counts = {};
    int64_t j = 0, sum = 0;
    for (; j + kWidth<Score> <= size; j += kWidth<Score>) {
        const Scores<Score> scores = load(part + j);
        counts += (scores > value) + (scores >= value);
    }
    for (; j < size; ++j) sum += (part[j] > value) + (part[j] >= value);
    return sum - total<Score>(counts);
}

// The sum of these numbers over kSome ascending values, for whole vectors of scores. The middle value decides with which side a score is
// compared. One comparison per value is enough, because a score can equal only the last value that it reaches.
template <class Score>
INLINE int64_t count_vectors(const Score* part, int64_t size, const Score* values) {
    const Scores<Score> nothing = Scores<Score>{} + std::numeric_limits<Score>::quiet_NaN(), middle = Scores<Score>{} + values[kSide];
    Scores<Score> low[kSide], high[kSide];
    for (int64_t v = 0; v < kSide; ++v) {
        low[v] = Scores<Score>{} + values[v];
        high[v] = Scores<Score>{} + values[kSide + 1 + v];
    }
    Counts<Score> halves = {}, others = {}, equal = {};  // scores that reach the middle; values reached on each side
    for (int64_t j = 0; j < size; j += kWidth<Score>) {
        const Scores<Score> scores = load(part + j);
        const Counts<Score> is_high = scores >= middle;
        Scores<Score> last = is_high ? middle : nothing;
        Counts<Score> reached = {};
        for (int64_t v = 0; v < kSide; ++v) {
            const Scores<Score> value = is_high ? high[v] : low[v];
            const Counts<Score> is_reached = scores >= value;
            reached += is_reached;
            last = is_reached ? value : last;
        }
        halves += is_high;
        others += reached;
        equal += scores == last;
    }
    return total<Score>(equal) - 2 * ((kSide + 1) * total<Score>(halves) + total<Score>(others));
}

template <class Score>
INLINE int64_t count_above_lowest(const Score* part, int64_t size) {
    Counts<Score> counts = {};
    int64_t j = 0, sum = 0;
    for (; j + kWidth<Score> <= size; j += kWidth<Score>) counts += load(part + j) > kLowest<Score>;
    for (; j < size; ++j) sum += part[j] > kLowest<Score>;
    return sum - total<Score>(counts);
}

// For each row: the sum of these numbers over its values `offsets[row]` to `offsets[row + 1] - 1`; and the number of scores above -inf.
// Masked scores are counted with the others, and then, as a block of their own, subtracted.
template <class Score>
INLINE void count_in_rows(const Score* scores, int64_t rows, int64_t items, const int64_t* masked, const Score* values,
                          const int64_t* masked_offsets, const int64_t* offsets, int64_t* ranks, int64_t* offered) {
    std::vector<Score> sorted, hidden;
    const int64_t blocks = (items + kBlock - 1) / kBlock;
    for (int64_t row = 0; row < rows; ++row) {
        const Score* own = scores + row * items;
        sorted.assign(values + offsets[row], values + offsets[row + 1]);
        std::sort(sorted.begin(), sorted.end());
        hidden.resize(masked_offsets[row + 1] - masked_offsets[row]);
        const int64_t number = int64_t(sorted.size());
        int64_t rank = 0, there = 0;
        for (int64_t block = 0; block <= blocks; ++block) {
            const Score* part = own + block * kBlock;
            int64_t size = std::min(kBlock, items - block * kBlock), sign = 1;
            if (block == blocks) {
                for (size_t j = 0; j < hidden.size(); ++j) hidden[j] = own[masked[masked_offsets[row] + j]];
                part = hidden.data(), size = int64_t(hidden.size()), sign = -1;
            }
            const int64_t vectors = size / kWidth<Score> * kWidth<Score>;
            there += sign * count_above_lowest(part, size);
            for (int64_t v = 0; v < number;) {
                const Score* some = sorted.data() + v;
                const bool ascend = v + kSome <= number && std::adjacent_find(some, some + kSome) == some + kSome;
                if (ascend) rank += sign * count_vectors(part, vectors, some);
                const int64_t done = ascend ? vectors : 0, next = v + (ascend ? kSome : 1);
                for (; v < next; ++v) rank += sign * count_block(part + done, size - done, sorted[v]);
            }
        }
        ranks[row] = rank;
        offered[row] = there;
    }
}

}  // namespace

extern "C" {

EACH_PROCESSOR void read_float32(const float* scores, int64_t rows, int64_t items, const int64_t* masked, const int64_t* masked_offsets,
                                 const int64_t* cells, const int64_t* offsets, float* read) {
    read_in_rows(scores, rows, items, masked, masked_offsets, cells, offsets, read);
}

EACH_PROCESSOR void read_float64(const double* scores, int64_t rows, int64_t items, const int64_t* masked, const int64_t* masked_offsets,
                                 const int64_t* cells, const int64_t* offsets, double* read) {
    read_in_rows(scores, rows, items, masked, masked_offsets, cells, offsets, read);
}

EACH_PROCESSOR void best_float32(const float* scores, int64_t rows, int64_t items, const int64_t* masked, int64_t k, const int64_t* offsets,
                               float* values, int64_t* best) {
    best_of_rows(scores, rows, items, masked, k, offsets, values, best);
}

EACH_PROCESSOR void best_float64(const double* scores, int64_t rows, int64_t items, const int64_t* masked, int64_t k,
                                const int64_t* offsets, double* values, int64_t* best) {
    best_of_rows(scores, rows, items, masked, k, offsets, values, best);
}

EACH_PROCESSOR void count_float32(const float* scores, int64_t rows, int64_t items, const int64_t* masked, const float* values,
                                const int64_t* masked_offsets, const int64_t* offsets, int64_t* ranks, int64_t* offered) {
    count_in_rows(scores, rows, items, masked, values, masked_offsets, offsets, ranks, offered);
}

EACH_PROCESSOR void count_float64(const double* scores, int64_t rows, int64_t items, const int64_t* masked, const double* values,
                                 const int64_t* masked_offsets, const int64_t* offsets, int64_t* ranks, int64_t* offered) {
    count_in_rows(scores, rows, items, masked, values, masked_offsets, offsets, ranks, offered);
}
}
