# shellcheck shell=bash
# Functions that install Debian packages and Python tools. scripts/test and scripts/lint source this
# file.

say() { printf '%s\n' "$*"; }

# Installs the Debian packages that are missing, as root or with sudo. DFCCL_TEST_NO_INSTALL=1
# forbids it. The log of apt-get is LOG; a download that takes longer than SECONDS is given up.
install_packages() { # SECONDS LOG PACKAGE...
  local seconds=$1 log=$2
  shift 2
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian machine: using the tools that are here"
    return
  fi
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "${DFCCL_TEST_NO_INSTALL-}" = 1 ]; then say "not installed: ${missing[*]}"; return; fi
  say "installing: ${missing[*]}"
  local root=(env DEBIAN_FRONTEND=noninteractive)
  [ "$(id -u)" = 0 ] || root=(sudo -n env DEBIAN_FRONTEND=noninteractive)
  local install=(apt-get install -y -q --no-install-recommends)
  # If the common installation fails, each package is installed alone, so that one package that this
  # release lacks does not prevent the others.
  if ! { "${root[@]}" timeout "$seconds" apt-get update -q &&
         "${root[@]}" timeout "$seconds" "${install[@]}" --download-only "${missing[@]}" &&
         "${root[@]}" "${install[@]}" "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    for package in "${missing[@]}"; do
      "${root[@]}" "${install[@]}" "$package" >>"$log" 2>&1 </dev/null ||
        say "could not install $package"
    done
  fi
}

# Installs the Python packages of a requirements file into a virtual environment, which is made
# first.
install_python_tools() { # FOLDER LOG REQUIREMENTS
  if [ "${DFCCL_TEST_NO_INSTALL-}" = 1 ]; then say "not installed: the tools of $3"; return; fi
  say "installing: the tools of $3 into $1"
  { python3 -m venv "$1" && timeout 300 "$1/bin/pip" install --quiet --requirement "$3"; } \
    >"$2" 2>&1 </dev/null || say "could not install the tools of $3: $(tail -n 1 "$2")"
}
