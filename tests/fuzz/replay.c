/* SPDX-License-Identifier: MIT */
/*
 * Replays a corpus through a fuzz target, so that every input that ever
 * mattered runs as an ordinary test: each file of the directories given. No
 * directory, a missing or an empty one is a failure, not a quiet success.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        perror(path);
        return -1;
    }
    struct stat st;
    int rc = -1;
    uint8_t *data = NULL;
    /* Exactly as large as the file, so that a read past its end is caught. */
    if (fstat(fileno(f), &st) == 0 && (data = malloc(st.st_size > 0 ? (size_t)st.st_size : 1)) &&
        fread(data, 1, (size_t)st.st_size, f) == (size_t)st.st_size) {
        /* Should the target crash, this line says on what. */
        (void)printf("%s\n", path);
        (void)fflush(stdout);
        (void)LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
        rc = 0;
    }
    free(data);
    (void)fclose(f);
    return rc;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int replay_directory(const char *directory)
{
    struct dirent **entries = NULL;
    int n = scandir(directory, &entries, is_visible, alphasort);
    if (n < 0) {
        perror(directory);
        return -1;
    }
    int rc = n == 0 ? -1 : 0;
    if (n == 0)
        (void)fprintf(stderr, "%s: empty\n", directory);
    for (int i = 0; i < n; i++) {
        char path[4096];
        int len = snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        if (len < 0 || (size_t)len >= sizeof path || replay_file(path) < 0)
            rc = -1;
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int main(int argc, char **argv)
{
    int rc = EXIT_SUCCESS;
    if (argc < 2) {
        (void)fprintf(stderr, "usage: %s DIRECTORY...\n", argv[0]);
        return 2;
    }
    for (int i = 1; i < argc; i++)
        if (replay_directory(argv[i]) < 0)
            rc = EXIT_FAILURE;
    return rc;
}
