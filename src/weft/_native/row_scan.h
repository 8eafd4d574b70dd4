// The scan of rows of scores, compiled once for each instruction set: `scores.cpp` includes this file into a namespace of its own, after
// it has set VECTOR_BYTES. No function of the standard library that could be emitted out of line is called here: the linker would
// merge the copies of all instruction sets.

template <class Score>
struct Vector;

template <>
struct Vector<float> {
    typedef float Scores __attribute__((vector_size(VECTOR_BYTES)));
    typedef int32_t Counts __attribute__((vector_size(VECTOR_BYTES)));
};

template <>
struct Vector<double> {
    typedef double Scores __attribute__((vector_size(VECTOR_BYTES)));
    typedef int64_t Counts __attribute__((vector_size(VECTOR_BYTES)));
};

template <class Score>
using Scores = typename Vector<Score>::Scores;
template <class Score>
using Counts = typename Vector<Score>::Counts;
template <class Score>
constexpr int64_t kWidth = VECTOR_BYTES / sizeof(Score);  // scores in a vector

template <class Score>
INLINE Scores<Score> load(const Score* from) {
    Scores<Score> scores;
    std::memcpy(&scores, from, sizeof scores);
    return scores;
}

template <class Score>
INLINE void store(Score* to, Scores<Score> scores) {
    std::memcpy(to, &scores, sizeof scores);
}

template <class Score>
INLINE int64_t total(Counts<Score> counts) {
    int64_t sum = 0;
    for (int64_t j = 0; j < kWidth<Score>; ++j) sum += counts[j];
    return sum;
}

// --------------------------------------------------------------------------------------------------------------- the best of a row

// A score that at least k scores reach, from the maxima of `lanes` lanes, by bisection between the lowest and the highest: close enough,
// and cheaper than selecting the k-th.
template <class Score>
INLINE Score bound_from(const Score* maxima, int64_t lanes, int64_t k) {
    Scores<Score> lowest = load(maxima), highest = lowest;
    for (int64_t lane = kWidth<Score>; lane < lanes; lane += kWidth<Score>) {
        const Scores<Score> some = load(maxima + lane);
        lowest = some < lowest ? some : lowest;
        highest = some > highest ? some : highest;
    }
    Score least = lowest[0], most = highest[0];
    for (int64_t j = 1; j < kWidth<Score>; ++j) {
        least = lowest[j] < least ? lowest[j] : least;
        most = highest[j] > most ? highest[j] : most;
    }
    Bits<Score> low = order_of(least), high = order_of(most);
    for (int step = 0; step < kHalvings && high - low > 1; ++step) {
        const Bits<Score> middle = low + (high - low) / 2;
        const Score wanted = in_order<Score>(middle);
        Counts<Score> reached = {};
        for (int64_t lane = 0; lane < lanes; lane += kWidth<Score>) reached -= load(maxima + lane) >= wanted;
        const bool is_reached = total<Score>(reached) >= k;
        low = is_reached ? middle : low;
        high = is_reached ? high : middle;
    }
    return in_order<Score>(low);
}

// A bit for each of kStep scores that may be among the best: not those below the bound, nor, once k were found, those equal to it. NaN on
// either side sets the bit.
#if VECTOR_BYTES > 16
template <int comparison>
INLINE uint64_t compare(const float* part, float bound) {
    uint64_t bits = 0;
#if VECTOR_BYTES == 64
    const __m512 limit = _mm512_set1_ps(bound);
    for (int j = 0; j < kStep; j += 16) bits |= uint64_t(_mm512_cmp_ps_mask(_mm512_loadu_ps(part + j), limit, comparison)) << j;
#else
    const __m256 limit = _mm256_set1_ps(bound);
    for (int j = 0; j < kStep; j += 8)
        bits |= uint64_t(_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(part + j), limit, comparison))) << j;
#endif
    return bits;
}

INLINE uint64_t find_high(const float* part, float bound, bool has_k) {
    return has_k ? compare<_CMP_NLE_UQ>(part, bound) : compare<_CMP_NLT_UQ>(part, bound);
}
#endif

