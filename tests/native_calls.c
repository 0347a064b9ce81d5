/* Carry out the calls of compiled searches that a Python test wrote down: native_calls LIBRARY VARIANT CALLS RESULT.
 *
 * CALLS holds memory in one piece, the places in it where a pointer to another place belongs, and the calls; RESULT becomes
 * the memory after them. Exit code 3: the processor cannot run the variant. Compile it for the system of LIBRARY.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS = 12 };

typedef struct {
    int64_t name;    /* its place */
    int64_t places;  /* bit i: argument i is a place */
    int64_t handles; /* bit i: argument i is what the first call with `returns_handle` returned */
    int64_t returns_handle;
    int64_t arguments[ARGUMENTS];
} Call;

/* Every argument has 64 bits in the calling conventions of Linux, and those that a function has not are ignored. */
typedef int64_t Function(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);

static int fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    return 1;
}

int main(int n_words, char **words) {
    if (n_words != 5) return fail("four arguments");
    void *library = dlopen(words[1], RTLD_NOW);
    if (library == NULL) return fail(dlerror());
    int32_t (*can_run)(const char *) = (int32_t (*)(const char *))dlsym(library, "dragoman_can_run");
    if (can_run == NULL || !can_run(words[2])) return 3;

    int64_t sizes[3]; /* bytes, pointers, calls */
    FILE *file = fopen(words[3], "rb");
    if (file == NULL || fread(sizes, sizeof(sizes), 1, file) != 1) return fail(words[3]);
    char *memory = aligned_alloc(64, (sizes[0] + 63) / 64 * 64);
    if (memory == NULL || fread(memory, 1, sizes[0], file) != (size_t)sizes[0]) return fail(words[3]);
    for (int64_t i = 0, pointer[2]; i < sizes[1]; i++) {
        if (fread(pointer, sizeof(pointer), 1, file) != 1) return fail(words[3]);
        const char *target = memory + pointer[1];
        memcpy(memory + pointer[0], &target, sizeof(target));
    }
    int64_t handle = 0;
    for (int64_t i = 0; i < sizes[2]; i++) {
        Call call;
        char name[200];
        if (fread(&call, sizeof(call), 1, file) != 1) return fail(words[3]);
        snprintf(name, sizeof(name), "%s_%s", memory + call.name, words[2]);
        Function *function = (Function *)dlsym(library, name);
        if (function == NULL) return fail(name);
        int64_t *a = call.arguments;
        for (int j = 0; j < ARGUMENTS; j++)
            a[j] = call.places >> j & 1 ? (int64_t)(memory + a[j]) : call.handles >> j & 1 ? handle : a[j];
        const int64_t result = function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
        if (call.returns_handle && (handle = result) == 0) return fail(name);
    }
    fclose(file);

    file = fopen(words[4], "wb");
    if (file == NULL || fwrite(memory, 1, sizes[0], file) != (size_t)sizes[0] || fclose(file) != 0) return fail(words[4]);
    free(memory);
    return 0;
}
