/* The steps of a search on a processor: the same function as dragoman/model/incremental.py, one call a step. Written for
 * AVX-512, for AVX2, and with the vectors of GCC and Clang for all others.
 *
 * One thread works on a search. What it keeps: each live hypothesis (a row) ends in a node, which holds the keys and
 * values of its newest token and points to that of the token before. Rows that descend from one another share nodes,
 * so that nothing is copied when hypotheses change places, and whoever ends gives its nodes back.
 *
 * Products read weights that lie in blocks of COLUMNS outputs by all inputs, as many inputs side by side as fit in 4
 * bytes, as the processor's instructions want them; in int8 weights are bytes everywhere, since reading them takes most
 * of the time that few rows need, and are widened where products read 16 bits. Sums are in int32 or fp32; everything else is in fp32. The sum of
 * one row never depends on other rows.
 *
 * setup.py compiles this file once for each VARIANT of processors into one library, which dragoman/native.py loads;
 * native_variants.c says what a processor can run. dragoman/model/compiled.py describes models to it.
 */
#if defined(__AVX2__)
#include <immintrin.h>
#define HAS_AVX2 1
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What Python calls; each variant's name ends in its own: dragoman_step_avx2. */
#if defined(_WIN32)
#include <malloc.h>
#define EXPORT(type, name) __declspec(dllexport) type OWN(name)
#else
#define EXPORT(type, name) type OWN(name)
#endif
#define OWN(name) JOINED(name, VARIANT)
#define JOINED(name, variant) JOINED_AS_THEY_ARE(name, variant)
#define JOINED_AS_THEY_ARE(name, variant) name##_##variant

enum { INT8 = 0, BF16 = 1, FP32 = 2 };
#define ALL_LANES ((Mask)((1u << LANES) - 1))
/* Rows that go through all layers together, so that what they make stays in the second-level cache. */
#define ROWS_TOGETHER 192
#define LEVELS 127
#define ZERO 128
#define REACH 6.0f /* standard deviations that LEVELS stand for, where a norm makes inputs in int8 */

/* ---- Vectors of LANES numbers; bit i of a mask says whether lane i is meant ---- */

#if defined(__AVX512VNNI__)

#define LANES 16
#define COLUMNS 64
#define SHIFT 0
#if defined(__AVX512BF16__)
#define HAS_BF16 1
#else
#define HAS_BF16 0
#endif

typedef __m512 Floats;
typedef __m512i Ints;
typedef __mmask16 Mask;
typedef uint8_t Level; /* an input or a weight in int8, as products read it */

