/* Which steps are split over threads: those that are estimated to take so long that a thread's share pays for waking it.
 * SPDX-License-Identifier: MIT */
#include "exec/plan.h"

#define SHARE_US 8.0     /* least share of a thread, microseconds: waking one and waiting for it takes 2 to 5 */
#define MACS_PER_US 60e3 /* of a step whose kernel has no estimate */
#define BYTES_PER_US 8e3 /* read and written */

static double work_us(const oct_step *step) {
  return step->choice ? 1e3 * step->choice->candidates[step->choice->chosen].estimate : step->macs / MACS_PER_US;
}

static double estimate_us(const oct_step *step, double bytes) {
  double us = oct_strips_run_in(step) ? 0 : work_us(step);
  for (int k = 0; oct_strips_run_in(step) && oct_strips_stage(step, k); k++) us += work_us(oct_strips_stage(step, k));
  return us > bytes / BYTES_PER_US ? us : bytes / BYTES_PER_US;
}

octet_status oct_plan_share(oct_plan *plan) {
  double *bytes = oct_alloc(plan->lowering.ctx, plan->n_steps + 1, sizeof *bytes);
  if (!bytes) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < plan->n_relocations; i++) {
    const oct_relocation *r = &plan->relocations[i];
    if (r->buffer >= 0) bytes[r->step] += (double)plan->buffers[r->buffer].bytes;
  }
  for (size_t i = 0; i < plan->n_steps; i++) {
    oct_step *step = plan->steps[i];
    double shares = estimate_us(step, bytes[i]) / SHARE_US;
    size_t grain = shares < 2 ? step->units : (size_t)((double)step->units / shares) + 1;
    if (grain > step->grain) step->grain = grain;
  }
  oct_free(bytes);
  return OCTET_OK;
}
