# Installs what is missing and builds. Sourced by tools/demo and tools/test.
#
#   mixle_packages NAME...   Debian packages, installed only where absent
#   mixle_build BUILD TARGET...   configures (once) and builds the targets

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export DEBIAN_FRONTEND=noninteractive

build_packages=(g++ cmake ninja-build ccache lld-22 libmlir-22-dev mlir-22-tools
  llvm-22-dev llvm-22-tools flatbuffers-compiler libflatbuffers-dev
  nlohmann-json3-dev libcli11-dev libxxhash-dev libopenmpi-dev openmpi-bin python3)

mixle_packages() {
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if [ "$(id -u)" -ne 0 ]; then
    echo "error: these Debian packages are missing and only root can install them: ${missing[*]}" >&2
    exit 1
  fi
  echo "installing ${missing[*]}"
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

mixle_build() {
  local build=$1
  shift
  [ -f "$build/build.ninja" ] ||
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "${cmake_options[@]}" >"$build.log" 2>&1 ||
    { cat "$build.log"; exit 1; }
  ninja -C "$build" "$@"
}

# mixle_venv REQUIREMENTS: .venv with these packages, made or completed once.
mixle_venv() {
  local stamp="$root/.venv/.installed-$(sha256sum "$1" | cut -c1-16)"
  [ -f "$stamp" ] && return 0
  [ -x "$root/.venv/bin/python" ] || python3 -m venv "$root/.venv"
  "$root/.venv/bin/python" -m pip install -q --disable-pip-version-check -r "$1"
  touch "$stamp"
}
