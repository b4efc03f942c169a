/* SPDX-License-Identifier: MIT */
/*
 * two_relays NAME OPTION=VALUE...: an application with two relays of one pipeline
 * inside, until SIGTERM. One is active, the other waits for its turn.
 */
#include <outrider/relay.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

static int complain(const char *what, const struct outrider_error *err)
{
    (void)fprintf(stderr, "%s: %s\n", what, err->message);
    return -1;
}

static int set_up(struct outrider_relay *relay, char **options, int n)
{
    struct outrider_error err;
    for (int i = 0; i < n; i++) {
        char name[64];
        const char *value = strchr(options[i], '=');
        if (value == NULL)
            return -1;
        (void)snprintf(name, sizeof name, "%.*s", (int)(value - options[i]), options[i]);
        if (outrider_relay_set(relay, name, value + 1, &err) < 0)
            return complain(name, &err);
    }
    return outrider_relay_start(relay, 0, &err) < 0 ? complain("start", &err) : 0;
}

int main(int argc, char **argv)
{
    struct outrider_relay *relays[2] = {NULL, NULL};
    struct outrider_error err;
    sigset_t ends;
    int r = argc < 2 ? -1 : 0, signal_no;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    for (int i = 0; i < 2 && r == 0; i++) {
        r = outrider_relay_new(argv[1], &relays[i], &err) < 0 ? complain("new", &err) : 0;
        if (r == 0)
            r = set_up(relays[i], argv + 2, argc - 2);
    }
    if (r == 0)
        (void)sigwait(&ends, &signal_no);
    for (int i = 0; i < 2; i++) {
        outrider_relay_stop(relays[i]);
        if (relays[i] != NULL && outrider_relay_wait(relays[i], -1, &err) < 0)
            r = complain("a relay ended", &err);
        outrider_relay_free(relays[i]);
    }
    return r == 0 ? 0 : 1;
}