static inline Floats spread(float x) { return _mm512_set1_ps(x); }
static inline Floats load(Mask mask, const float *from) { return _mm512_maskz_loadu_ps(mask, from); }
static inline Floats load_or(Floats other, Mask mask, const float *from) { return _mm512_mask_loadu_ps(other, mask, from); }
static inline void store(float *to, Mask mask, Floats x) { _mm512_mask_storeu_ps(to, mask, x); }
static inline Floats only(Mask mask, Floats x) { return _mm512_maskz_mov_ps(mask, x); }
static inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
static inline Floats largest(Floats a, Floats b) { return _mm512_max_ps(a, b); }
static inline Floats smallest(Floats a, Floats b) { return _mm512_min_ps(a, b); }
static inline Floats rounded(Floats x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline Floats times_two_to(Floats x, Floats n) { return _mm512_scalef_ps(x, n); }
static inline float sum_of(Floats x) { return _mm512_reduce_add_ps(x); }
static inline float largest_of(Floats x) { return _mm512_reduce_max_ps(x); }
static inline unsigned are_larger(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
static inline unsigned are_no_numbers(Floats x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }
static inline Ints load_ints(const void *from) { return _mm512_loadu_si512(from); }
static inline Ints spread_int(int32_t x) { return _mm512_set1_epi32(x); }
static inline Ints nearest_ints(Floats x) { return _mm512_cvtps_epi32(x); }
static inline Floats as_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
static inline Ints plus(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
static inline void store_levels(Level *to, Mask mask, Ints x) { _mm512_mask_cvtepi32_storeu_epi8(to, mask, x); }
#if HAS_BF16
static inline void store_in_bf16(uint16_t *to, Mask mask, Floats x) { _mm256_mask_storeu_epi16(to, mask, (__m256i)_mm512_cvtneps_pbh(x)); }
#endif

#elif defined(HAS_AVX2)

#define LANES 8
#define COLUMNS 16
#define SHIFT 0
#define HAS_BF16 0

typedef __m256 Floats;
typedef __m256i Ints;
typedef uint8_t Mask;
#if defined(__AVXVNNI__)
typedef uint8_t Level;
#else
typedef int16_t Level; /* products of bytes would overflow their sums of two */
#endif

static inline Ints lanes_of(Mask mask) {
    const Ints bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(mask), bits), bits);
}
static inline Floats spread(float x) { return _mm256_set1_ps(x); }
static inline Floats load(Mask mask, const float *from) { return mask == 0xff ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, lanes_of(mask)); }
static inline Floats only_or(Floats other, Mask mask, Floats x) { return _mm256_blendv_ps(other, x, (Floats)lanes_of(mask)); }
static inline Floats load_or(Floats other, Mask mask, const float *from) { return mask == 0xff ? _mm256_loadu_ps(from) : only_or(other, mask, load(mask, from)); }
static inline void store(float *to, Mask mask, Floats x) {
    if (mask == 0xff) _mm256_storeu_ps(to, x);
    else _mm256_maskstore_ps(to, lanes_of(mask), x);
}
static inline Floats only(Mask mask, Floats x) { return mask == 0xff ? x : only_or(_mm256_setzero_ps(), mask, x); }
static inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
static inline Floats largest(Floats a, Floats b) { return _mm256_max_ps(a, b); }
static inline Floats smallest(Floats a, Floats b) { return _mm256_min_ps(a, b); }
static inline Floats rounded(Floats x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline Floats times_two_to(Floats x, Floats n) { /* n from -126 to 127 */
    return x * (Floats)_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
}
static inline float sum_of(Floats x) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
static inline float largest_of(Floats x) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}
static inline unsigned are_larger(Floats a, Floats b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)); }
static inline unsigned are_no_numbers(Floats x) { return _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)); }
static inline Ints load_ints(const void *from) { return _mm256_loadu_si256(from); }
static inline Ints spread_int(int32_t x) { return _mm256_set1_epi32(x); }
static inline Ints nearest_ints(Floats x) { return _mm256_cvtps_epi32(x); }
static inline Floats as_floats(Ints x) { return _mm256_cvtepi32_ps(x); }
static inline Ints plus(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
static inline void store_levels(Level *to, Mask mask, Ints x) {
    const __m128i eight = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    Level levels[16];
    _mm_storeu_si128((__m128i *)levels, sizeof(Level) == 1 ? _mm_packus_epi16(eight, eight) : eight);
    if (mask == 0xff) memcpy(to, levels, LANES * sizeof(Level));
    else
        for (int i = 0; i < LANES; i++)
            if (mask >> i & 1) to[i] = levels[i];
}

#else

#define LANES 4
#define COLUMNS 16
#define HAS_BF16 0

typedef float Floats __attribute__((vector_size(16)));
typedef int32_t Ints __attribute__((vector_size(16)));
typedef uint8_t Mask;
#if defined(__ARM_FEATURE_DOTPROD)
typedef int8_t Level; /* bytes have a sign in these products */
#define SHIFT ZERO
#else
typedef int16_t Level;
#define SHIFT 0
#endif

#define EACH_LANE(i, mask) for (int i = 0; i < LANES; i++) if ((mask) >> i & 1)

static inline Floats spread(float x) { return (Floats){x, x, x, x}; }
static inline Floats chosen(Ints which, Floats x, Floats other) { return (Floats)(((Ints)x & which) | ((Ints)other & ~which)); }
static inline Floats load_or(Floats other, Mask mask, const float *from) {
    if (mask == ALL_LANES) memcpy(&other, from, sizeof(other));
    else EACH_LANE(i, mask) other[i] = from[i];
    return other;
}
static inline Floats load(Mask mask, const float *from) { return load_or(spread(0.0f), mask, from); }
static inline void store(float *to, Mask mask, Floats x) {
    if (mask == ALL_LANES) memcpy(to, &x, sizeof(x));
    else EACH_LANE(i, mask) to[i] = x[i];
}
static inline Floats only(Mask mask, Floats x) {
    EACH_LANE(i, (Mask)~mask) x[i] = 0.0f;
    return x;
}
static inline Floats multiply_add(Floats a, Floats b, Floats c) { return a * b + c; }
static inline Floats largest(Floats a, Floats b) { return chosen(a > b, a, b); } /* of a NaN, the second */
static inline Floats smallest(Floats a, Floats b) { return chosen(a < b, a, b); }
static inline Floats rounded(Floats x) { return (x + 12582912.0f) - 12582912.0f; } /* 1.5 * 2^23, beside which nothing is left of fractions */
static inline Ints nearest_ints(Floats x) { return __builtin_convertvector(rounded(x), Ints); }
static inline Floats times_two_to(Floats x, Floats n) { return x * (Floats)((nearest_ints(n) + 127) << 23); } /* n from -126 to 127 */
static inline float sum_of(Floats x) { return (x[0] + x[2]) + (x[1] + x[3]); }
static inline float largest_of(Floats x) {
    float most = x[0];
    EACH_LANE(i, ALL_LANES) most = x[i] > most ? x[i] : most;
    return most;
}
static inline unsigned lanes_where(Ints which) {
    unsigned mask = 0;
    EACH_LANE(i, ALL_LANES) mask |= (unsigned)(which[i] & 1) << i;
    return mask;
}
static inline unsigned are_larger(Floats a, Floats b) { return lanes_where(a > b); }
static inline unsigned are_no_numbers(Floats x) { return lanes_where(x != x); }
static inline Ints load_ints(const void *from) {
    Ints x;
    memcpy(&x, from, sizeof(x));
    return x;
}
static inline Ints spread_int(int32_t x) { return (Ints){x, x, x, x}; }
static inline Floats as_floats(Ints x) { return __builtin_convertvector(x, Floats); }
static inline Ints plus(Ints a, Ints b) { return a + b; }
static inline void store_levels(Level *to, Mask mask, Ints x) { EACH_LANE(i, mask) to[i] = (Level)(x[i] - SHIFT); }

#endif

#define VECTORS (COLUMNS / LANES)
#define ROWS_AT_ONCE 6

/* Which types this variant computes: bit INT8, bit BF16, bit FP32. */
EXPORT(int32_t, dragoman_kinds)(void) { return 1 << INT8 | HAS_BF16 << BF16 | 1 << FP32; }

/* By how much levels are smaller as products read them. */
EXPORT(int32_t, dragoman_shift)(void) { return SHIFT; }

static size_t size_of(int kind) { return kind == INT8 ? sizeof(Level) : kind == BF16 ? 2 : 4; }
static int group_of(int kind) { return 4 / size_of(kind); }
static inline int groups_of(int kind, int n_in) { return (n_in + group_of(kind) - 1) / group_of(kind); }
static inline int padded(int kind, int n_in) { return groups_of(kind, n_in) * group_of(kind); } /* with what fills the last group */
/* Bytes of the weights of an output for a group of inputs; in int8 one each, whatever Level is. */
static inline size_t unit_of(int kind) { return kind == INT8 ? group_of(kind) : 4; }
static inline size_t stride_of(int kind, int n_in) { return (size_t)4 * groups_of(kind, n_in); } /* bytes of a row of inputs */
static int blocks_of(int n_out) { return (n_out + COLUMNS - 1) / COLUMNS; }
static inline Mask tail(int left) { return left >= LANES ? ALL_LANES : (Mask)((1u << (left < 0 ? 0 : left)) - 1); }

/* Memory that begins at a multiple of 64, for `release`. */
#if defined(_WIN32)
static void *reserve(size_t n_bytes) { return _aligned_malloc(n_bytes + 64, 64); }
static void release(void *memory) { _aligned_free(memory); }
#else
static void *reserve(size_t n_bytes) {
    void *memory = NULL;
    return posix_memalign(&memory, 64, n_bytes + 64) ? NULL : memory;
}
static void release(void *memory) { free(memory); }
#endif

/* ---- What Python describes ---- */

typedef struct {
    int32_t n_in, n_out;
    const void *packed;
    const float *scales; /* (blocks * COLUMNS), int8 only: of a weight's level, for each output */
    const float *bias;   /* (blocks * COLUMNS) */
    const int32_t *sums; /* (blocks * COLUMNS), int8 only: where sums begin, (SHIFT - zero) * sum of a row */
} Linear;

typedef struct {
    const float *weight, *bias; /* (D); in int8 they are part of the products that read what is normed */
    float epsilon;
} Norm;

typedef struct {
    Linear own_in, own_out, cross_query, cross_memory, cross_out, wide, narrow;
    Norm own_norm, cross_norm, feed_forward_norm;
    const float *gains; /* (d_ff): levels of one, of what GELU or swish return, in int8 */
} Layer;

typedef struct {
    const float *tokens;    /* (V, D) */
    const float *positions; /* (max_positions, D) */
    float scale;
    float gain; /* of what the first layer reads where no norm stands before it: levels of one in int8, else 1 */
} Embedding;

typedef struct {
    int32_t kind, d_model, n_heads, d_ff, n_encoder_layers, n_decoder_layers;
    int32_t norms_after; /* post-norm: what is added to the residual stream is normed with it, not read through a norm */
    int32_t activation;  /* RELU, GELU or SWISH */
    const Layer *encoder, *decoder;
    Norm encoder_norm, decoder_norm; /* pre-norm only */
    Embedding src, tgt;
    Linear output;
    const void *output_rows; /* (V, D) in the model's type: of which the columns of a shortlist are packed */
} Model;

/* ---- Arithmetic ---- */

static inline Floats exponential(Floats x) {
    x = largest(spread(-87.0f), x); /* of a NaN, `largest` gives the second */
    const Floats n = rounded(x * spread(1.44269504f));
    Floats r = multiply_add(n, spread(-0.693359375f), x);
    r = multiply_add(n, spread(2.12194440e-4f), r);
    Floats p = spread(1.9875691500e-4f);
    p = multiply_add(p, r, spread(1.3981999507e-3f));
    p = multiply_add(p, r, spread(8.3334519073e-3f));
    p = multiply_add(p, r, spread(4.1665795894e-2f));
    p = multiply_add(p, r, spread(1.6666665459e-1f));
    p = multiply_add(p, r, spread(5.0000001201e-1f));
    return times_two_to(multiply_add(p, r * r, r + spread(1.0f)), n);
}

static inline Floats swish(Floats x) { return x / (spread(1.0f) + exponential(smallest(spread(87.0f), -x))); }

/* x Phi(x), the normal distribution's by its error function: Abramowitz and Stegun, 7.1.26, within 1.5e-7. */
static inline Floats gelu(Floats x) {
    const Floats z = largest(x, -x) * spread(0.70710678f), t = spread(1.0f) / multiply_add(z, spread(0.3275911f), spread(1.0f));
    Floats p = multiply_add(t, spread(1.061405429f), spread(-1.453152027f));
    p = multiply_add(t, p, spread(1.421413741f));
    p = multiply_add(t, p, spread(-0.284496736f));
    p = multiply_add(t, p, spread(0.254829592f));
    const Floats outside = p * t * exponential(-z * z) * spread(0.5f); /* Phi(-|x|) */
    return largest(x, spread(0.0f)) + (x - x) - largest(x, -x) * outside; /* x - x: NaN where x is */
}

/* Write LANES values, as the inputs of a product. In int8 they are levels: rounded, and 0 is ZERO. What fills the last group
 * of a row is written, too: its weights are 0, and 0 times what lay there need not be 0. */
static inline void write_inputs(int kind, void *row, int column, Mask mask, Floats x) {
    if (kind == INT8) {
        x = smallest(largest(x, spread(-LEVELS)), spread(LEVELS));
        store_levels((Level *)row + column, mask, plus(nearest_ints(x), spread_int(ZERO)));
#if HAS_BF16
    } else if (kind == BF16) {
        store_in_bf16((uint16_t *)row + column, mask, x);
#endif
    } else {
        store((float *)row + column, mask, x);
    }
}

/* 0, or NaN where x (D) has one: it is added to what comes of a product in int8, whose inputs are levels, never NaN. */
static float nan_of(const float *x, int D) {
    Floats sum = spread(0.0f);
    for (int i = 0; i < D; i += LANES) sum += load(tail(D - i), x + i);
    return 0.0f * sum_of(sum);
}

/* x (D) normed -> y, inputs of a product, and x itself where `norms_after`. In int8 y has neither weight nor bias. */
static inline void norm_row(int kind, int norms_after, const Norm *norm, float *x, int D, void *y) {
    Floats sum = spread(0.0f), squares = spread(0.0f);
    for (int i = 0; i < D; i += LANES) sum += load(tail(D - i), x + i);
    const Floats mean = spread(sum_of(sum) / D);
    for (int i = 0; i < D; i += LANES) {
        const Floats v = only(tail(D - i), load(tail(D - i), x + i) - mean);
        squares = multiply_add(v, v, squares);
    }
    const float scale = 1.0f / sqrtf(sum_of(squares) / D + norm->epsilon);
    for (int i = 0; i < D; i += LANES) {
        const Mask mask = tail(D - i);
        const Floats v = load(mask, x + i) - mean;
        const Floats normed = multiply_add(v * spread(scale), load(mask, norm->weight + i), load(mask, norm->bias + i));
        if (kind == INT8) write_inputs(kind, y, i, tail(padded(kind, D) - i), v * spread(scale * (LEVELS / REACH)));
        else write_inputs(kind, y, i, tail(padded(kind, D) - i), normed);
        if (norms_after) store(x + i, mask, normed);
    }
}

/* ---- Products ---- */

/* sums += input * weights, in assembler: with the intrinsics GCC copies each sum to another register and back. */
#if defined(HAS_AVX2)
#define ADD_PRODUCTS(instruction, sums, input, weights) __asm__(instruction " %2, %1, %0" : "+v"(sums) : "v"(input), "v"(weights))
#else
#define ADD_PRODUCTS(instruction, sums, input, weights) sums += (Floats)(input) * (Floats)(weights)
#endif

static inline __attribute__((always_inline)) Ints add_levels(Ints sums, Ints input, Ints weights) {
#if LANES == 16
    ADD_PRODUCTS("vpdpbusd", sums, input, weights);
#elif defined(__AVXVNNI__)
    ADD_PRODUCTS("%{vex%} vpdpbusd", sums, input, weights);
#elif defined(HAS_AVX2)
    sums = plus(sums, _mm256_madd_epi16(input, weights));
#elif defined(__SSE2__)
    sums += (Ints)_mm_madd_epi16((__m128i)input, (__m128i)weights);
#elif defined(__ARM_FEATURE_DOTPROD)
    sums = (Ints)vdotq_s32((int32x4_t)sums, (int8x16_t)input, (int8x16_t)weights);
#elif defined(__aarch64__)
    const int16x8_t x = (int16x8_t)input, w = (int16x8_t)weights;
    sums += (Ints)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(w)), vmull_high_s16(x, w));
