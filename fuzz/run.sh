#!/usr/bin/env bash
# Runs every fuzz target for a while, beginning with the real files. Exit status 0 when none fails.
#
# usage: fuzz/run.sh [SECONDS]
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}

# fuzz TARGET SEEDS: what is found is kept in fuzz/corpus, what fails in fuzz/artifacts.
fuzz() {
  mkdir -p "fuzz/corpus/$1"
  cargo +nightly fuzz run "$1" "fuzz/corpus/$1" "$2" -- -max_total_time="$seconds" -max_len=20000
}

fuzz profile sandbox-profiles
fuzz config fuzz/seeds/config
