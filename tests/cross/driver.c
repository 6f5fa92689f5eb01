/* Runs kernels on another processor, or on an emulated one, for a process that speaks by pipes.

Words are of 64 bits, in the byte order of both processors. Requests on the standard input:

LOAD length path              the shared object of a program; answer: a number, or 0 and a message
RUN buffers kernels inline sizes, then the sizes; for each kernel its program's number, its number
    of groups and its name; for each buffer how many bytes follow, where in its first page they
    begin, and where in it the kernels' pointer lies; then the buffers' bytes. Answer: 0, and the
    buffers' bytes.

Buffers lie between pages that nobody may touch, or, where the program is called with an argument,
that nobody may write; they are full of NaN. Kernels run by the pool of threads of LLVM's
device, which is linked to this program. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef void (*Kernel)(void **arguments, int64_t *sizes, int64_t begin, int64_t end);

void run_in_parallel(Kernel kernel, void **arguments, int64_t *sizes, int64_t groups);
void forget_threads(void);
void end_threads(void);

enum { LOAD = 1, RUN = 2, PAGE = 4096, MOST = 64 };

static int guards = PROT_NONE;

static void fail(const char *what)
{
    fprintf(stderr, "driver: %s\n", what);
    exit(3);
}

static void receive(void *place, size_t bytes)
{
    if (bytes && fread(place, 1, bytes, stdin) != bytes)
        fail("a request ended early");
}

static int64_t word(void)
{
    int64_t value;
    receive(&value, sizeof value);
    return value;
}

static int64_t count(void)
{
    int64_t value = word();
    if (value < 0 || value > MOST)
        fail("a request has too many parts");
    return value;
}

static char *text(void)
{
    int64_t length = word();
    char *characters = malloc(length + 1);
    receive(characters, length);
    characters[length] = 0;
    return characters;
}

static void answer(const void *place, size_t bytes)
{
    if (fwrite(place, 1, bytes, stdout) != bytes)
        fail("nobody takes an answer");
}

static void load(void)
{
    char *path = text();
    int64_t handle = (int64_t)dlopen(path, RTLD_NOW | RTLD_LOCAL);
    answer(&handle, sizeof handle);
    if (!handle) {
        const char *message = dlerror();
        int64_t length = strlen(message);
        answer(&length, sizeof length);
        answer(message, length);
    }
    free(path);
}

static char *guarded(size_t bytes)
{
    int open = PROT_READ | PROT_WRITE;
    char *place = mmap(0, bytes + 2 * PAGE, open, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED)
        fail("no memory");
    char *after = place + PAGE + bytes;
    if (guards != PROT_NONE) {
        memset(place, 0xFF, PAGE);
        memset(after, 0xFF, PAGE);
    }
    if (mprotect(place, PAGE, guards) || mprotect(after, PAGE, guards))
        fail("no protected memory");
    return place + PAGE;
}

static void run(void)
{
    static int64_t sizes[MOST], groups[MOST], bytes[MOST], begins[MOST], rooms[MOST];
    static Kernel kernels[MOST];
    char *pages[MOST];
    void *arguments[MOST];
    int64_t buffers = count(), kernel_count = count(), in_line = word(), size_count = count();
    receive(sizes, size_count * sizeof *sizes);
    for (int64_t n = 0; n < kernel_count; n++) {
        void *program = (void *)word();
        groups[n] = word();
        char *name = text();
        kernels[n] = (Kernel)dlsym(program, name);
        if (!kernels[n])
            fail(name);
        free(name);
    }
    for (int64_t n = 0; n < buffers; n++) {
        bytes[n] = word();
        begins[n] = word();
        int64_t offset = word();
        rooms[n] = (begins[n] + bytes[n] + PAGE - 1) / PAGE * PAGE;
        pages[n] = bytes[n] ? guarded(rooms[n]) : 0;
        arguments[n] = bytes[n] ? pages[n] + offset : 0;
    }
    for (int64_t n = 0; n < buffers; n++)
        receive(pages[n] + begins[n], bytes[n]);
    for (int64_t n = 0; n < kernel_count; n++) {
        if (in_line || groups[n] == 1)
            kernels[n](arguments, sizes, 0, groups[n]);
        else
            run_in_parallel(kernels[n], arguments, sizes, groups[n]);
    }
    int64_t done = 0;
    answer(&done, sizeof done);
    for (int64_t n = 0; n < buffers; n++) {
        if (!bytes[n])
            continue;
        answer(pages[n] + begins[n], bytes[n]);
        munmap(pages[n] - PAGE, rooms[n] + 2 * PAGE);
    }
}

int main(int count, char **words)
{
    int64_t request;
    (void)words;
    if (count > 1)
        guards = PROT_READ;
    forget_threads();
    while (fread(&request, 1, sizeof request, stdin) == sizeof request) {
        if (request == LOAD)
            load();
        else if (request == RUN)
            run();
        else
            fail("an unknown request");
        fflush(stdout);
    }
    end_threads();
    return 0;
}