#else /* two levels of 16 bits in each lane */
    sums += (input << 16 >> 16) * (weights << 16 >> 16) + (input >> 16) * (weights >> 16);
#endif
    return sums;
}

/* What LANES outputs are made of with one group of inputs, as products read it. */
static inline __attribute__((always_inline)) Ints weights_at(const int kind, const char *from) {
    if (kind != INT8 || sizeof(Level) == 1) return load_ints(from);
#if LANES == 8
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)from));
#elif defined(__SSE2__) && LANES == 4
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)from);
    return (Ints)_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
#elif LANES == 4
    typedef int8_t Bytes __attribute__((vector_size(8)));
    typedef int16_t Widened __attribute__((vector_size(16)));
    Bytes bytes;
    memcpy(&bytes, from, sizeof(bytes));
    return (Ints)__builtin_convertvector(bytes, Widened);
#endif
}

enum { STORE, ADD, RELU }; /* fp32; added to what is there; the inputs of the next product, of which 0 is 0 */
enum { GELU = RELU + 1, SWISH };

/* Sum up n_rows rows of x with one block of weights, and write them. All but x, y and n_blocks are constants here. */
static inline __attribute__((always_inline)) void
multiply(const int kind, const int mode, const int n_rows, const Linear *linear, int block, const char *x, size_t x_stride,
         char *y, size_t y_stride) {
    const int n_groups = groups_of(kind, linear->n_in), first = block * COLUMNS;
    const size_t unit = unit_of(kind);
    const char *weights = (const char *)linear->packed + unit * n_groups * first;
    Floats values[ROWS_AT_ONCE][VECTORS];
    if (kind == INT8) {
        Ints sums[ROWS_AT_ONCE][VECTORS];
#pragma GCC unroll 6
        for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 4
            for (int c = 0; c < VECTORS; c++) sums[r][c] = load_ints(linear->sums + first + LANES * c);
        for (int k = 0; k < n_groups; k++) {
            Ints w[VECTORS];
#pragma GCC unroll 4
            for (int c = 0; c < VECTORS; c++) w[c] = weights_at(kind, weights + unit * (k * COLUMNS + c * LANES));
#pragma GCC unroll 6
            for (int r = 0; r < n_rows; r++) {
                int32_t some;
                memcpy(&some, x + r * x_stride + 4 * k, 4);
                const Ints input = spread_int(some);
#pragma GCC unroll 4
                for (int c = 0; c < VECTORS; c++) sums[r][c] = add_levels(sums[r][c], input, w[c]);
            }
        }
#pragma GCC unroll 6
        for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 4
            for (int c = 0; c < VECTORS; c++)
                values[r][c] = multiply_add(as_floats(sums[r][c]), load(ALL_LANES, linear->scales + first + LANES * c),
                                            load(ALL_LANES, linear->bias + first + LANES * c));
    } else {
#pragma GCC unroll 6
        for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 4
            for (int c = 0; c < VECTORS; c++) values[r][c] = load(ALL_LANES, linear->bias + first + LANES * c);
        for (int k = 0; k < n_groups; k++) {
            Ints w[VECTORS];
#pragma GCC unroll 4
            for (int c = 0; c < VECTORS; c++) w[c] = weights_at(kind, weights + unit * (k * COLUMNS + c * LANES));
#pragma GCC unroll 6
            for (int r = 0; r < n_rows; r++) {
                int32_t one; /* two values in bf16 */
                memcpy(&one, x + r * x_stride + 4 * k, 4);
                const Ints input = spread_int(one);
#pragma GCC unroll 4
                for (int c = 0; c < VECTORS; c++)
                    if (kind == BF16)
                        ADD_PRODUCTS("vdpbf16ps", values[r][c], input, w[c]);
                    else
                        ADD_PRODUCTS("vfmadd231ps", values[r][c], input, w[c]);
            }
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < n_rows; r++) {
        char *row = y + r * y_stride;
#pragma GCC unroll 4
        for (int c = 0; c < VECTORS; c++) {
            const int column = first + LANES * c;
            const Mask mask = tail((mode == RELU ? padded(kind, linear->n_out) : linear->n_out) - column);
            Floats v = values[r][c];
            if (mode == RELU) v = largest(spread(0.0f), v); /* of a NaN, the second */
            if (mode == RELU && kind == INT8) {
                store_levels((Level *)row + column, mask, nearest_ints(smallest(v, spread(2 * LEVELS + 1))));
            } else if (mode == RELU) {
                write_inputs(kind, row, column, mask, v);
            } else {
                float *there = (float *)row + column;
                if (mode == ADD) v += load(mask, there);
                store(there, mask, v);
            }
        }
    }
}

/* x (N, n_in) W^T + b -> y (N, n_out); strides in bytes. */
#define PRODUCT(name, kind, mode)                                                                                        \
    static void name(const Linear *linear, const char *x, size_t x_stride, int n_rows, char *y, size_t y_stride) {       \
        for (int block = 0; block < blocks_of(linear->n_out); block++)                                                   \
            for (int row = 0; row < n_rows; row += ROWS_AT_ONCE) {                                                       \
                const char *from = x + row * x_stride;                                                                   \
                char *to = y + row * y_stride;                                                                           \
                switch (n_rows - row) {                                                                                  \
                case 1: multiply(kind, mode, 1, linear, block, from, x_stride, to, y_stride); break;                     \
                case 2: multiply(kind, mode, 2, linear, block, from, x_stride, to, y_stride); break;                     \
                case 3: multiply(kind, mode, 3, linear, block, from, x_stride, to, y_stride); break;                     \
                case 4: multiply(kind, mode, 4, linear, block, from, x_stride, to, y_stride); break;                     \
                case 5: multiply(kind, mode, 5, linear, block, from, x_stride, to, y_stride); break;                     \
                default: multiply(kind, mode, 6, linear, block, from, x_stride, to, y_stride);                           \
                }                                                                                                        \
            }                                                                                                            \
    }
#define PRODUCTS_OF(name, kind) PRODUCT(store_##name, kind, STORE) PRODUCT(add_##name, kind, ADD) PRODUCT(relu_##name, kind, RELU)
#define NAMES_OF(name) {store_##name, add_##name, relu_##name}

typedef void Product(const Linear *, const char *, size_t, int, char *, size_t);
PRODUCTS_OF(fp32, FP32)
#if HAS_BF16
PRODUCTS_OF(bf16, BF16)
#endif
PRODUCTS_OF(int8, INT8)
static Product *const PRODUCTS[3][3] = {
    [FP32] = NAMES_OF(fp32),
#if HAS_BF16
    [BF16] = NAMES_OF(bf16),
#endif
    [INT8] = NAMES_OF(int8),
};

/* The bytes that `dragoman_pack` writes. */
EXPORT(int64_t, dragoman_packed_bytes)(int32_t kind, int32_t n_in, int32_t n_out) {
    return (int64_t)blocks_of(n_out) * COLUMNS * groups_of(kind, n_in) * unit_of(kind);
}

/* Put a row of n_bytes of weights, or NULL for zeros, into its column of a block: `unit` bytes of each group. */
static inline __attribute__((always_inline)) void pack_row(const size_t unit, const char *row, size_t n_bytes, size_t n_groups, char *column) {
    const size_t n_whole = row == NULL ? 0 : n_bytes / unit;
    for (size_t k = 0; k < n_whole; k++) memcpy(column + k * COLUMNS * unit, row + k * unit, unit);
    for (size_t k = n_whole; k < n_groups; k++) memset(column + k * COLUMNS * unit, 0, unit);
    if (row != NULL && n_whole < n_groups) memcpy(column + n_whole * COLUMNS * unit, row + n_whole * unit, n_bytes - n_whole * unit);
}

/* Pack rows (n_out, n_in) of weights; row i of the product is `ids[i]` of them, or i where `ids` is NULL. */
EXPORT(void, dragoman_pack)(int32_t kind, const void *rows, const int32_t *ids, int32_t n_in, int32_t n_out, void *packed) {
    const size_t unit = unit_of(kind), n_groups = groups_of(kind, n_in), n_bytes = n_in * unit / group_of(kind);
    for (int i = 0; i < blocks_of(n_out) * COLUMNS; i++) {
        const char *row = i < n_out ? (const char *)rows + (ids ? ids[i] : i) * n_bytes : NULL;
        char *column = (char *)packed + (i / COLUMNS * n_groups * COLUMNS + i % COLUMNS) * unit;
        if (unit == 4) pack_row(4, row, n_bytes, n_groups, column);
        else pack_row(2, row, n_bytes, n_groups, column);
    }
}

/* ---- Attention ---- */

/* Attention that is kept: the weights (rows, layers, H, n_columns) of each row's look in each layer. */
typedef struct {
    float *weights; /* NULL: none is */
    int n_layers, n_heads, n_columns;
} Looks;

static float *place_of(const Looks *looks, size_t row, int layer) {
    return looks->weights == NULL ? NULL : looks->weights + (row * looks->n_layers + layer) * looks->n_heads * looks->n_columns;
}

/* Look with the query q (D) at n keys, whose values stand D behind them -> context (D), and the weights (H, n_columns) to
 * `kept`, if that is not NULL. scores: room for n. */
static inline __attribute__((always_inline)) void
attend_with(const int width, const float *q, const float *const *keys, int n, int n_heads, float *scores, float *context, float *kept,
            int n_columns) {
    for (int h = 0; h < n_heads; h++) {
        const float *query = q + h * width;
        for (int j = 0; j < n; j++) {
            const float *key = keys[j] + h * width;
            Floats sum = spread(0.0f);
#pragma GCC unroll 8
            for (int i = 0; i < width; i += LANES) sum = multiply_add(load(tail(width - i), query + i), load(tail(width - i), key + i), sum);
            scores[j] = sum_of(sum);
        }
        const Floats none = spread(-INFINITY);
        Floats most = none, sum = spread(0.0f);
        for (int j = 0; j < n; j += LANES) most = largest(most, load_or(none, tail(n - j), scores + j));
        most = spread(largest_of(most));
        for (int j = 0; j < n; j += LANES) {
            const Mask mask = tail(n - j);
            const Floats e = only(mask, exponential(load(mask, scores + j) - most));
            store(scores + j, mask, e);
            sum += e;
        }
        const Floats share = spread(1.0f / sum_of(sum));
        for (int j = 0; kept != NULL && j < n; j += LANES) store(kept + (size_t)h * n_columns + j, tail(n - j), load(tail(n - j), scores + j) * share);
#pragma GCC unroll 2
        for (int i = 0; i < width; i += 4 * LANES) {
            Floats parts[4] = {spread(0.0f), spread(0.0f), spread(0.0f), spread(0.0f)};
            for (int j = 0; j < n; j++) {
                const Floats weight = spread(scores[j]);
                const float *value = keys[j] + n_heads * width + h * width + i;
#pragma GCC unroll 4
                for (int p = 0; p < 4; p++) parts[p] = multiply_add(weight, load(tail(width - i - LANES * p), value + LANES * p), parts[p]);
            }
#pragma GCC unroll 4
            for (int p = 0; p < 4; p++) store(context + h * width + i + LANES * p, tail(width - i - LANES * p), parts[p] * share);
        }
    }
}

static void attend(int width, const float *q, const float *const *keys, int n, int n_heads, float *scores, float *context, float *kept, int n_columns) {
    if (width == 64) attend_with(64, q, keys, n, n_heads, scores, context, kept, n_columns);
    else if (width == 32) attend_with(32, q, keys, n, n_heads, scores, context, kept, n_columns);
    else attend_with(width, q, keys, n, n_heads, scores, context, kept, n_columns);
}

/* ---- A search ---- */

typedef struct Node {
    struct Node *parent;
    int32_t n_users; /* rows and nodes that end in it */
    int32_t length;  /* tokens up to this one */
    float past[];    /* (layers, 2, D) keys and values */
} Node;

typedef struct {
    int32_t n_rows; /* rows that translate it */
    int32_t n_tokens;
    float *memory; /* (layers, n_tokens, 2, D) keys and values */
    Mask *mask;    /* (columns / LANES) which columns it may hold; NULL: all that are not forbidden */
} Sentence;

typedef struct {
    Sentence *sentence;
    Node *last;
} Row;

typedef struct {
    void *memory;
    size_t n_bytes;
} Room;

typedef struct {
    const Model *model;
    int32_t *forbidden, n_forbidden;
    Row *rows, *next;
    int32_t n_rows, room_rows;
    Node *free;
    int32_t n_free;
    Linear output; /* of the columns */
    int32_t n_columns;
    int32_t longest; /* the most tokens of a sentence */
    Room packed, scales, bias, sums;
    Room x, inputs, projected, context, wide, scores, pointers, logits;
    int32_t failed; /* whether memory was missing */
} Steps;

static void *room_of(Steps *steps, Room *room, size_t n_bytes) {
    if (room->n_bytes < n_bytes) {
        release(room->memory);
        room->n_bytes = n_bytes + n_bytes / 2;
        room->memory = reserve(room->n_bytes);
        if (room->memory == NULL) room->n_bytes = 0, steps->failed = 1;
    }
    return room->memory;
}

static int room_for_rows(Steps *steps, int n) {
    if (n <= steps->room_rows) return 1;
    Row *rows = realloc(steps->rows, sizeof(Row) * 2 * n), *next = realloc(steps->next, sizeof(Row) * 2 * n);
    if (rows != NULL) steps->rows = rows;
    if (next != NULL) steps->next = next;
    if (rows == NULL || next == NULL) return 0;
    steps->room_rows = 2 * n;
    return 1;
}

static void drop_node(Steps *steps, Node *node) {
    while (node != NULL && --node->n_users == 0) {
        Node *parent = node->parent;
        if (steps->n_free < 4096) {
            node->parent = steps->free;
            steps->free = node;
            steps->n_free++;
        } else {
            release(node);
        }
        node = parent;
    }
}

static Node *new_node(Steps *steps) {
    Node *node = steps->free;
    if (node != NULL) {
        steps->free = node->parent;
        steps->n_free--;
        return node;
    }
    return reserve(sizeof(Node) + sizeof(float) * 2 * steps->model->n_decoder_layers * steps->model->d_model);
}

static void drop_row(Steps *steps, Row *row) {
    drop_node(steps, row->last);
    Sentence *sentence = row->sentence;
    if (--sentence->n_rows) return;
    release(sentence->memory);
    free(sentence->mask);
    free(sentence);
}

EXPORT(void, dragoman_end)(Steps *steps) {
    if (steps == NULL) return;
    for (int i = 0; i < steps->n_rows; i++) drop_row(steps, &steps->rows[i]);
    while (steps->free != NULL) release(new_node(steps)); /* which takes one from there */
    Room *rooms[] = {&steps->packed, &steps->scales, &steps->bias, &steps->sums, &steps->x, &steps->inputs, &steps->projected,
                     &steps->context, &steps->wide, &steps->scores, &steps->pointers, &steps->logits};
    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) release(rooms[i]->memory);
    free(steps->rows);
    free(steps->next);
    free(steps->forbidden);
    free(steps);
}

