/*
 * The picture of --figure11, after Figure 11 of Pan et al. (EuroSys 2025): by collective, how often
 * it was preempted, and how long the task queue was when a block took one of its runs. Each bar has
 * its number, and a title that browsers show: "C4: 312 preemptions in 40 runs of a block".
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "trace/report.h"

enum {
  MOST_BARS = 40, /* further collectives share the last bar */
  LEFT = 70,
  TOP = 64,
  PLOT = 180, /* height of each of the two plots */
  GAP = 64,
  STEP = 56, /* from bar to bar */
  BAR = 34,
  BELOW = 96
};

typedef struct bar {
  char name[80];
  uint64_t preemptions, taken, queue_sum, queue_most;
} bar;

static void add_row(bar *to, const df_row_turns *turns) {
  to->preemptions += turns->of_kind[DF_TURN_PREEMPTED];
  to->taken += turns->of_kind[DF_TURN_TAKEN];
  to->queue_sum += turns->queue_sum;
  if (turns->queue_most > to->queue_most) to->queue_most = turns->queue_most;
}

/* In the order of ids. Returns the number of bars. */
static size_t make_bars(const df_job_summary *summary, bar bars[MOST_BARS]) {
  const df_job_trace *job = summary->job;
  const df_row_turns *gone = &summary->turns.rows[job->n_rows];
  size_t n = 0;
  for (size_t i = 0; i < job->n_rows; i++) {
    const bool is_shared = i >= MOST_BARS - 2 && job->n_rows > MOST_BARS - 1;
    if (!is_shared || n < MOST_BARS - 1) {
      bars[n] = (bar){.taken = 0};
      snprintf(bars[n++].name, sizeof bars[0].name, "%.79s",
               is_shared ? "others" : job->rows[i].first->name);
    }
    add_row(&bars[n - 1], &summary->turns.rows[i]);
  }
  if (gone->of_kind[DF_TURN_PREEMPTED] + gone->of_kind[DF_TURN_TAKEN] == 0) return n;
  bars[n] = (bar){.name = "deregistered"};
  add_row(&bars[n], gone);
  return n + 1;
}

static double queue_of(const bar *one) {
  return one->taken ? (double)one->queue_sum / (double)one->taken : 0;
}

static void put_escaped(FILE *to, const char *text) {
  for (; *text; text++) {
    const unsigned char c = (unsigned char)*text;
    if (c == '<' || c == '>' || c == '&' || c == '"')
      fprintf(to, "&#%d;", c);
    else
      fputc(c >= ' ' && c < 127 ? c : '?', to);
  }
}

static double middle_of(size_t i) { return LEFT + STEP * ((double)i + 0.5); }

/* A line at the top of the plot with the largest value, and one at its bottom with 0. */
static void draw_axis(FILE *to, double y, double width, double most, const char *title) {
  fprintf(to,
          "<text x=\"%d\" y=\"%.0f\" font-weight=\"bold\">%s</text>\n"
          "<path d=\"M%d %.0f H%.0f M%d %.0f H%.0f\" stroke=\"#bbb\" fill=\"none\"/>\n"
          "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%.10g</text>\n"
          "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">0</text>\n",
          LEFT, y - 24, title, LEFT, y, width - 20, LEFT, y + PLOT, width - 20, LEFT - 6, y + 4,
          most, LEFT - 6, y + PLOT + 4);
}

static void draw_preemptions(FILE *to, const bar *bars, size_t n, double width) {
  uint64_t most = 1;
  for (size_t i = 0; i < n; i++)
    if (bars[i].preemptions > most) most = bars[i].preemptions;
  draw_axis(to, TOP, width, (double)most, "Preemptions, of all ranks and blocks");
  fputs("<g id=\"preemptions\" fill=\"#4878a8\">\n", to);
  for (size_t i = 0; i < n; i++) {
    const double height = PLOT * (double)bars[i].preemptions / (double)most;
    fprintf(to, "<rect x=\"%.0f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"><title>",
            middle_of(i) - BAR / 2.0, TOP + PLOT - height, BAR, height);
    put_escaped(to, bars[i].name);
    fprintf(to,
            ": %" PRIu64 " preemptions in %" PRIu64 " runs of a block</title></rect>\n"
            "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#333\">%" PRIu64 "</text>\n",
            bars[i].preemptions, bars[i].taken, middle_of(i), TOP + PLOT - height - 4,
            bars[i].preemptions);
  }
  fputs("</g>\n", to);
}