template <class Score>
INLINE uint64_t find_high(const Score* part, Score bound, bool has_k) {
    constexpr int64_t kHalf = kStep / 2;  // bits fit into 32-bit integers
    uint64_t bits = 0;
    for (int64_t half = 0; half < kStep; half += kHalf) {
        Counts<Score> bit = {}, chosen = {};
        for (int64_t j = 0; j < kWidth<Score>; ++j) bit[j] = int64_t(1) << j;
        for (int64_t j = half; j < half + kHalf; j += kWidth<Score>, bit <<= kWidth<Score>)
            chosen |= bit & ~(has_k ? load(part + j) <= bound : load(part + j) < bound);
        uint64_t words[VECTOR_BYTES / 8], all = 0;
        std::memcpy(words, &chosen, sizeof words);
        for (uint64_t word : words) all |= word;
        bits |= uint64_t(uint32_t(all | all >> 32)) << half;
    }
    return bits;
}

// Sort up to kFew scores in the order of items by (score descending, item ascending): count for each how many come before it. More
// comparisons than a sort, but no branch that could be mispredicted. The arrays have room for a vector more.
template <class Score>
INLINE void sort_few(Score* scores, const Bits<Score>* items, int64_t count, Score* sorted, Bits<Score>* sorted_items) {
    constexpr int64_t W = kWidth<Score>;
    for (int64_t j = 0; j < W; ++j) scores[count + j] = kLowest<Score>;
    Counts<Score> number = {};
    for (int64_t j = 0; j < W; ++j) number[j] = j;
    for (int64_t first = 0; first < count; first += W) {
        const Scores<Score> own = load(scores + first);
        Counts<Score> before = {};
        const int64_t last = first + W < count ? first + W : count;
        for (int64_t j = 0; j < first; ++j) before -= own <= scores[j];
        Counts<Score> ahead = number;  // above 0 for the items after the one that is compared
        for (int64_t j = first; j < last; ++j, ahead -= 1) before -= (own < scores[j]) | ((own == scores[j]) & (ahead > 0));
        for (int64_t j = last; j < count; ++j) before -= own < scores[j];
        for (int64_t j = first; j < last; ++j) {
            sorted[before[j - first]] = scores[j];
            sorted_items[before[j - first]] = items[j];
        }
    }
}

// The candidates for the k best of a row, found block by block in the order of items.
template <class Score>
struct Candidates {
    Workspace<Score>& space;
    const int64_t k;
    int64_t count = 0;
    Score bound = std::numeric_limits<Score>::quiet_NaN();  // excludes nothing
    bool has_k = false;

    // Add the scores of `size` items from `first` on that may be among the best: whole steps.
    INLINE void add(const Score* part, int64_t first, int64_t size) {
        for (int64_t start = 0; start < size; start += kStep) {
            for (int64_t j = start; j < start + kStep; j += kLine<Score>) __builtin_prefetch(part + j + kBlock<Score>);
            uint64_t bits = find_high(part + start, bound, has_k) & ~space.hidden[(first + start) / kStep];
            if (!bits) continue;
            Score* scores = space.scores + count;
            Bits<Score>* items = space.items + count;
            const int64_t number = __builtin_popcountll(bits);
            for (int64_t j = 0; j < kAtOnce; ++j, bits &= bits - 1) {  // few enough to need no branch
                const int64_t place = start + __builtin_ctzll(bits | uint64_t(1) << (kStep - 1));
                scores[j] = part[place], items[j] = Bits<Score>(first + place);
            }
            for (int64_t j = kAtOnce; bits; ++j, bits &= bits - 1) {
                const int64_t place = start + __builtin_ctzll(bits);
                scores[j] = part[place], items[j] = Bits<Score>(first + place);
            }
            count += number;
            if (count > space.room) keep_best();
        }
    }

    // Keep the k best.
    INLINE void keep_best() {
        reveal_nan();
        bound = select_best(space, count, k);
        count = k, has_k = true;
    }

    INLINE void reveal_nan() {
        for (int64_t j = 0; j < count; ++j)
            if (space.scores[j] != space.scores[j]) space.bad = int64_t(space.items[j]);
    }

    // Write the k best and their scores; -inf after the end of the candidates.
    INLINE void write(Score* values, int64_t* best) {
        if (count > kFew && count > k) keep_best();
        reveal_nan();
        const int64_t length = count < k ? count : k;
        if (count > kFew || space.bad >= 0)
            sort_many(space, count);
        else
            sort_few(space.scores, space.items, count, space.sorted, space.sorted_items);
        for (int64_t place = 0; place < length; ++place) {
            values[place] = space.sorted[place];
            best[place] = int64_t(space.sorted_items[place]);
        }
        for (int64_t place = length; place < k; ++place) values[place] = kLowest<Score>, best[place] = 0;
    }
};

