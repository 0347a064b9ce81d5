/* Whether this processor, and its system, can run a variant of native.c. It is compiled for any processor. */
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#if defined(_WIN32)
#define EXPORT(type) __declspec(dllexport) type
#else
#define EXPORT(type) type
#endif

#if defined(__x86_64__)

enum { EAX, EBX, ECX, EDX };

/* Whether all `bits` are set in what cpuid returns in `which`. */
static int has(unsigned leaf, unsigned subleaf, int which, unsigned bits) {
    unsigned registers[4];
    if (!__get_cpuid_count(leaf, subleaf, &registers[EAX], &registers[EBX], &registers[ECX], &registers[EDX])) return 0;
    return (registers[which] & bits) == bits;
}

/* Whether the system keeps the registers in `bits` of a thread that waits. */
static int keeps(unsigned bits) {
    unsigned low, high;
    if (!has(1, 0, ECX, 1u << 27)) return 0; /* xgetbv itself */
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & bits) == bits;
}

static int has_avx2(void) {
    return keeps(0x6) && has(1, 0, ECX, 1u << 12 | 1u << 29) /* FMA, F16C */
           && has(7, 0, EBX, 1u << 5 | 1u << 8);             /* AVX2, BMI2 */
}

/* macOS keeps registers of AVX-512 from their first use on, and says so only then: AVX2 serves there. */
static int has_avx512(void) {
    return has_avx2() && keeps(0xe6) && has(7, 0, EBX, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) /* F, DQ, BW, VL */
           && has(7, 0, ECX, 1u << 11);                                                         /* VNNI */
}

EXPORT(int32_t) dragoman_can_run(const char *variant) {
    if (strcmp(variant, "avx2") == 0) return has_avx2();
    if (strcmp(variant, "avx2_vnni") == 0) return has_avx2() && has(7, 1, EAX, 1u << 4);
    if (strcmp(variant, "avx512") == 0) return has_avx512();
    if (strcmp(variant, "avx512_bf16") == 0) return has_avx512() && has(7, 1, EAX, 1u << 5);
    return strcmp(variant, "any") == 0;
}

#elif defined(__aarch64__)

static int has_dot_products(void) {
#if defined(__linux__)
    return getauxval(AT_HWCAP) >> 20 & 1;
#elif defined(__APPLE__)
    int has = 0;
    size_t size = sizeof(has);
    return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, NULL, 0) == 0 && has;
#else
    return 0;
#endif
}

EXPORT(int32_t) dragoman_can_run(const char *variant) {
    if (strcmp(variant, "dotprod") == 0) return has_dot_products();
    return strcmp(variant, "any") == 0;
}

#else

EXPORT(int32_t) dragoman_can_run(const char *variant) { return strcmp(variant, "any") == 0; }

#endif