/* Bars for the mean, a stroke for the largest length. */
static void draw_queue(FILE *to, const bar *bars, size_t n, double width) {
  const double y = TOP + PLOT + GAP;
  uint64_t most = 1;
  for (size_t i = 0; i < n; i++)
    if (bars[i].queue_most > most) most = bars[i].queue_most;
  draw_axis(to, y, width, (double)most,
            "Collectives in the task queue when a run was taken: mean (bar), most (line)");
  fputs("<g id=\"queue\" fill=\"#d08a3c\">\n", to);
  for (size_t i = 0; i < n; i++) {
    const double height = PLOT * queue_of(&bars[i]) / (double)most;
    const double top = y + PLOT * (1 - (double)bars[i].queue_most / (double)most);
    fprintf(to, "<rect x=\"%.0f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"><title>",
            middle_of(i) - BAR / 2.0, y + PLOT - height, BAR, height);
    put_escaped(to, bars[i].name);
    fprintf(to,
            ": %.2f in the mean, %" PRIu64 " at most</title></rect>\n"
            "<path d=\"M%.0f %.1f h%d\" stroke=\"#804c10\" stroke-width=\"2\"/>\n"
            "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#333\">%.1f</text>\n",
            queue_of(&bars[i]), bars[i].queue_most, middle_of(i) - BAR / 2.0, top, BAR,
            middle_of(i), y + PLOT - height - 4, queue_of(&bars[i]));
  }
  fputs("</g>\n", to);
}

static void draw_names(FILE *to, const bar *bars, size_t n) {
  const int y = TOP + 2 * PLOT + GAP + 16;
  for (size_t i = 0; i < n; i++) {
    fprintf(to, "<text transform=\"translate(%.0f %d) rotate(-35)\" text-anchor=\"end\">",
            middle_of(i) + 6, y);
    char name[13];
    snprintf(name, sizeof name, "%.12s", bars[i].name);
    put_escaped(to, name);
    fputs("</text>\n", to);
  }
}

static void draw(FILE *to, const df_job_summary *summary, const bar *bars, size_t n) {
  uint64_t preemptions = 0, lost = 0;
  for (size_t i = 0; i < n; i++) preemptions += bars[i].preemptions;
  for (uint32_t r = 0; r < summary->job->n_ranks; r++)
    lost += summary->turns.ranks[r][DF_TURN_LOST];
  const double width = LEFT + STEP * (double)(n > 10 ? n : 10) + 20;
  fprintf(to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%d\" "
          "font-family=\"sans-serif\" font-size=\"12\">\n"
          "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
          "<text x=\"%d\" y=\"20\" font-size=\"14\">%u ranks: %" PRIu64
          " preemptions by collective, and the task queue",
          width, TOP + 2 * PLOT + GAP + BELOW, LEFT, summary->job->n_ranks, preemptions);
  if (lost > 0) fprintf(to, " (%" PRIu64 " records are lost)", lost);
  fputs("</text>\n", to);
  draw_preemptions(to, bars, n, width);
  draw_queue(to, bars, n, width);
  draw_names(to, bars, n);
  fputs("</svg>\n", to);
}

bool df_job_draw_figure11(const df_job_summary *summary, const char *file) {
  bar bars[MOST_BARS + 1];
  if (summary->job->n_turns == 0) {
    df_tool_error("the traces have no turns, which --figure11 draws: set DFCCL_TRACE_TURNS=1 for "
                  "the job, too");
    return false;
  }
  const size_t n = make_bars(summary, bars);
  FILE *to = fopen(file, "we");
  if (to) draw(to, summary, bars, n);
  const bool failed = to == NULL || ferror(to);
  const int error = errno;
  if (to && fclose(to) == 0 && !failed) return true;
  df_tool_error("%s cannot be written: %s", file, strerror(failed ? error : errno));
  return false;
}
