/* SPDX-License-Identifier: MIT */
#include "run/modules.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "sink/builtin.h"

#ifndef OUTRIDER_MODULE_DIR
#define OUTRIDER_MODULE_DIR "/usr/local/lib/outrider"
#endif

#define MODULES_MAX 32
#define NAME_MAX_LEN 31
#define DIRS_MAX 16

enum role { ROLE_SOURCE = 1, ROLE_SINK = 2 };

struct loaded {
    char name[NAME_MAX_LEN + 1];
    void *handle;
    const struct module *module;
};

/* Kept until the process ends; guarded by the mutex. */
static struct loaded loaded[MODULES_MAX];
static size_t n_loaded;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

const char *outrider__builtin_sink(size_t i)
{
    return outrider__builtin_sinks[i] != NULL ? outrider__builtin_sinks[i]->scheme : NULL;
}

/* The directories to look in, in order. */
struct dirs {
    char path[DIRS_MAX][PATH_MAX];
    size_t n;
};

static void modules_add_dir(struct dirs *d, const char *base, size_t len, const char *rest)
{
    if (d->n == DIRS_MAX || len == 0)
        return;
    int n = snprintf(d->path[d->n], PATH_MAX, "%.*s%s", (int)len, base, rest);
    if (n > 0 && n < PATH_MAX)
        d->n++;
}

/* Where this code is a shared library: beside it, and not beside the program, which
 * may have modules of its own by these names. */
static bool modules_add_library_dir(struct dirs *d)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1((void *)modules_add_library_dir, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 ||
        map == NULL || map->l_name[0] == '\0') /* the program itself has no name */
        return false;
    if (map->l_name[0] == '/') /* one that is relative is so to where the process was */
        modules_add_dir(d, map->l_name, (size_t)(strrchr(map->l_name, '/') - map->l_name),
                        "/outrider");
    return true;
}

static void modules_add_program_dirs(struct dirs *d)
{
    char exe[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (len <= 0)
        return;
    exe[len] = '\0';
    char *slash = strrchr(exe, '/');
    size_t dir = slash ? (size_t)(slash - exe) : 0;
    modules_add_dir(d, exe, dir, "/modules");
    modules_add_dir(d, exe, dir, "/../lib/outrider");
#ifdef __linux__
#if defined(__x86_64__)
    modules_add_dir(d, exe, dir, "/../lib/x86_64-linux-gnu/outrider");
#elif defined(__aarch64__)
    add_dir(d, exe, dir, "/../lib/aarch64-linux-gnu/outrider");
#endif
#endif
}

static struct dirs *module_dirs(void)
{
    struct dirs *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return NULL;
    const char *list = secure_getenv("OUTRIDER_MODULE_PATH");
    while (list && *list) {
        size_t len = strcspn(list, ":");
        modules_add_dir(d, list, len, "");
        list += len + (list[len] == ':');
    }
    if (!modules_add_library_dir(d))
        modules_add_program_dirs(d);
    modules_add_dir(d, OUTRIDER_MODULE_DIR, strlen(OUTRIDER_MODULE_DIR), "");
    return d;
}

/* Only names that cannot leave the directory or mean something to dlopen. */
static bool is_module_name(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_+");
    return len > 0 && len <= NAME_MAX_LEN && name[len] == '\0';
}

static const struct module *modules_loaded_find(const char *name)
{
    for (size_t i = 0; i < n_loaded; i++) {
        if (strcmp(loaded[i].name, name) == 0)
            return loaded[i].module;
    }
    return NULL;
}

/* A module from before this symbol existed has none. */
static bool modules_is_same_build(void *handle)
{
    const char *abi = dlsym(handle, OUTRIDER_MODULE_ABI_SYMBOL);
    return abi != NULL && strcmp(abi, OUTRIDER_MODULE_ABI) == 0;
}

static int modules_load_file(const char *path, const char *name, const struct module **ret_module,
                             struct outrider_error *err)
{
    if (n_loaded == MODULES_MAX)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "more than %d modules are loaded", MODULES_MAX);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP, "cannot load %s: %s", path,
                              dlerror());
    const struct module *m = dlsym(handle, OUTRIDER_MODULE_SYMBOL);
    if (m == NULL || !modules_is_same_build(handle)) {
        dlclose(handle);
        return m == NULL ? outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                                          "%s is not an outrider module", path)
                         : outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                                          "%s is a module of another build of outrider; install "
                                          "the program and its modules from the same version",
                                          path);
    }
    struct loaded *l = &loaded[n_loaded++];
    snprintf(l->name, sizeof(l->name), "%s", name);
    l->handle = handle;
    l->module = *ret_module = m;
    return 0;
}