// ------------------------------------------------------------------------------------------------------------------ ranks of values

// The number of scores above a value plus the number of those at least as high, over whole vectors. A true comparison is -1.
template <class Score>
INLINE int64_t count_one(const Score* part, int64_t size, Score value) {
    Counts<Score> counts = {};
    for (int64_t j = 0; j < size; j += kWidth<Score>) {
        const Scores<Score> scores = load(part + j);
        counts += (scores > value) + (scores >= value);
    }
    return -total<Score>(counts);
}

#if VECTOR_BYTES == 64
// The number of thresholds that each score reaches, summed: a binary search for all scores of a vector at once, in a table that is two
// registers. `thresholds` has 32 elements in ascending order, +inf after the last one, of which there are fewer than 2 to the power of
// `levels`.
template <int levels>
INLINE int64_t search_table(const float* part, int64_t size, const float* thresholds) {
    constexpr int kTop = 1 << (levels - 1);
    const __m512 middle = _mm512_set1_ps(thresholds[kTop - 1]);
    const __m512 low = _mm512_set1_ps(thresholds[kTop / 2 - 1]), high = _mm512_set1_ps(thresholds[kTop + kTop / 2 - 1]);
    __m512 first[levels], second[levels];  // the threshold that is compared next, by the number of those known to be reached
    for (int level = 0; level < levels - 2; ++level) {
        float table[32];
        for (int j = 0; j < 32; ++j) table[j] = thresholds[(j + (1 << level) - 1) & 31];
        first[level] = _mm512_loadu_ps(table), second[level] = _mm512_loadu_ps(table + 16);
    }
    __m512i sums = _mm512_setzero_si512();
    constexpr int kVectors = kStep / 16;  // searched side by side, since each step of a search waits for the one before
    for (int64_t j = 0; j < size; j += kStep) {
        __m512 scores[kVectors];
        __m512i reached[kVectors];
        __mmask16 is_high[kVectors];
        for (int v = 0; v < kVectors; ++v) {
            scores[v] = _mm512_loadu_ps(part + j + 16 * v);
            is_high[v] = _mm512_cmp_ps_mask(scores[v], middle, _CMP_GE_OQ);
            reached[v] = _mm512_maskz_set1_epi32(is_high[v], kTop);
        }
        for (int v = 0; v < kVectors; ++v) {
            const __mmask16 is_reached = _mm512_cmp_ps_mask(scores[v], _mm512_mask_blend_ps(is_high[v], low, high), _CMP_GE_OQ);
            reached[v] = _mm512_mask_add_epi32(reached[v], is_reached, reached[v], _mm512_set1_epi32(kTop / 2));
        }
        for (int level = levels - 3; level >= 0; --level)
            for (int v = 0; v < kVectors; ++v) {
                const __m512 threshold = _mm512_permutex2var_ps(first[level], reached[v], second[level]);
                const __mmask16 is_reached = _mm512_cmp_ps_mask(scores[v], threshold, _CMP_GE_OQ);
                reached[v] = _mm512_mask_add_epi32(reached[v], is_reached, reached[v], _mm512_set1_epi32(1 << level));
            }
        for (int v = 0; v < kVectors; ++v) sums = _mm512_add_epi32(sums, reached[v]);
    }
    return _mm512_reduce_add_epi32(sums);
}

// Two thresholds for each value: a score that reaches the next higher number is above it.
INLINE int64_t count_some(const float* part, int64_t size, const float* values, int64_t number) {
    float thresholds[32];
    for (int64_t j = 0; j < 32; ++j) thresholds[j] = std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < number; ++j) {
        thresholds[2 * j] = values[j];
        thresholds[2 * j + 1] = in_order<float>(order_of(values[j]) + 1);
    }
    if (number < 4) return search_table<3>(part, size, thresholds);
    return number < 8 ? search_table<4>(part, size, thresholds) : search_table<5>(part, size, thresholds);
}

template <class Score>
constexpr int64_t kSome = sizeof(Score) == 4 ? 15 : 5;
#else
template <class Score>
constexpr int64_t kSome = 5;
#endif

