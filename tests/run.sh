#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every check and suite; then the end-to-end suites once
# more as an ordinary user. Prints a line per suite and, last, the sum. Exit status 0 only without failure.
#
# usage: tests/run.sh [--quick]
#   --quick   installs nothing: the environments of an earlier run are used as they are
#
# Starts on a Debian or Ubuntu that has only Rust, as root or with passwordless sudo; once the packages
# are there, any user will do. Not for benchmarks.
set -u -o pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
here="$repository/tests"
target=${CARGO_TARGET_DIR:-$repository/target}
environments="$target/test-envs"
reports="$target/test-reports"
user=cofferdam-test
user_comment="made by tests/run.sh of cofferdam"
stage=""
rows=()
passed=0 failed=0 skipped=0

# shellcheck source=tests/setup/install.sh
. "$here/setup/install.sh"

main() {
  case "${1:-}" in
    "" | --quick) ;;
    *)
      echo "usage: tests/run.sh [--quick]" >&2
      exit 2
      ;;
  esac
  trap clean_up EXIT
  trap 'exit 130' INT TERM
  cd "$repository" || exit 1
  mkdir -p "$reports"
  local mounts
  mounts=$(own_mounts)

  if [ "${1:-}" != --quick ]; then
    check packages install_packages || finish
    check environments install_environments || finish
  fi
  check build cargo build --workspace --locked || finish
  lint
  export COFFERDAM_BIN="$target/debug/cofferdam" COFFERDAM_TEST_ENVS="$environments"
  suite rust cargo "$reports/rust.log" cargo test --workspace --locked --no-fail-fast
  python_suites "" "$here" "$environments" "$reports"
  check evofabric "$environments/evofabric/bin/python" "$here/mcp/evofabric_oracle.py" --check
  ordinary_user_suites
  check mounts test "$mounts" = "$(own_mounts)"
  finish
}

lint() {
  component fmt rustfmt cargo fmt --all --check
  component clippy clippy cargo clippy --workspace --all-targets --locked -- -D warnings
  check doc env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
}

# python_suites SUFFIX TESTS ENVIRONMENTS REPORTS [COMMAND-PREFIX...]
python_suites() {
  local suffix=$1 tests=$2 envs=$3 into=$4
  shift 4
  # EAA's client lives in an environment of its own.
  suite "clients$suffix" pytest "$into/clients$suffix.xml" "$@" "$envs/sdk/bin/python" -m pytest \
    "$tests/mcp" --ignore "$tests/mcp/test_eaa_client.py" --junitxml "$into/clients$suffix.xml"
  suite "eaa$suffix" pytest "$into/eaa$suffix.xml" "$@" "$envs/eaa/bin/python" -m pytest \
    "$tests/mcp/test_eaa_client.py" --junitxml "$into/eaa$suffix.xml"
}

# Everything that drives the built binary, again without any privilege. The programs are copied to where
# that user can read them, for a clone often lies in root's home.
ordinary_user_suites() {
  if [ "$(id -u)" != 0 ]; then
    echo "== ordinary user: this run was one already"
    return
  fi
  local programs=()
  mapfile -t programs < <(cargo test --workspace --locked --no-run --message-format=json 2>/dev/null |
    "$(find_python)" "$here/setup/rust_suites.py")
  check stage set_the_stage "${programs[@]}" || return
  local as_user=(env --chdir="$stage" -i HOME="$stage/home" USER="$user" LOGNAME="$user" LANG=C.UTF-8
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TMPDIR="$stage/tmp"
    COFFERDAM_BIN="$stage/bin/cofferdam" COFFERDAM_TEST_ENVS="$stage/test-envs" PYTHONDONTWRITEBYTECODE=1
    setpriv --reuid="$user" --regid="$user" --clear-groups --inh-caps=-all --)
  # shellcheck disable=SC2016
  suite rust-as-user cargo "$reports/rust-as-user.log" "${as_user[@]}" \
    bash -c 'status=0; for program; do "$program" || status=1; done; exit $status' all "$stage"/rust/*
  python_suites -as-user "$stage/tests" "$stage/test-envs" "$stage/reports" "${as_user[@]}"
  cp "$stage"/reports/*.xml "$reports/" 2>/dev/null
}

set_the_stage() {
  if [ "$(getent passwd "$user" | cut -d: -f5)" = "$user_comment" ]; then
    userdel "$user" || return 1 # an earlier run was killed
  fi
  stage=$(mktemp -d /var/tmp/cofferdam-test.XXXXXX) || return 1
  useradd --no-create-home --home-dir "$stage/home" --shell /bin/bash --comment "$user_comment" "$user" || return 1
  mkdir "$stage"/{bin,rust,test-envs} || return 1
  find "$target/debug" -maxdepth 1 -type f -perm -u+x -exec cp --reflink=auto -t "$stage/bin" {} + || return 1
  cp --reflink=auto -t "$stage/rust" "$@" || return 1
  cp -a --reflink=auto -t "$stage/test-envs" "$environments"/{sdk,eaa,node} || return 1
  cp -a --reflink=auto -t "$stage" "$here" "$repository/sandbox-profiles" || return 1
  chmod -R a+rX "$stage" || return 1
  install -d -o "$user" -g "$user" -m 700 "$stage"/{home,tmp,reports}
}

clean_up() {
  if [ "$(getent passwd "$user" | cut -d: -f5)" = "$user_comment" ] && [ "$(id -u)" = 0 ]; then
    userdel "$user"
  fi
  if [ -n "$stage" ]; then
    rm -rf "$stage"
  fi
}

own_mounts() {
  grep -c -e cofferdam -e bwrap /proc/self/mountinfo
}

# component NAME COMPONENT COMMAND...: a check that needs a part of the Rust toolchain that may be absent.
component() {
  local name=$1 part=$2
  shift 2
  if ! cargo "$name" --version >/dev/null 2>&1 && ! retry rustup component add "$part"; then
    record "$name" 0 0 1 0 "the toolchain has no $part"
    return
  fi
  check "$name" "$@"
}

# check NAME COMMAND...: one thing that holds or does not.
check() {
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  if "$@"; then
    record "$name" 1 0 0 $((SECONDS - start))
  else
    record "$name" 0 1 0 $((SECONDS - start))
    return 1
  fi
}

# suite NAME cargo|pytest REPORT COMMAND...: tests that are counted, after which nothing may be left running.
suite() {
  local name=$1 kind=$2 report=$3 start=$SECONDS status good bad left
  shift 3
  echo "== $name"
  rm -f "$report"
  "$(find_python)" "$here/setup/no_leftovers.py" "$@" 2>&1 | tee "$reports/$name.log"
  status=${PIPESTATUS[0]}
  read -r good bad left < <("$(find_python)" "$here/setup/count.py" "$kind" "$report")
  if [ "$status" != 0 ] && [ "$bad" = 0 ]; then
    bad=1
  fi
  record "$name" "$good" "$bad" "$left" $((SECONDS - start))
}

# record NAME PASSED FAILED SKIPPED SECONDS [REMARK]
record() {
  passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
  rows+=("$(printf '%-16s %5d passed %4d failed %4d skipped %6d s  %s' "$1" "$2" "$3" "$4" "$5" "${6:-}")")
}

finish() {
  echo
  printf '%s\n' "${rows[@]}"
  echo "all steps took $SECONDS s"
  if [ "$skipped" = 0 ]; then
    echo "$passed passed, $failed failed"
  else
    echo "$passed passed, $failed failed, $skipped skipped"
  fi
  [ "$failed" = 0 ]
  exit
}

main "$@"