/* 0 with the module, or with NULL where no directory has it. */
static int modules_load_locked(const char *name, const struct module **ret_module,
                               struct outrider_error *err)
{
    *ret_module = modules_loaded_find(name);
    if (*ret_module || !is_module_name(name))
        return 0;
    struct dirs *d = module_dirs();
    if (d == NULL)
        return outrider__fail_nomem(err);
    int r = 0;
    for (size_t i = 0; i < d->n && r == 0 && *ret_module == NULL; i++) {
        char path[PATH_MAX + NAME_MAX_LEN + 8];
        snprintf(path, sizeof(path), "%s/%s.so", d->path[i], name);
        if (access(path, F_OK) == 0)
            r = modules_load_file(path, name, ret_module, err);
    }
    free(d);
    return r;
}

static int modules_load(const char *name, const struct module **ret_module,
                        struct outrider_error *err)
{
    pthread_mutex_lock(&mutex);
    int r = modules_load_locked(name, ret_module, err);
    pthread_mutex_unlock(&mutex);
    return r;
}

/* A module that this source tree does not know has the name of its scheme. */
static int module_of(const char *scheme, const struct module **ret_module,
                     struct outrider_error *err)
{
    const struct adapter_entry *e = outrider__adapter_find(scheme);
    return modules_load(e != NULL ? e->adapter->name : scheme, ret_module, err);
}

struct names {
    char name[MODULES_MAX][NAME_MAX_LEN + 1];
    size_t n;
};

static void modules_add_name(struct names *names, const char *file)
{
    char name[NAME_MAX_LEN + 1];
    size_t len = strlen(file);
    if (len <= 3 || len - 3 > NAME_MAX_LEN || strcmp(file + len - 3, ".so") != 0)
        return;
    snprintf(name, sizeof(name), "%.*s", (int)(len - 3), file);
    if (!is_module_name(name) || names->n == MODULES_MAX)
        return;
    size_t at = 0;
    while (at < names->n && strcmp(names->name[at], name) < 0)
        at++;
    if (at < names->n && strcmp(names->name[at], name) == 0)
        return;
    memmove(names->name[at + 1], names->name[at], (names->n - at) * sizeof(names->name[0]));
    memcpy(names->name[at], name, sizeof(name));
    names->n++;
}

/* The modules in all directories, sorted, each once. */
static struct names *module_names(void)
{
    struct names *names = calloc(1, sizeof(*names));
    struct dirs *d = module_dirs();
    for (size_t i = 0; names && d && i < d->n; i++) {
        DIR *dir = opendir(d->path[i]);
        struct dirent *entry;
        if (dir == NULL)
            continue;
        while ((entry = readdir(dir)) != NULL)
            modules_add_name(names, entry->d_name);
        closedir(dir);
    }
    free(d);
    return names;
}

void outrider__modules_each(void (*found)(void *ctx, const char *name, const struct module *module,
                                          const struct outrider_error *why),
                            void *ctx)
{
    struct names *names = module_names();
    for (size_t i = 0; names && i < names->n; i++) {
        struct outrider_error err = {0};
        const struct module *m = NULL;
        if (modules_load(names->name[i], &m, &err) < 0)
            found(ctx, names->name[i], NULL, &err);
        else if (m)
            found(ctx, names->name[i], m, NULL);
    }
    free(names);
}

struct scheme_list {
    enum role role;
    char text[256];
    size_t len;
};

static void modules_add_scheme(struct scheme_list *l, struct bytes scheme)
{
    if (l->len < sizeof(l->text))
        l->len += (size_t)snprintf(l->text + l->len, sizeof(l->text) - l->len, "%s%.*s",
                                   l->len ? ", " : "", (int)scheme.len, scheme.data);
}

static bool modules_has_role(const struct adapter *a, enum role role)
{
    return role == ROLE_SOURCE ? a->is_source : a->is_sink;
}

