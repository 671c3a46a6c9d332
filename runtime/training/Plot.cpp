#include "sheaf/Error.h"
#include "sheaf/Training.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace sheaf;

namespace {
struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value) {
    if (std::isfinite(value)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  bool empty() const { return low > high; }
  double span() const { return high > low ? high - low : 1; }
};

/// A braille character is two dots wide and four high; U+2800 has none, and
/// each dot has a bit.
constexpr int dotBits[4][2] = {
    {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

void appendUtf8(std::string &text, int codePoint) {
  text += static_cast<char>(0xE0 | codePoint >> 12);
  text += static_cast<char>(0x80 | (codePoint >> 6 & 0x3F));
  text += static_cast<char>(0x80 | (codePoint & 0x3F));
}

/// 1, 2 or 5 times a power of ten that cuts `span` into about five.
double tickStep(double span) {
  double power = std::pow(10.0, std::floor(std::log10(span / 5)));
  double ratio = span / 5 / power;
  return power * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10);
}

std::string escaped(const std::string &text) {
  std::string out;
  for (char c : text)
    out += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
                      : std::string(1, c);
  return out;
}
} // namespace

std::string sheaf::plotText(const std::vector<double> &values, int columns,
                            int rows) {
  int width = columns * 2, height = rows * 4;
  // One mean for each column of dots; columns beyond the number of values are
  // interpolated.
  std::vector<double> line(width, std::numeric_limits<double>::quiet_NaN());
  int64_t count = static_cast<int64_t>(values.size());
  Range range;
  for (int x = 0; x < width && count > 0; ++x) {
    int64_t begin = x * count / width;
    int64_t end = std::max(begin + 1, (x + 1) * count / width);
    double sum = 0;
    for (int64_t i = begin; i < end; ++i)
      sum += values[i];
    line[x] = sum / (end - begin);
    range.add(line[x]);
  }
  if (range.empty())
    return "";
  std::vector<int> cells(columns * rows, 0);
  auto rowOf = [&](double value) {
    return static_cast<int>(
        std::lround((range.high - value) / range.span() * (height - 1)));
  };
  for (int x = 0; x < width; ++x) {
    if (!std::isfinite(line[x]))
      continue;
    int y = rowOf(line[x]);
    int from = x > 0 && std::isfinite(line[x - 1]) ? rowOf(line[x - 1]) : y;
    // Joins the dots of a steep part.
    for (int dot = std::min(y, from + (y > from));
         dot <= std::max(y, from - (y < from)); ++dot)
      cells[dot / 4 * columns + x / 2] |= dotBits[dot % 4][x % 2];
  }
  std::string text;
  for (int row = 0; row < rows; ++row) {
    double label = range.high - range.span() * row / std::max(1, rows - 1);
    text += fmt::format("{:>9.4f} ", label);
    for (int column = 0; column < columns; ++column)
      appendUtf8(text, 0x2800 + cells[row * columns + column]);
    text += "\n";
  }
  return text;
}

std::string sheaf::plotSvg(const Curve &loss, const Curve &evalLoss,
                           const std::string &title) {
  constexpr double width = 800, height = 450, left = 70, right = 20, top = 40,
                   bottom = 50;
  Range x, y;
  for (const Curve *curve : {&loss, &evalLoss})
    for (auto [step, value] : *curve) {
      x.add(step);
      y.add(value);
    }
  if (x.empty() || y.empty())
    x.low = y.low = 0, x.high = y.high = 1;
  auto atX = [&](double value) {
    return left + (value - x.low) / x.span() * (width - left - right);
  };
  auto atY = [&](double value) {
    return top + (y.high - value) / y.span() * (height - top - bottom);
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"24\" font-size=\"15\">{3}</text>\n",
      width, height, left, escaped(title));
  double stepY = tickStep(y.span()), stepX = tickStep(x.span());
  for (double v = std::ceil(y.low / stepY) * stepY; v <= y.high + stepY * 1e-9;
       v += stepY)
    svg += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" "
                       "stroke=\"#ddd\"/>\n<text x=\"{}\" y=\"{:.1f}\" "
                       "text-anchor=\"end\">{:.4g}</text>\n",
                       left, width - right, atY(v), atY(v), left - 6,
                       atY(v) + 4, v);
  for (double v = std::ceil(x.low / stepX) * stepX; v <= x.high + stepX * 1e-9;
       v += stepX)
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" "
                       "text-anchor=\"middle\">{:.6g}</text>\n",
                       atX(v), height - bottom + 18, v);
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step"
                     "</text>\n",
                     (left + width - right) / 2, height - 10);
  auto draw = [&](const Curve &curve, const char *color, const char *name,
                  int slot) {
    if (curve.empty())
      return;
    svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" "
                       "stroke-width=\"1.5\" points=\"",
                       color);
    for (auto [step, value] : curve)
      if (std::isfinite(value))
        svg += fmt::format("{:.1f},{:.1f} ", atX(step), atY(value));
    svg += fmt::format("\"/>\n<text x=\"{}\" y=\"{}\" text-anchor=\"end\" "
                       "fill=\"{}\">{}</text>\n",
                       width - right, 20 + 15 * slot, color, name);
  };
  draw(loss, "#1f5fa8", "training loss", 0);
  draw(evalLoss, "#c0392b", "held-out loss", 1);
  return svg + "</svg>\n";
}
