/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy's world in the simulator, in place of scx's header of the same name.
 *
 * What is declared here is modelled; what is not does not compile, and the compiler names it. The
 * kernel's functions are pointers that the simulator fills in by their names when it loads the
 * policy, so that none can be forgotten: see src/env.
 */
#ifndef __SCX_COMMON_BPF_H
#define __SCX_COMMON_BPF_H

#include "../sim/types.h"
#include "../sim/language.h"
#include "../sim/kfuncs.h"
#include "../sim/cpumask.h"
#include "../sim/maps.h"
#include "../sim/ops.h"

#endif
