/* SPDX-License-Identifier: MIT */
#include "base/pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* AddressSanitizer watches the bounds of what calloc() returns, and not of a mapping. */
#ifdef __SANITIZE_ADDRESS__
void *outrider__pages_new(size_t n, size_t size)
{
    return calloc(n, size);
}

void outrider__pages_free(void *pages, size_t n, size_t size)
{
    (void)n;
    (void)size;
    free(pages);
}
#else
void *outrider__pages_new(size_t n, size_t size)
{
    if (n == 0 || size > SIZE_MAX / n)
        return NULL;
    void *pages = mmap(NULL, n * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages != MAP_FAILED ? pages : NULL;
}

void outrider__pages_free(void *pages, size_t n, size_t size)
{
    if (pages != NULL)
        (void)munmap(pages, n * size);
}
#endif