// The sum of these numbers over up to kSome ascending values, padded with +inf. The middle value decides with which side a score is
// compared. One comparison per value is enough, because a score can equal only the last value that it reaches.
template <class Score>
INLINE int64_t count_some(const Score* part, int64_t size, const Score* values, int64_t number) {
    constexpr int64_t kSide = 2;
    Score padded[2 * kSide + 1];
    for (int64_t v = 0; v < 2 * kSide + 1; ++v) padded[v] = v < number ? values[v] : std::numeric_limits<Score>::infinity();
    const Scores<Score> nothing = Scores<Score>{} + std::numeric_limits<Score>::quiet_NaN(), middle = Scores<Score>{} + padded[kSide];
    Scores<Score> low[kSide], high[kSide];
    for (int64_t v = 0; v < kSide; ++v) {
        low[v] = Scores<Score>{} + padded[v];
        high[v] = Scores<Score>{} + padded[kSide + 1 + v];
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

// The sum of these numbers over ascending values, of which some may be equal.
template <class Score>
INLINE int64_t count_ranks(const Score* part, int64_t size, const Score* values, int64_t number) {
    int64_t sum = 0;
    for (int64_t v = 0; v < number;) {
        int64_t distinct = 1, repeated = 1;
        while (v + repeated < number && values[v + repeated] == values[v]) ++repeated;
        while (distinct < kSome<Score> && v + distinct < number && values[v + distinct] != values[v + distinct - 1]) ++distinct;
        if (v + distinct < number && distinct > 1 && values[v + distinct] == values[v + distinct - 1]) --distinct;
        // The next number is another one to the processor only from the first normal number on.
        for (int64_t j = 0; j < distinct; ++j)
            if (-std::numeric_limits<Score>::min() < values[v + j] && values[v + j] < std::numeric_limits<Score>::min())
                distinct = j < 1 ? 1 : j;
        if (distinct > 1) {
            sum += count_some(part, size, values + v, distinct);
            v += distinct;
        } else {
            sum += repeated * count_one(part, size, values[v]);
            v += repeated;
        }
    }
    return sum;
}

template <class Score>
INLINE int64_t count_offered(const Score* part, int64_t size) {
    int64_t number = 0;
    for (int64_t j = 0; j < size; j += kStep) number += __builtin_popcountll(find_high(part + j, kLowest<Score>, true));
    return number;
}

// --------------------------------------------------------------------------------------------------------------------- whole rows

// A score that at least k of the scores of a row reach; NaN, which excludes nothing, if none is known. Lane l of `lanes` holds the items
// l, l + lanes, ...: such maxima vectorize. Masked scores are replaced in a copy.
template <class Score>
INLINE Score first_bound(const Score* row, int64_t items, const int64_t* masked, const int64_t* end, int64_t k, Workspace<Score>& space) {
    const int64_t lanes = space.lanes, layers = items / lanes < kLayers ? items / lanes : kLayers;
    if (layers < 3) return std::numeric_limits<Score>::quiet_NaN();
    const int64_t at_once = kBlock<Score> / lanes < 1 ? 1 : kBlock<Score> / lanes;
    for (int64_t lane = 0; lane < lanes; ++lane) space.maxima[lane] = kLowest<Score>;
    for (int64_t layer = 0; layer < layers; layer += at_once) {
        const int64_t first = layer * lanes, size = (layers - layer < at_once ? layers - layer : at_once) * lanes;
        for (int64_t j = 0; j < size; j += kWidth<Score>) store(space.block + j, load(row + first + j));
        for (; masked < end && *masked < first + size; ++masked) space.block[*masked - first] = kLowest<Score>;
        for (int64_t lane = 0; lane < lanes; lane += kWidth<Score>) {
            Scores<Score> most = load(space.maxima + lane);
            for (int64_t j = lane; j < size; j += lanes) {
                const Scores<Score> scores = load(space.block + j);
                most = scores > most ? scores : most;
            }
            store(space.maxima + lane, most);
        }
    }
    return bound_from(space.maxima, lanes, k);
}

// Read the scores of a row's items, masked, from the row itself.
template <class Score>
INLINE void read_items(const Score* row, const int64_t* masked, const int64_t* end, const int64_t* items, int64_t number, Score* read) {
    for (int64_t j = 0; j < number; ++j) {
        const int64_t* first = masked;
        for (int64_t size = end - masked; size > 0;) {  // the first masked item that is not before it
            const int64_t half = size / 2;
            const bool is_before = first[half] < items[j];
            first = is_before ? first + half + 1 : first;
            size = is_before ? size - half - 1 : half;
        }
        read[j] = first < end && *first == items[j] ? kLowest<Score> : row[items[j]];
    }
}

// The position of an item in the ranked list of its row; k if it is not in it.
template <class Score>
INLINE int64_t find_position(const Score* values, const int64_t* best, int64_t k, Score score, int64_t item) {
    if (!(score > kLowest<Score>) || score < values[k - 1]) return k;
    int64_t first = 0;
    for (int64_t size = k; size > 0;) {
        const int64_t half = size / 2;
        const bool is_before = values[first + half] > score || (values[first + half] == score && best[first + half] < item);
        first = is_before ? first + half + 1 : first;
        size = is_before ? size - half - 1 : half;
    }
    return first < k && best[first] == item ? first : k;
}

// The sums over a row that are asked for.
template <class Score>
struct Sums {
    const Score* values;  // ascending
    int64_t number;
    bool counts_offered;
    int64_t ranks = 0, offered = 0;

    // Add (or subtract) whole steps of scores.
    INLINE void add(const Score* part, int64_t size, int64_t sign) {
        if (number) ranks += sign * count_ranks(part, size, values, number);
        if (counts_offered) offered += sign * count_offered(part, size);
    }
};

template <class Score>
INLINE void scan_row(const Scan<Score>& scan, int64_t number, Workspace<Score>& space) {
    const Score* row = scan.scores + number * scan.items;
    const int64_t *masked = scan.masked + scan.masked_offsets[number], *end = scan.masked + scan.masked_offsets[number + 1];
    Candidates<Score> candidates = {space, scan.k};
    space.bad = -1;
    if (scan.k) candidates.bound = first_bound(row, scan.items, masked, end, scan.k, space);
    int64_t cell = 0, last_cell = 0;
    Sums<Score> sums = {nullptr, 0, scan.offered != nullptr};
    if (scan.cell_offsets) {
        cell = scan.cell_offsets[number], last_cell = scan.cell_offsets[number + 1];
        if (scan.cells) read_items(row, masked, end, scan.cells + cell, last_cell - cell, scan.cell_scores + cell);
        if (scan.ranks) sums.number = sort_values(scan.cell_scores + cell, last_cell - cell, space), sums.values = space.values;
    }
    if (scan.k || scan.ranks || scan.offered) {
        for (const int64_t* item = masked; item < end; ++item) space.hidden[*item / kStep] |= uint64_t(1) << *item % kStep;
        const int64_t steps = scan.items / kStep * kStep;
        for (int64_t first = 0; first < steps; first += kBlock<Score>) {
            const int64_t size = steps - first < kBlock<Score> ? steps - first : kBlock<Score>;
            if (scan.k) candidates.add(row + first, first, size);
            sums.add(row + first, size, 1);
        }
        if (steps < scan.items) {  // filled up with -inf
            for (int64_t j = 0; j < kStep; ++j) space.block[j] = steps + j < scan.items ? row[steps + j] : kLowest<Score>;
            if (scan.k) candidates.add(space.block, steps, kStep);
            sums.add(space.block, kStep, 1);
        }
        // Masked scores were counted with the others.
        for (; masked < end;) {
            int64_t size = 0;
            for (; masked < end && size < kStep; ++masked, ++size) {
                space.hidden[*masked / kStep] &= ~(uint64_t(1) << *masked % kStep);
                space.block[size] = row[*masked];
                if (!(row[*masked] < std::numeric_limits<Score>::infinity())) space.bad = *masked;
            }
            for (; size < kStep; ++size) space.block[size] = kLowest<Score>;
            sums.add(space.block, kStep, -1);
        }
    }
    if (scan.offered) scan.offered[number] = sums.offered;
    if (scan.ranks) scan.ranks[number] = sums.ranks;
    if (!scan.k) return;
    Score* values = scan.values + number * scan.k;
    int64_t* best = scan.best + number * scan.k;
    candidates.write(values, best);
    if (scan.positions)
        for (; cell < last_cell; ++cell)
            scan.positions[cell] = find_position(values, best, scan.k, scan.cell_scores[cell], scan.cells[cell]);
    if (space.bad >= 0) best[0] = space.bad, values[0] = row[space.bad];
}

template <class Score>
void scan_rows(const Scan<Score>& scan, Workspace<Score>& space) {
    for (int64_t row = 0; row < scan.rows; ++row) scan_row(scan, row, space);
}
