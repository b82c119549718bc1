# shellcheck shell=bash disable=SC2154 # run.sh sets `here` and `environments`
# Installs what the tests need; sourced by tests/run.sh.
#
# System packages only where a command is missing, Python and Node environments below
# target/test-envs, each kept until what it is made of changes. Not for building or running anything.

# retry COMMAND...: up to three tries, for what a network can spoil.
retry() {
  local try
  for try in 1 2 3; do
    "$@" && return 0
    echo "try $try of 3 failed: $*" >&2
    sleep $((try * 5))
  done
  return 1
}

# as_root COMMAND...: runs it as root, without ever asking for a password.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo -n "$@"
  else
    echo "needed, and neither root nor passwordless sudo is there: $*" >&2
    return 1
  fi
}

apt_install() {
  if [ -z "${apt_is_updated:-}" ]; then
    retry as_root apt-get -qq update || return 1
    apt_is_updated=yes
  fi
  retry as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends "$@" >/dev/null
}

# find_python: a Python of at least 3.11 with venv that every user can run, so not one from a home.
find_python() {
  local candidate
  for candidate in /usr/bin/python3 /usr/bin/python3.1[1-9] /usr/local/bin/python3 "$(command -v python3)"; do
    [ -x "$candidate" ] || continue
    "$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    echo "$candidate"
    return 0
  done
  return 1
}

# npm and node are only needed to install; what runs is the Node 22 that comes as an npm package.
install_packages() {
  local missing=() pair
  for pair in bwrap:bubblewrap newuidmap:uidmap git:git cc:build-essential setpriv:util-linux \
    useradd:passwd python3:python3 npm:npm node:nodejs; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
  done
  [ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
  if [ ${#missing[@]} -gt 0 ]; then
    apt_install "${missing[@]}" || return 1
  fi
  if ! find_python >/dev/null; then
    apt_install python3-venv || return 1
    # Older releases keep a newer Python beside their own.
    find_python >/dev/null || apt_install python3.11 python3.11-venv || return 1
  fi
  echo "packages: $(bwrap --version), $("$(find_python)" --version), node $(node --version)"
}

# is_current FOLDER RECIPE: whether the folder was made from exactly this recipe.
is_current() {
  [ -f "$1/.recipe" ] && [ "$(cat "$1/.recipe")" = "$2" ]
}

# python_environment NAME [PACKAGE-WITHOUT-DEPENDENCIES]
python_environment() {
  local folder="$environments/$1" python recipe
  python=$(find_python) || return 1
  recipe="$("$python" -V) $python ${2:-} $(cat "$here/setup/$1.txt")"
  if is_current "$folder" "$recipe"; then
    echo "$1: kept"
    return 0
  fi
  rm -rf "$folder"
  "$python" -m venv "$folder" || return 1
  retry "$folder/bin/python" -m pip install -q --disable-pip-version-check -r "$here/setup/$1.txt" || return 1
  if [ -n "${2:-}" ]; then
    retry "$folder/bin/python" -m pip install -q --disable-pip-version-check --no-deps "$2" || return 1
  fi
  printf '%s' "$recipe" >"$folder/.recipe"
  echo "$1: made"
}

node_environment() {
  local folder="$environments/node" processor recipe
  case "$(uname -m)" in
    x86_64) processor=x64 ;;
    aarch64) processor=arm64 ;;
    *)
      echo "no packaged Node for $(uname -m)" >&2
      return 1
      ;;
  esac
  recipe="node-linux-$processor@22 @modelcontextprotocol/inspector@2.12.0"
  recipe="$recipe @modelcontextprotocol/conformance@0.2.0-alpha.12"
  if is_current "$folder" "$recipe"; then
    echo "node: kept"
    return 0
  fi
  rm -rf "$folder"
  mkdir -p "$folder"
  echo '{"name": "cofferdam-test-clients", "private": true}' >"$folder/package.json"
  # The packages ask for Node 22, which is itself among them: the warnings about it are of no concern.
  # shellcheck disable=SC2086
  retry npm install --prefix "$folder" --silent --no-audit --no-fund --ignore-scripts $recipe || return 1
  printf '%s' "$recipe" >"$folder/.recipe"
  echo "node: made"
}

install_environments() {
  mkdir -p "$environments"
  python_environment sdk && python_environment eaa eaa-core==1.0.0 &&
    python_environment evofabric && node_environment
}