static void embed(const Embedding *embedding, int D, int64_t token, int position, float *x) {
    const float *own = embedding->tokens + token * D, *there = embedding->positions + (size_t)position * D;
    for (int i = 0; i < D; i++) x[i] = own[i] * embedding->scale + there[i];
}

/* The parts of a layer; x (n, D) is the residual stream, `inputs` what the next product reads. */

/* x (n, D) -> inputs, `gain` times as large. */
static void read_rows(const Model *model, const float *x, float gain, int n, char *inputs) {
    const int D = model->d_model, n_written = padded(model->kind, D);
    for (int r = 0; r < n; r++, inputs += stride_of(model->kind, D), x += D)
        for (int i = 0; i < D; i += LANES) write_inputs(model->kind, inputs, i, tail(n_written - i), load(tail(D - i), x + i) * spread(gain));
}

static void norm_and_keep(const Model *model, int is_kept, const Norm *norm, float *x, int n, char *inputs) {
    const size_t D = model->d_model, stride = stride_of(model->kind, D);
    for (int i = 0; i < n; i++) norm_row(model->kind, is_kept, norm, x + i * D, D, inputs + i * stride);
}

static void norm_rows(const Model *model, const Norm *norm, float *x, int n, char *inputs) {
    norm_and_keep(model, model->norms_after, norm, x, n, inputs);
}

