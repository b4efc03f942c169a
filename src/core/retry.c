/* SPDX-License-Identifier: MIT */
#include "core/retry.h"

#include <math.h>

#define BACKOFF_FIRST_US 100000
#define BACKOFF_MAX_US 1000000
#define BACKOFF_PUBLISHED_MAX_US 30000000

/* In floating point until it is known to fit: factor^1000 does not. */
static int64_t retry_exponential_us(const struct pipeline_config *c, uint32_t attempts,
                                    double random01)
{
    double d = (double)c->retry.base_us * pow(c->retry.factor, (double)attempts - 1);
    double max = (double)c->retry.max_us;
    if (max > 0 && !(d <= max))
        d = max;
    /* Jitter only shortens: max stays the longest wait. */
    d -= d * c->retry.jitter * random01;
    return d < 9e18 ? (int64_t)d : INT64_MAX / 2;
}

int64_t outrider__retry_delay_us(const struct pipeline_config *c, uint32_t attempts,
                                 double random01)
{
    const struct duration_list *delays = &c->retry.delays;
    if (attempts == 0)
        attempts = 1;
    if (c->retry.base_us > 0)
        return retry_exponential_us(c, attempts, random01);
    if (delays->n == 0)
        return 0;
    return delays->items[attempts <= delays->n ? attempts - 1 : delays->n - 1];
}

static int64_t retry_backoff_us(uint32_t failures, int64_t max_us, double random01)
{
    int64_t d = BACKOFF_FIRST_US;
    for (uint32_t i = 1; i < failures && d < max_us; i++)
        d *= 2;
    if (d > max_us)
        d = max_us;
    /* Half of it random, so that many relays do not come back as one. */
    return (int64_t)((double)d * (0.5 + 0.5 * random01));
}

int64_t outrider__backoff_us(uint32_t failures, double random01)
{
    return retry_backoff_us(failures, BACKOFF_MAX_US, random01);
}

int64_t outrider__backoff_published_us(uint32_t failures, double random01)
{
    return retry_backoff_us(failures, BACKOFF_PUBLISHED_MAX_US, random01);
}
