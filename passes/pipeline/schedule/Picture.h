//===- Picture.h - A schedule to look at ------------------------*- C++ -*-===//
//
// Draws when each rank does what: as SVG, and as a trace for Chrome's tracing
// and Perfetto; and says the figures in words.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_SCHEDULE_PICTURE_H
#define SHEAF_PASSES_PIPELINE_SCHEDULE_PICTURE_H

#include "passes/pipeline/schedule/Verify.h"

namespace sheaf::schedule {

/// The makespan and the three bubble figures by their names, a line each.
std::string printFigures(const Timing &timing);

/// A row for each rank. What it computes has a colour for each part, darker for
/// later stages of the rank; the bubble, between time 0 and the makespan, is
/// red.
std::string printSVG(const Schedule &schedule, const Timing &timing);

/// A track for each rank, in microseconds (one for each unit of time); bubbles
/// are events, too. The figures are in `otherData`.
std::string printTrace(const Schedule &schedule, const Timing &timing);

} // namespace sheaf::schedule

#endif // SHEAF_PASSES_PIPELINE_SCHEDULE_PICTURE_H