static void product(const Model *model, const Linear *linear, const char *inputs, int n, float *y) {
    PRODUCTS[model->kind][STORE](linear, inputs, stride_of(model->kind, model->d_model), n, (char *)y, linear->n_out * sizeof(float));
}

static void add_context(const Model *model, const Linear *linear, const float *context, int n, char *inputs, float *x) {
    const int D = model->d_model;
    const size_t stride = stride_of(model->kind, D);
    read_rows(model, context, 1.0f, n, inputs);
    for (int r = 0; r < n; r++) x[(size_t)r * D] += nan_of(context + (size_t)r * D, D);
    PRODUCTS[model->kind][ADD](linear, inputs, stride, n, (char *)x, D * sizeof(float));
}

/* GELU or swish of the fp32 in `wide` (n, d_ff), which becomes the inputs of the next product. */
static void activate(const Model *model, const float *gains, int n, char *wide) {
    const int kind = model->kind, F = model->d_ff;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < F; i += LANES) { /* what is written lies before what is still to be read, or in its place */
            const Mask mask = tail(F - i);
            Floats v = load(mask, (const float *)wide + (size_t)r * F + i);
            if (model->activation == GELU) v = gelu(v);
            else v = swish(v);
            if (kind == INT8) v *= load(mask, gains + i);
            write_inputs(kind, wide + r * stride_of(kind, F), i, tail(padded(kind, F) - i), v);
        }
}

static void feed_forward(const Model *model, const Layer *layer, float *x, int n, char *inputs, char *wide) {
    const size_t stride = stride_of(model->kind, model->d_model), wide_stride = stride_of(model->kind, model->d_ff);
    if (model->activation == RELU) {
        PRODUCTS[model->kind][RELU](&layer->wide, inputs, stride, n, wide, wide_stride);
    } else {
        product(model, &layer->wide, inputs, n, (float *)wide);
        activate(model, layer->gains, n, wide);
    }
    PRODUCTS[model->kind][ADD](&layer->narrow, wide, wide_stride, n, (char *)x, model->d_model * sizeof(float));
}

typedef struct {
    float *x, *projected, *context, *scores;
    char *inputs, *wide;
    const float **keys;
} Scratch;

static Scratch scratch_of(Steps *steps, int n, int longest) {
    const Model *model = steps->model;
    const size_t D = model->d_model, widest = 3 * D;
    Scratch scratch = {
        room_of(steps, &steps->x, sizeof(float) * n * D),       room_of(steps, &steps->projected, sizeof(float) * n * widest),
        room_of(steps, &steps->context, sizeof(float) * n * D), room_of(steps, &steps->scores, sizeof(float) * (longest + LANES)),
        room_of(steps, &steps->inputs, 4 * n * D),              room_of(steps, &steps->wide, 4 * (size_t)n * model->d_ff),
        room_of(steps, &steps->pointers, sizeof(float *) * ((size_t)longest + n))};
    return scratch;
}

/* Some sentences that are encoded together. */
typedef struct {
    int n, n_tokens, longest;
} Group;

