/* SPDX-License-Identifier: MIT */
/* What the source and the store both know of slots. */
#ifndef POSTGRES_CDC_SLOT_H
#define POSTGRES_CDC_SLOT_H

#include "core/config.h"

/* The pipeline's slot: outrider_<pipeline>. */
void outrider__cdc_slot_name(const char *pipeline, char ret_name[64]);
/* Its publication: the same, unless the configuration names another. */
void outrider__cdc_publication_name(const struct pipeline_config *config, char ret_name[64]);

#endif
