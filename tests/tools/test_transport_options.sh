#!/bin/sh
# Promise: if verbs are enabled but not available, the configuration fails; network plugins are
# built or omitted as the option says; auto and disabled configure without error. A configuration
# without options leaves the test suite out.
. "$(dirname "$0")/check.sh"
root=$1
command -v meson >/dev/null || { echo "meson is not in the path"; exit 77; }

configure() { # STATUS OPTIONS...
  expected=$1
  shift
  rm -rf "$work/build"
  run "$expected" meson setup "$work/build" "$root" -Dsimulator=false \
    -Dcuda=disabled "$@"
}

# The configuration of a machine without libibverbs, also if this machine has it.
cat > "$work/pkg-config" <<'EOF'
#!/bin/sh
case "$*" in *libibverbs*) exit 1 ;; esac
exec pkg-config "$@"
EOF
chmod +x "$work/pkg-config"
PKG_CONFIG=$work/pkg-config
export PKG_CONFIG
configure 1 -Dverbs=enabled
out_has 'ERROR: Dependency "libibverbs" not found'
configure 0 -Dverbs=auto -Dnccl_net=disabled
out_has 'Test suite \(-Dtests=true\) *: (.\[[0-9;]*m)*(NO|False)'
out_has 'NCCL network plugins *: (.\[[0-9;]*m)*(NO|False)'
configure 0 -Dverbs=disabled -Dnccl_net=enabled
out_has 'NCCL network plugins *: (.\[[0-9;]*m)*(YES|True)'
finish