/* The first of `n` sentences of these lengths: as many as go through the layers together, one at least. */
static Group group_from(const int32_t *lengths, int n) {
    Group group = {0, 0, 0};
    for (; group.n < n && (group.n == 0 || group.n_tokens + lengths[group.n] <= 2 * ROWS_TOGETHER); group.n++) {
        group.n_tokens += lengths[group.n];
        group.longest = lengths[group.n] > group.longest ? lengths[group.n] : group.longest;
    }
    return group;
}

/* Encode a group: vectors (tokens, D) in what is returned, and as inputs. In `looks`, from row `first_look` on, is kept what
 * each token looks at. Where memory is missing, `failed` says so. */
static Scratch encode(Steps *steps, const int64_t *ids, const int32_t *lengths, Group group, const Looks *looks, size_t first_look) {
    const Model *model = steps->model;
    const int D = model->d_model, width = D / model->n_heads, n_tokens = group.n_tokens;
    Scratch at = scratch_of(steps, n_tokens, group.longest);
    if (steps->failed) return at;
    for (int s = 0, row = 0; s < group.n; s++)
        for (int i = 0; i < lengths[s]; i++, row++) embed(&model->src, D, ids[row], i, at.x + (size_t)row * D);
    if (model->norms_after) read_rows(model, at.x, model->src.gain, n_tokens, at.inputs);
    for (int l = 0; l < model->n_encoder_layers; l++) {
        const Layer *layer = &model->encoder[l];
        if (!model->norms_after) norm_rows(model, &layer->own_norm, at.x, n_tokens, at.inputs);
        product(model, &layer->own_in, at.inputs, n_tokens, at.projected);
        for (int s = 0, first = 0; s < group.n; first += lengths[s], s++) {
            const int S = lengths[s];
            for (int j = 0; j < S; j++) at.keys[j] = at.projected + (size_t)(first + j) * 3 * D + D;
            for (int i = 0; i < S; i++)
                attend(width, at.projected + (size_t)(first + i) * 3 * D, at.keys, S, model->n_heads, at.scores,
                       at.context + (size_t)(first + i) * D, place_of(looks, first_look + first + i, l), looks->n_columns);
        }
        add_context(model, &layer->own_out, at.context, n_tokens, at.inputs, at.x);
        norm_rows(model, model->norms_after ? &layer->own_norm : &layer->feed_forward_norm, at.x, n_tokens, at.inputs);
        feed_forward(model, layer, at.x, n_tokens, at.inputs, at.wide);
        if (model->norms_after) norm_rows(model, &layer->feed_forward_norm, at.x, n_tokens, at.inputs);
    }
    if (!model->norms_after) norm_and_keep(model, 1, &model->encoder_norm, at.x, n_tokens, at.inputs);
    return at;
}

/* Encode `n` sentences, their `ids` one after the other, -> (tokens, D). Returns 0 where memory is missing. */
EXPORT(int32_t, dragoman_encode)(const Model *model, const int64_t *ids, const int32_t *lengths, int32_t n, float *encoded) {
    Steps *steps = calloc(1, sizeof(Steps));
    if (steps == NULL) return 0;
    steps->model = model;
    const Looks none = {0};
    while (n > 0 && !steps->failed) {
        const Group group = group_from(lengths, n);
        const Scratch at = encode(steps, ids, lengths, group, &none, 0);
        if (!steps->failed) memcpy(encoded, at.x, sizeof(float) * group.n_tokens * model->d_model);
        ids += group.n_tokens, lengths += group.n, n -= group.n, encoded += (size_t)group.n_tokens * model->d_model;
    }
    const int32_t is_done = !steps->failed;
    OWN(dragoman_end)(steps);
    return is_done;
}

/* Keep what the decoder looks at of a group, which is encoded, in the sentences of its rows. */
static void remember(const Model *model, const Row *rows, Group group, const Scratch *at) {
    const int D = model->d_model;
    for (int l = 0; l < model->n_decoder_layers; l++) {
        product(model, &model->decoder[l].cross_memory, at->inputs, group.n_tokens, at->projected);
        for (int i = 0; i < group.n_tokens; i++) at->projected[(size_t)i * 2 * D] += nan_of(at->x + (size_t)i * D, D);
        for (int s = 0, first = 0; s < group.n; first += rows[s].sentence->n_tokens, s++)
            memcpy(rows[s].sentence->memory + (size_t)l * rows[s].sentence->n_tokens * 2 * D, at->projected + (size_t)first * 2 * D,
                   sizeof(float) * rows[s].sentence->n_tokens * 2 * D);
    }
}

/* Let `ids` (n_columns) be the tokens of the columns. Returns 0 where memory is missing. */
static int set_columns(Steps *steps, const int32_t *ids) {
    const Model *model = steps->model;
    const int n = steps->n_columns;
    const size_t n_padded = (size_t)blocks_of(n) * COLUMNS;
    Linear *output = &steps->output;
    void *packed = room_of(steps, &steps->packed, OWN(dragoman_packed_bytes)(model->kind, output->n_in, n));
    float *bias = room_of(steps, &steps->bias, sizeof(float) * n_padded);
    float *scales = room_of(steps, &steps->scales, sizeof(float) * n_padded);
    int32_t *sums = room_of(steps, &steps->sums, sizeof(int32_t) * n_padded);
    if (steps->failed) return 0;
    OWN(dragoman_pack)(model->kind, model->output_rows, ids, output->n_in, n, packed);
    for (size_t c = 0; c < n_padded; c++) {
        const int there = c < (size_t)n, is_int8 = there && model->kind == INT8;
        bias[c] = there ? model->output.bias[ids[c]] : 0.0f;
        scales[c] = is_int8 ? model->output.scales[ids[c]] : 0.0f;
        sums[c] = is_int8 ? model->output.sums[ids[c]] : 0;
    }
    output->packed = packed, output->bias = bias, output->scales = scales, output->sums = sums, output->n_out = n;
    return 1;
}

/* Pack which of `n` columns a sentence may hold. Returns NULL where memory is missing. */
static Mask *mask_of(const uint8_t *may_hold, int n) {
    Mask *mask = calloc((n + LANES - 1) / LANES, sizeof(Mask));
    for (int c = 0; mask != NULL && c < n; c++)
        if (may_hold[c]) mask[c / LANES] |= (Mask)(1u << (c % LANES));
    return mask;
}

/* Let `n` sentences begin, each with a row. Returns 0 where memory is missing. */
static int add_sentences(Steps *steps, const int64_t *ids, const int32_t *lengths, int n, const uint8_t *may_hold, const Looks *looks) {
    const size_t token_bytes = sizeof(float) * 2 * steps->model->d_model * steps->model->n_decoder_layers;
    size_t first_look = 0;
    if (!room_for_rows(steps, n)) return 0;
    while (steps->n_rows < n) {
        const int first = steps->n_rows;
        const Group group = group_from(lengths + first, n - first);
        for (int i = first; i < first + group.n; i++) {
            Sentence *sentence = calloc(1, sizeof(Sentence));
            if (sentence == NULL) return 0;
            steps->rows[steps->n_rows++] = (Row){sentence, NULL};
            sentence->n_rows = 1;
            sentence->n_tokens = lengths[i];
            sentence->memory = reserve(token_bytes * lengths[i]);
            if (may_hold != NULL) sentence->mask = mask_of(may_hold + (size_t)i * steps->n_columns, steps->n_columns);
            if (sentence->memory == NULL || (may_hold != NULL && sentence->mask == NULL)) return 0;
        }
        const Scratch at = encode(steps, ids, lengths + first, group, looks, first_look);
        if (steps->failed) return 0;
        remember(steps->model, steps->rows + first, group, &at);
        ids += group.n_tokens, first_look += group.n_tokens;
    }
    return 1;
}