/* Whether some directory has the module's file; nothing is loaded. */
static bool modules_is_installed(const struct adapter *a)
{
    struct dirs *d = module_dirs();
    bool found = false;
    for (size_t i = 0; d && i < d->n && !found; i++) {
        char path[PATH_MAX + NAME_MAX_LEN + 8];
        snprintf(path, sizeof(path), "%s/%s.so", d->path[i], a->name);
        found = access(path, F_OK) == 0;
    }
    free(d);
    return found;
}

static void modules_list_schemes(struct scheme_list *l)
{
    for (const struct adapter_entry *e = outrider__adapters; e->adapter != NULL; e++)
        if (modules_has_role(e->adapter, l->role) &&
            (e->adapter->library == NULL || modules_is_installed(e->adapter)))
            modules_add_scheme(l, adapter_scheme(e->adapter));
    if (l->len == 0)
        snprintf(l->text, sizeof(l->text), "none");
}

static const char *modules_role_name(enum role role)
{
    return role == ROLE_SOURCE ? "source" : "sink";
}

/* The adapter is one of this source tree, but its module is not there. */
static int modules_fail_missing(const char *scheme, const struct scheme_list *l,
                                const struct adapter *a, bool is_built, struct outrider_error *err)
{
    if (!is_built)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "no %s for '%s:': this outrider was built without %s; there are %s",
                              modules_role_name(l->role), scheme, a->library, l->text);
    return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                          "no %s for '%s:': its module %s.so is neither beside the program nor in "
                          "%s; there are %s",
                          modules_role_name(l->role), scheme, a->name, OUTRIDER_MODULE_DIR,
                          l->text);
}

static int modules_not_found(const char *scheme, enum role role, const struct module *m,
                             struct outrider_error *err)
{
    struct scheme_list l = {.role = role};
    const struct adapter_entry *e = outrider__adapter_find(scheme);
    const struct adapter *a = m != NULL ? m->adapter : e != NULL ? e->adapter : NULL;
    modules_list_schemes(&l);
    if (a != NULL && !modules_has_role(a, role))
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "'%s:' is a %s, not a %s; there are %s", scheme,
                              modules_role_name(role ^ 3), modules_role_name(role), l.text);
    if (e != NULL && a != NULL)
        return modules_fail_missing(scheme, &l, a, e->is_built, err);
    return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                          "no %s for '%.32s:'; there are %s", modules_role_name(role), scheme,
                          l.text);
}

int outrider__source_find(const char *scheme, const struct source_ops **ret_ops,
                          struct outrider_error *err)
{
    const struct module *m;
    if (module_of(scheme, &m, err) < 0)
        return -1;
    if (m == NULL || m->source == NULL)
        return modules_not_found(scheme, ROLE_SOURCE, m, err);
    *ret_ops = m->source;
    return 0;
}

int outrider__store_find(const char *scheme, const struct store_ops **ret_ops,
                         struct outrider_error *err)
{
    const struct module *m;
    if (module_of(scheme, &m, err) < 0)
        return -1;
    if (m == NULL || m->store == NULL)
        return modules_not_found(scheme, ROLE_SOURCE, m, err);
    *ret_ops = m->store;
    return 0;
}

int outrider__hybrid_find(const char *scheme, const struct hybrid_ops **ret_ops,
                          struct outrider_error *err)
{
    const struct module *m;
    if (module_of(scheme, &m, err) < 0)
        return -1;
    if (m == NULL || m->source == NULL)
        return modules_not_found(scheme, ROLE_SOURCE, m, err);
    if (m->hybrid == NULL)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "there is no hybrid publishing for '%s:'; leave publishing to the "
                              "relay",
                              scheme);
    *ret_ops = m->hybrid;
    return 0;
}

int outrider__sink_find(const char *scheme, const struct sink_ops **ret_ops,
                        struct outrider_error *err)
{
    const struct module *m;
    for (size_t i = 0; outrider__builtin_sinks[i] != NULL; i++) {
        if (strcmp(outrider__builtin_sinks[i]->scheme, scheme) == 0) {
            *ret_ops = outrider__builtin_sinks[i];
            return 0;
        }
    }
    if (module_of(scheme, &m, err) < 0)
        return -1;
    if (m == NULL || m->sink == NULL)
        return modules_not_found(scheme, ROLE_SINK, m, err);
    *ret_ops = m->sink;
    return 0;
}
