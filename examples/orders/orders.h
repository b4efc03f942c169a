/* SPDX-License-Identifier: MIT */
/*
 * A shop that writes orders, and a verifier that reads what the world was told.
 *
 *     write.c    the application: an order and its event in one transaction
 *     verify.c   compares the database with the event log
 *     main.c     the command line
 */
#ifndef ORDERS_H
#define ORDERS_H

#include <sqlite3.h>

struct options {
    const char *db;  /* the database's file */
    const char *log; /* verify: the directory of the file sink */
    long writers, orders;
    unsigned seed;
};

/* Each returns the program's exit status. */
int orders_write(const struct options *o);
int orders_verify(const struct options *o);

/* A connection as every writer has one; NULL, after a message, if it cannot be had. */
sqlite3 *orders_open(const char *path);
/* Where writers note the events that they took back: outside of the database,
 * which has forgotten them. */
#define ROLLED_BACK_SUFFIX ".rolled-back"

#endif