/* Begin to search for `n` sentences, each a row of the first step: their tokens one after the other, and how many each has.
 * `columns` (n_columns), or NULL: the tokens to be computed, and `may_hold` (n, n_columns) which of them each sentence may hold.
 * Without them all are computed, and those that are `forbidden` are -inf. `looks`, or NULL: what the encoder's tokens look
 * at, (tokens, layers, H, S), S the most tokens of a sentence. Returns NULL where memory is missing. */
EXPORT(Steps *, dragoman_begin)(const Model *model, const int32_t *forbidden, int32_t n_forbidden, const int64_t *ids, const int32_t *lengths,
                                int32_t n, const int32_t *columns, const uint8_t *may_hold, int32_t n_columns, float *looks) {
    Steps *steps = calloc(1, sizeof(Steps));
    if (steps == NULL) return NULL;
    steps->model = model, steps->output = model->output, steps->n_columns = n_columns;
    steps->forbidden = malloc(sizeof(int32_t) * (n_forbidden + 1)), steps->n_forbidden = n_forbidden;
    if (steps->forbidden != NULL && n_forbidden) memcpy(steps->forbidden, forbidden, sizeof(int32_t) * n_forbidden);
    for (int i = 0; i < n; i++) steps->longest = lengths[i] > steps->longest ? lengths[i] : steps->longest;
    const Looks of_encoder = {looks, model->n_encoder_layers, model->n_heads, steps->longest};
    if (steps->forbidden == NULL || (columns != NULL && !set_columns(steps, columns)) ||
        !add_sentences(steps, ids, lengths, n, may_hold, &of_encoder)) {
        OWN(dragoman_end)(steps);
        return NULL;
    }
    return steps;
}

/* Let `n` rows go on from the rows `parents` of the last step. Returns 0 where memory is missing. */
static int follow(Steps *steps, const int64_t *parents, int n) {
    if (!room_for_rows(steps, n)) return 0;
    for (int i = 0; i < n; i++) {
        Row *row = &steps->next[i];
        *row = steps->rows[parents[i]];
        row->sentence->n_rows++;
        if (row->last != NULL) row->last->n_users++;
    }
    for (int i = 0; i < steps->n_rows; i++) drop_row(steps, &steps->rows[i]);
    Row *rows = steps->rows;
    steps->rows = steps->next, steps->next = rows, steps->n_rows = n;
    for (int i = 0; i < n; i++) {
        Row *row = &steps->rows[i];
        Node *node = new_node(steps);
        if (node == NULL) {
            steps->n_rows = i; /* what follows has no node of its own */
            for (int j = i; j < n; j++) drop_row(steps, &steps->rows[j]);
            return 0;
        }
        node->parent = row->last;
        node->n_users = 1;
        node->length = row->last == NULL ? 1 : row->last->length + 1;
        row->last = node;
    }
    return 1;
}

/* Log-probabilities of the rows first to end, from their hidden inputs, made of x (rows, D) -> y (rows, columns). */
static void project(Steps *steps, int first, int end, const float *x, const char *inputs, float *y) {
    const Model *model = steps->model;
    const int C = steps->n_columns;
    PRODUCTS[model->kind][STORE](&steps->output, inputs, stride_of(model->kind, model->d_model), end - first, (char *)y, sizeof(float) * C);
    for (int row = first; row < end; row++, y += C, x += model->d_model) {
        const Mask *mask = steps->rows[row].sentence->mask;
        const Floats none = spread(-INFINITY);
        if (mask == NULL)
            for (int f = 0; f < steps->n_forbidden; f++) y[steps->forbidden[f]] = -INFINITY;
        Floats most = none, sum = spread(0.0f);
        for (int c = 0; c < C; c += LANES) most = largest(most, load_or(none, tail(C - c) & (mask ? mask[c / LANES] : ALL_LANES), y + c));
        most = spread(largest_of(most));
        for (int c = 0; c < C; c += LANES) {
            const Floats v = load_or(none, tail(C - c) & (mask ? mask[c / LANES] : ALL_LANES), y + c);
            sum += exponential(v - most);
        }
        const Floats less = most + spread(logf(sum_of(sum)) + nan_of(x, model->d_model));
        for (int c = 0; c < C; c += LANES) {
            const Floats v = load_or(none, tail(C - c) & (mask ? mask[c / LANES] : ALL_LANES), y + c);
            store(y + c, tail(C - c), v - less);
        }
    }
}

/* Read the tokens `last` (N), after the rows `parents` of the last step -> log-probabilities (N, columns). `own` and `cross`,
 * or NULL: what rows look at, (N, layers, H, T) of the T tokens so far and (N, layers, H, S) of the source's, S the most of any.
 * Returns 0 where memory is missing. */
EXPORT(int32_t, dragoman_step)(Steps *steps, const int64_t *last, const int64_t *parents, int32_t n_rows, float *log_probs, float *own, float *cross) {
    if (!follow(steps, parents, n_rows)) return 0;
    const Model *model = steps->model;
    const Looks of_own = {own, model->n_decoder_layers, model->n_heads, n_rows ? steps->rows[0].last->length : 0};
    const Looks of_cross = {cross, model->n_decoder_layers, model->n_heads, steps->longest};
    const int D = model->d_model, width = D / model->n_heads;
    for (int first = 0; first < steps->n_rows; first += ROWS_TOGETHER) {
        const int n = steps->n_rows - first < ROWS_TOGETHER ? steps->n_rows - first : ROWS_TOGETHER;
        const Row *rows = steps->rows + first;
        int longest = 0, n_pointers = 0;
        for (int i = 0; i < n; i++) {
            longest = rows[i].last->length > longest ? rows[i].last->length : longest;
            longest = rows[i].sentence->n_tokens > longest ? rows[i].sentence->n_tokens : longest;
            n_pointers += rows[i].last->length;
        }
        Scratch at = scratch_of(steps, n, longest + n_pointers);
        if (steps->failed) return 0;
        const Node **nodes = (const Node **)(at.keys + longest); /* all of the first row, the oldest first, and so on */
        for (int i = 0, end = 0; i < n; i++) {
            const Node *node = rows[i].last;
            end += node->length;
            for (int j = 1; node != NULL; node = node->parent, j++) nodes[end - j] = node;
            embed(&model->tgt, D, last[first + i], rows[i].last->length - 1, at.x + (size_t)i * D);
        }
        if (model->norms_after) read_rows(model, at.x, model->tgt.gain, n, at.inputs);
        for (int l = 0; l < model->n_decoder_layers; l++) {
            const Layer *layer = &model->decoder[l];
            if (!model->norms_after) norm_rows(model, &layer->own_norm, at.x, n, at.inputs);
            product(model, &layer->own_in, at.inputs, n, at.projected);
            for (int i = 0, begin = 0; i < n; begin += rows[i].last->length, i++) {
                const int length = rows[i].last->length;
                const float *query = at.projected + (size_t)i * 3 * D;
                memcpy(rows[i].last->past + (size_t)l * 2 * D, query + D, sizeof(float) * 2 * D);
                for (int j = 0; j < length; j++) at.keys[j] = nodes[begin + j]->past + (size_t)l * 2 * D;
                attend(width, query, at.keys, length, model->n_heads, at.scores, at.context + (size_t)i * D, place_of(&of_own, first + i, l), length);
            }
            add_context(model, &layer->own_out, at.context, n, at.inputs, at.x);
            norm_rows(model, model->norms_after ? &layer->own_norm : &layer->cross_norm, at.x, n, at.inputs);
            product(model, &layer->cross_query, at.inputs, n, at.projected);
            for (int i = 0; i < n; i++) {
                const Sentence *sentence = rows[i].sentence;
                const float *memory = sentence->memory + (size_t)l * sentence->n_tokens * 2 * D;
                for (int j = 0; j < sentence->n_tokens; j++) at.keys[j] = memory + (size_t)j * 2 * D;
                attend(width, at.projected + (size_t)i * D, at.keys, sentence->n_tokens, model->n_heads, at.scores,
                       at.context + (size_t)i * D, place_of(&of_cross, first + i, l), of_cross.n_columns);
            }
            add_context(model, &layer->cross_out, at.context, n, at.inputs, at.x);
            norm_rows(model, model->norms_after ? &layer->cross_norm : &layer->feed_forward_norm, at.x, n, at.inputs);
            feed_forward(model, layer, at.x, n, at.inputs, at.wide);
            if (model->norms_after) norm_rows(model, &layer->feed_forward_norm, at.x, n, at.inputs);
        }
        if (!model->norms_after) norm_rows(model, &model->decoder_norm, at.x, n, at.inputs);
        const size_t stride = stride_of(model->kind, D);
        for (int row = 0; row < n; row += 48) {
            const int end = row + 48 < n ? row + 48 : n;
            project(steps, first + row, first + end, at.x + (size_t)row * D, at.inputs + row * stride, log_probs + (size_t)(first + row) * steps->n_columns);
        }
    }
    return 1;
}

