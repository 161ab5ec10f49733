#!/usr/bin/env python3
"""Promise: a planted bug, or a reason of coverage, keeps its place when functions move to other
files or text around it changes. If its function or its place does not exist, or exists more than
once, the error names it."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import functions

SOURCE = """#define DF_TWICE(x) \\
  static void x##_made(void) { \\
  }
typedef struct DF_ALIGNED(64) df_thing {
  int (*made)(void);
} df_thing;
DF_DEFINE(one, int)
DF_DEFINE(two, char)
static const char *const brace = "{ push(", *text = /* } push( */ "}";

static const int numbers[] = {1, 2};
int df_admit(df_coll *coll, int (*push)(df_coll *)) {
  if (coll->failed || log("push(1)")) return 0; /* push(2) */
  if (coll->length > 0 &&
      coll->pending[coll->of[1]] == 0) {
    if (!push(coll)) return 0;
    coll->length--;
  }
  coll->ops->ring(coll, 1);
  store(&coll->first, 1);
  store(&coll->last, 2);
  return 1;
}
static void stop(void) { push(0); }
static inline int __attribute__((noinline)) df_other(void) __attribute__((unused)) {
  return 0;
}
"""
failed = 0


def expect(what, is_so):
    global failed
    if not is_so:
        failed = 1
        print("not so: %s" % what)


def place(sources, key, anchor):
    """The text at the place, or the text of the error if there is none."""
    try:
        found = functions.find_place(sources, key, anchor)
    except functions.NotFound as error:
        return "error: %s" % error
    return sources.texts[found.path][found.start : found.end]


def names(text):
    return [function.name for function in functions.functions_of(text, "src/a/a.c")]


def places_are_found(sources):
    for anchor, text in {
        "push": "push(coll)",
        "ring": "coll->ops->ring(coll, 1)",
        "store first": "store(&coll->first, 1)",
        "{": "",
        ".pending": "coll->pending[coll->of[1]]",
        "if failed": 'coll->failed || log("push(1)")',
    }.items():
        expect("%s is %s" % (anchor, text), place(sources, "df_admit", anchor) == text)
    expect(
        "the condition of two lines is whole",
        place(sources, "df_admit", "if pending").endswith("] == 0"),
    )


def what_is_gone_or_twice_is_named(sources):
    for key, anchor, words in (
        ("df_gone", "push", "no function df_gone"),
        ("df_admit", "pull", "no place: pull"),
        ("df_admit", "store", "2 places: store"),
        ("df_admit", "store second", "no place"),
        ("df_admit", "if coll", "3 places"),
        ("df_admit", ".length", "2 places"),
        ("stop", "push", "src/a/a.c and src/b/b.c: name it FOLDER/stop"),
    ):
        expect("%s %s: %s" % (key, anchor, words), words in place(sources, key, anchor))


def main():
    expect(
        "functions, and macros that make some",
        names(SOURCE) == ["DF_DEFINE", "DF_DEFINE", "df_admit", "stop", "df_other"],
    )
    sources = functions.Sources(
        None, {"src/a/a.c": SOURCE, "src/b/b.c": "static void stop(void) {\n  push(1);\n}\n"}
    )
    places_are_found(sources)
    what_is_gone_or_twice_is_named(sources)
    expect(
        "a folder tells which",
        place(sources, "b/stop", "push") == "push(1)"
        and place(sources, "a.c/stop", "push") == "push(0)",
    )
    expect("lines of a function", list(sources.lines_of(sources.find("b/stop")[0])) == [1, 2, 3])
    moved = functions.Sources(
        None,
        {
            "src/c/d/c.h": "\n\n"
            + SOURCE.replace(
                "    if (!push(coll)) return 0;", "    int room =\n        push(coll);"
            )
        },
    )
    expect(
        "a move and other text around it change nothing",
        place(moved, "df_admit", "push") == "push(coll)",
    )
    variants = functions.Sources(
        None, {"src/a.h": "#if A\nvoid f(void) {}\n#else\nvoid f(void) {\n  push(1);\n}\n#endif\n"}
    )
    expect(
        "one of two variants has it",
        place(variants, "f", "push") == "push(1)" and "2 places" in place(variants, "f", "{"),
    )
    return failed


sys.exit(main())
