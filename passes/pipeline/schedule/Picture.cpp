//===- Picture.cpp - A schedule to look at --------------------------------===//

#include "passes/pipeline/schedule/Picture.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <array>
#include <map>

using namespace llvm;

namespace sheaf::schedule {
namespace {

/// What a rank does from one time to another: an action, or nothing (-1).
struct Interval {
  double start, end;
  int32_t action;
};

std::vector<Interval> intervalsOf(const Schedule &schedule,
                                  const Timing &timing, int32_t rank) {
  std::vector<Interval> intervals;
  double time = 0;
  auto upTo = [&](double end) {
    if (end > time)
      intervals.push_back({time, end, -1});
  };
  for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
    const Span &span = timing.spans[rank][i];
    if (!schedule.ranks[rank][i].isCompute())
      continue;
    upTo(span.start);
    intervals.push_back({span.start, span.end, static_cast<int32_t>(i)});
    time = span.end;
  }
  upTo(timing.makespan);
  return intervals;
}

std::array<std::pair<const char *, double>, 3> figuresOf(const Timing &timing) {
  return {{{"idle over ideal time", timing.bubbleOverIdeal()},
           {"idle over makespan", timing.bubbleOverMakespan()},
           {"by span", timing.bubbleBySpan()}}};
}

const char *wordOf(const Action &action) {
  if (action.kind == ActionKind::FusedPair)
    return "fused pair";
  switch (action.task.part) {
  case Part::Forward:
    return "forward";
  case Part::InputGradient:
    return "input gradient";
  case Part::WeightGradient:
    return "weight gradient";
  case Part::Backward:
    return "backward";
  }
  return "";
}

/// Hue and saturation of a part; F, I, W, B, pair.
struct Colour {
  const char *name;
  int hue, saturation;
};
constexpr Colour kColours[] = {{"forward", 212, 70},
                               {"input gradient", 168, 60},
                               {"weight gradient", 92, 45},
                               {"backward", 150, 50},
                               {"fused pair", 270, 45}};

} // namespace

std::string printFigures(const Timing &timing) {
  std::string text;
  raw_string_ostream os(text);
  os << "makespan " << format("%.6g", timing.makespan) << "\n";
  for (auto [name, figure] : figuresOf(timing))
    os << "bubble, " << name << ": " << format("%.4f", figure) << "\n";
  return text;
}

std::string printSVG(const Schedule &schedule, const Timing &timing) {
  constexpr double left = 48, width = 1400, row = 26, top = 54;
  double scale = timing.makespan > 0 ? width / timing.makespan : 0;
  std::string text;
  raw_string_ostream os(text);
  os << format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
               "height=\"%.0f\" font-family=\"sans-serif\" font-size=\"11\">\n",
               left + width + 12, top + row * schedule.size() + 12);
  os << "<style>.bubble{fill:#e5484d}text{fill:#222}</style>\n";
  os << format("<text x=\"%.0f\" y=\"16\">makespan %.6g", left,
               timing.makespan);
  for (auto [name, figure] : figuresOf(timing))
    os << "; bubble, " << name << ": " << format("%.4f", figure);
  os << "</text>\n";
  double x = left;
  auto legend = [&](const char *name, const std::string &attributes) {
    os << format("<rect x=\"%.0f\" y=\"26\" width=\"14\" height=\"14\" ", x)
       << attributes << "/>" << format("<text x=\"%.0f\" y=\"37\">", x + 18)
       << name << "</text>\n";
    x += 130;
  };
  auto fill = [](const Colour &colour, int light) {
    return "fill=\"hsl(" + std::to_string(colour.hue) + "," +
           std::to_string(colour.saturation) + "%," + std::to_string(light) +
           "%)\"";
  };
  for (const Colour &colour : kColours)
    legend(colour.name, fill(colour, 62));
  legend("bubble", "class=\"bubble\"");

  for (int32_t rank = 0; rank < schedule.size(); ++rank) {
    double y = top + row * rank;
    os << format("<text x=\"8\" y=\"%.0f\">r%d</text>\n", y + 16, rank);
    std::map<int32_t, int> shades;
    for (int32_t stage = 0; stage < schedule.stages(); ++stage)
      if (schedule.rankOf[stage] == rank) {
        int number = static_cast<int>(shades.size());
        shades[stage] = std::max(72 - 10 * number, 32);
      }
    for (const Interval &interval : intervalsOf(schedule, timing, rank)) {
      double begin = left + scale * interval.start;
      double length = scale * (interval.end - interval.start);
      std::string box;
      raw_string_ostream(box)
          << format("<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" ", begin, y,
                    length)
          << format("height=\"%.0f\" ", row - 4);
      if (interval.action < 0) {
        os << box << "class=\"bubble\"><title>bubble "
           << format("%.6g to %.6g", interval.start, interval.end)
           << "</title></rect>\n";
        continue;
      }
      const Action &action = schedule.ranks[rank][interval.action];
      const Colour &colour =
          kColours[action.kind == ActionKind::FusedPair
                       ? 4
                       : static_cast<size_t>(action.task.part)];
      os << box << fill(colour, shades[action.task.stage])
         << " stroke=\"#fff\" stroke-width=\"0.5\"><title>" << action.str()
         << " " << format("%.6g to %.6g", interval.start, interval.end)
         << "</title></rect>\n";
      std::string label = action.kind == ActionKind::FusedPair
                              ? action.str()
                              : std::to_string(action.task.microbatch);
      if (length > 7.0 * label.size())
        os << format("<text x=\"%.2f\" y=\"%.0f\" text-anchor=\"middle\">",
                     begin + length / 2, y + 15)
           << label << "</text>\n";
    }
  }
  os << "</svg>\n";
  return text;
}

std::string printTrace(const Schedule &schedule, const Timing &timing) {
  std::string text;
  raw_string_ostream os(text);
  json::OStream json(os);
  json.object([&] {
    json.attribute("displayTimeUnit", "ms");
    json.attributeObject("otherData", [&] {
      json.attribute("makespan", timing.makespan);
      for (auto [name, figure] : figuresOf(timing))
        json.attribute(("bubble, " + Twine(name)).str(), figure);
    });
    json.attributeArray("traceEvents", [&] {
      for (int32_t rank = 0; rank < schedule.size(); ++rank) {
        json.object([&] {
          json.attribute("name", "thread_name");
          json.attribute("ph", "M");
          json.attribute("pid", 0);
          json.attribute("tid", rank);
          json.attributeObject("args", [&] {
            json.attribute("name", "rank " + std::to_string(rank));
          });
        });
        for (const Interval &interval : intervalsOf(schedule, timing, rank))
          json.object([&] {
            const Action *action = interval.action < 0
                                       ? nullptr
                                       : &schedule.ranks[rank][interval.action];
            json.attribute("name", action ? action->str() : "bubble");
            json.attribute("cat", action ? wordOf(*action) : "bubble");
            json.attribute("ph", "X");
            json.attribute("ts", interval.start);
            json.attribute("dur", interval.end - interval.start);
            json.attribute("pid", 0);
            json.attribute("tid", rank);
            if (!action)
              json.attribute("cname", "terrible");
          });
      }
    });
  });
  os << "\n";
  return text;
}

} // namespace sheaf::schedule