/* The k largest of x (C) -> values and columns (k), the largest first, of equals the first.
 * Returns 1 where a value is not a number. */
static int32_t top_of_row(const float *x, int32_t C, int32_t k, float *values, int64_t *columns) {
    int n = 0; /* those that are there */
    Floats least = spread(-INFINITY);
    unsigned no_numbers = 0;
    for (int32_t c = 0; c < C; c += LANES) {
        const Mask mask = tail(C - c);
        const Floats v = load(mask, x + c);
        no_numbers |= are_no_numbers(v);
        unsigned larger = n < k ? mask : mask & are_larger(v, least);
        while (larger) {
            const int32_t column = c + __builtin_ctz(larger);
            const float value = x[column];
            larger &= larger - 1;
            if (n == k && !(value > values[k - 1])) continue;
            int place = n < k ? n++ : k - 1;
            for (; place > 0 && value > values[place - 1]; place--) {
                values[place] = values[place - 1];
                columns[place] = columns[place - 1];
            }
            values[place] = value;
            columns[place] = column;
            if (n == k) least = spread(values[k - 1]);
        }
    }
    return no_numbers != 0;
}

/* The same for each row of x (N, C) -> values and columns (N, k). */
EXPORT(int32_t, dragoman_top)(const float *x, int64_t n_rows, int64_t stride, int32_t C, int32_t k, float *values, int64_t *columns) {
    int32_t strange = 0;
    for (int64_t row = 0; row < n_rows; row++) strange |= top_of_row(x + row * stride, C, k, values + row * k, columns + row * k);
    return strange;
}

/* The sentences of a beam search, as `_Beam` in dragoman/decoding/beam.py describes them, and what follows from a step. */
typedef struct {
    int32_t n_sentences, n_slots, width, n_best, n_tokens;
    double penalty, next_penalty; /* of a hypothesis that ends now, and of one that ends in the next step */
    const int64_t *limits;
    const double *limit_penalty; /* (A): of the longest hypothesis */
    const int64_t *rows;         /* (A, L), as log_prob */
    const double *log_prob;
    double *finished; /* (A, n_best) */
    int64_t *n_ended;
    int64_t *next_rows, *last; /* (A, width), as next_log_prob */
    int64_t *parents;          /* of the next call, sentence by sentence */
    int64_t *ended;            /* the rows of the hypotheses that end */
    double *next_log_prob, *ended_log_prob;
    int32_t n_next, n_ending;
} Beam;

typedef struct {
    double score;
    int64_t token;
    int32_t slot;
} Continuation;

#define MOST_BEST 64 /* tokens of a row: COMPILED_AT_MOST in dragoman/decoding/log_probs.py, which bounds the width */

/* The best continuations of sentence `a`, 2 * width at most, best first, of equals the first by slot and by rank; those
 * of log-probability -inf left out. Returns how many; -1 where a log-probability is not a number. */
static int continuations(const Beam *beam, int a, const float *log_probs, int64_t stride, int32_t C, int64_t eos, Continuation *best) {
    float values[MOST_BEST];
    int64_t columns[MOST_BEST];
    const int most = 2 * beam->width, k = beam->width + 1 < C ? beam->width + 1 : C;
    int n = 0;
    for (int slot = 0; slot < beam->n_slots; slot++) {
        const double before = beam->log_prob[a * beam->n_slots + slot];
        if (before == -INFINITY) continue;
        const float *row = log_probs + beam->rows[a * beam->n_slots + slot] * stride;
        if (top_of_row(row, C, k, values, columns)) return -1;
        const int is_full = beam->n_tokens == beam->limits[a];
        if (is_full) values[0] = row[eos], columns[0] = eos;
        for (int rank = 0; rank < (is_full ? 1 : k); rank++) {
            const double score = before + values[rank];
            if (score == -INFINITY || (n == most && !(score > best[n - 1].score))) break;
            int place = n < most ? n++ : most - 1;
            for (; place > 0 && score > best[place - 1].score; place--) best[place] = best[place - 1];
            best[place] = (Continuation){score, columns[rank], slot};
        }
    }
    return n;
}

/* End the hypothesis in `slot` of sentence `a` with `log_prob`. */
static void end_hypothesis(Beam *beam, int a, int slot, double log_prob) {
    double *finished = beam->finished + (size_t)a * beam->n_best, score = log_prob / beam->penalty;
    beam->ended[beam->n_ending] = beam->rows[a * beam->n_slots + slot];
    beam->ended_log_prob[beam->n_ending++] = log_prob;
    beam->n_ended[a]++;
    for (int i = 0; i < beam->n_best; i++) {
        if (!(score > finished[i])) continue;
        const double worse = finished[i];
        finished[i] = score;
        score = worse;
    }
}

/* One step of a beam search without groups and phrases: what candidates, finish and advance of `_Beam` do.
 * Returns 0 where a log-probability is not a number. */
EXPORT(int32_t, dragoman_beam)(Beam *beam, const float *log_probs, int64_t stride, int32_t C, int64_t eos) {
    Continuation best[2 * MOST_BEST];
    beam->n_next = beam->n_ending = 0;
    for (int a = 0; a < beam->n_sentences; a++) {
        const int width = beam->width, n = continuations(beam, a, log_probs, stride, C, eos, best);
        if (n < 0) return 0;
        int64_t *rows = beam->next_rows + (size_t)a * width, *last = beam->last + (size_t)a * width;
        double *log_prob = beam->next_log_prob + (size_t)a * width;
        int n_live = 0;
        for (int i = 0; i < n; i++) {
            if (best[i].token != eos) {
                if (n_live < width) best[n_live++] = best[i];
            } else if (i < width) {
                end_hypothesis(beam, a, best[i].slot, best[i].score);
            }
        }
        if (n == 0) end_hypothesis(beam, a, 0, -INFINITY); /* nothing is possible: it is closed as it is */
        const double least = beam->finished[(size_t)a * beam->n_best + beam->n_best - 1];
        const double first = n_live ? best[0].score : -INFINITY;
        const int has_enough = beam->n_ended[a] >= width && least > -INFINITY;
        const int may_win_next = width > 1 && first / beam->next_penalty > least;
        if ((has_enough && !may_win_next) || !(first / beam->limit_penalty[a] > least)) n_live = 0;
        for (int i = 0; i < width; i++) {
            const int is_live = i < n_live;
            rows[i] = is_live ? beam->n_next : 0;
            last[i] = is_live ? best[i].token : 0;
            log_prob[i] = is_live ? best[i].score : -INFINITY;
            if (is_live) beam->parents[beam->n_next++] = beam->rows[a * beam->n_slots + best[i].slot];
        }
    }
    return 1;
}
