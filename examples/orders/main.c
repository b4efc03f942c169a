/* SPDX-License-Identifier: MIT */
/*
 *     orders write  --db PATH --writers N --orders M [--seed S]
 *     orders verify --db PATH --log DIR
 */
#include "orders.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int usage(void)
{
    fputs("usage: orders write  --db PATH --writers N --orders M [--seed S]\n"
          "       orders verify --db PATH --log DIR\n",
          stderr);
    return 2;
}

/* A whole number between 1 and max; 0 if the text is none. */
static long number(const char *text, long max)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    return errno == 0 && *end == '\0' && n >= 1 && n <= max ? n : 0;
}

static int parse(int argc, char **argv, struct options *ret_options)
{
    static const struct option flags[] = {
        {"db", required_argument, NULL, 'd'},      {"log", required_argument, NULL, 'l'},
        {"writers", required_argument, NULL, 'w'}, {"orders", required_argument, NULL, 'o'},
        {"seed", required_argument, NULL, 's'},    {NULL, 0, NULL, 0}};
    struct options o = {.writers = 4, .orders = 1000, .seed = 1};
    int flag;
    while ((flag = getopt_long(argc, argv, "", flags, NULL)) != -1) {
        if (flag == 'd')
            o.db = optarg;
        else if (flag == 'l')
            o.log = optarg;
        else if (flag == 'w')
            o.writers = number(optarg, 64);
        else if (flag == 'o')
            o.orders = number(optarg, 10000000);
        else if (flag == 's')
            o.seed = (unsigned)number(optarg, 1000000000);
        else
            return -1;
    }
    if (o.db == NULL || o.writers == 0 || o.orders == 0 || o.seed == 0 || optind != argc)
        return -1;
    *ret_options = o;
    return 0;
}

int main(int argc, char **argv)
{
    struct options o;
    if (argc < 2 || parse(argc - 1, argv + 1, &o) < 0)
        return usage();
    if (strcmp(argv[1], "write") == 0)
        return orders_write(&o);
    if (strcmp(argv[1], "verify") == 0 && o.log != NULL)
        return orders_verify(&o);
    return usage();
}
