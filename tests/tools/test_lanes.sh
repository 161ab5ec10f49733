#!/bin/sh
# Promise: the lane lint of scripts/test counts the results of scripts/lint and of its test, and
# fails if one of the two programs fails, ends early or prints no result.
. "$(dirname "$0")/check.sh"
project=$work/project
mkdir -p "$project/scripts" "$project/tests/lint" || exit 1
cp -R "$1/scripts/test" "$1/scripts/lib" "$project/scripts"

# lane STATUS SUMMARY LINT TEST: the two programs are these shell commands
lane() {
  printf '#!/bin/sh\n%s\n' "$3" >"$project/scripts/lint"
  printf '#!/bin/sh\n%s\n' "$4" >"$project/tests/lint/test_lint.py"
  chmod +x "$project/scripts/lint" "$project/tests/lint/test_lint.py"
  run "$1" env DFCCL_TEST_NO_INSTALL=1 "$project/scripts/test" --lane lint
  out_has "^dfccl tests: $2\$"
}
lint='echo "lint: words: ok, 3 files"; echo "lint: mypy: skipped: it is not installed"'
lint_fails='echo "a.c:1: a fault"; echo "lint: words: failed: 1 findings"; exit 1'
test='echo "ok a fault is found"; echo "ok a file is accepted"'

lane 0 '3 passed, 0 failed, 1 skipped' "$lint" "$test"
lane 0 '3 passed, 0 failed, 2 skipped' "$lint" "$test; echo 'skipped: a type: no mypy'"
lane 1 '2 passed, 1 failed, 0 skipped' "$lint_fails" "$test"
lane 1 '3 passed, 1 failed, 1 skipped' "$lint" "$test; echo 'not ok a word'; exit 1"
# Each of these programs ends before all of its results are printed.
lane 1 '3 passed, 1 failed, 1 skipped' "$lint" "$test; exit 3"
lane 1 '3 passed, 1 failed, 1 skipped' "$lint; exit 3" "$test"
lane 1 '3 passed, 1 failed, 1 skipped' "$lint; kill -KILL \$\$" "$test"
lane 1 '1 passed, 1 failed, 1 skipped' "$lint" 'exit 1'
lane 1 '1 passed, 1 failed, 1 skipped' "$lint" ''
lane 1 '2 passed, 1 failed, 0 skipped' '' "$test"
lane 1 '2 passed, 2 failed, 0 skipped' "$lint_fails" "$test; exit 3"
finish
