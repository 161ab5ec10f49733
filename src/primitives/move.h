/* The movement of data, the only part of a step that differs between devices. */
#ifndef DF_PRIMITIVES_MOVE_H
#define DF_PRIMITIVES_MOVE_H

#if defined(__CUDACC__)
#include "primitives/move_cuda.h"
#else
#include "primitives/move_cpu.h"
#endif

#endif
