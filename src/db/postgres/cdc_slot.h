/* SPDX-License-Identifier: MIT */
/* What the source and the store both know of slots. */
#ifndef POSTGRES_CDC_SLOT_H
#define POSTGRES_CDC_SLOT_H

/* The pipeline's slot, and its publication: outrider_<pipeline>. */
void outrider__cdc_slot_name(const char *pipeline, char ret_name[64]);

#endif
