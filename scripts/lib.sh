# Shared by the scripts of this folder: saying where they are, installing what is missing, building.
# Source it; it changes to the root of the checkout. Paths that the user gives are the caller's:
# take them through from_caller.

set -euo pipefail
kCaller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kBuildJobs=${CAUSEWAY_BUILD_JOBS:-$(nproc)}
# Checkouts in different folders share what ccache has compiled.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# ccache fails, and the compilation with it, where it cannot make its folder, as under a read-only HOME.
if [ -z "${CCACHE_DIR:-}" ] && ! mkdir -p "${XDG_CACHE_HOME:-${HOME:-}/.cache}/ccache" 2>/dev/null; then
  export CCACHE_DIR=$PWD/.cache/ccache
fi

say() { printf '\n\033[1m== [%4ds] %s\033[0m\n' "$SECONDS" "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# from_caller PATH: the same file, seen from here.
from_caller() {
  case $1 in
    /*) echo "$1" ;;
    *) echo "$kCaller/$1" ;;
  esac
}
if [ -n "${CAUSEWAY_TEST_DATA:-}" ]; then
  CAUSEWAY_TEST_DATA=$(from_caller "$CAUSEWAY_TEST_DATA")
  export CAUSEWAY_TEST_DATA
fi

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else die "installing packages needs root or sudo; as root run: apt-get install $(packages | xargs)"
  fi
}

gpu_answers() { nvidia-smi -L 2>/dev/null | grep -q '^GPU '; }

# packages [GROUP]: those of a group, or those that every build and test needs.
packages() { awk -v group="${1:-}" '!/^#/ && $2 == group {print $1}' scripts/packages.txt; }

missing_packages() {
  local package group
  for package in $(packages; for group in "$@"; do packages "$group"; done); do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      echo "$package"
  done
}

# install_packages [GROUP…]: what every build needs, and these groups.
install_packages() {
  command -v dpkg-query >/dev/null || die "this is no Debian system; install by hand: $(packages | xargs)"
  local missing
  missing=$(missing_packages "$@" | xargs)
  if [ -z "$missing" ]; then
    say "All Debian packages are installed"
    return
  fi
  say "Installing Debian packages: $missing"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# install_environment FOLDER REQUIREMENTS [OPTION OF PIP…]: a virtual environment with these packages,
# pinned by hash.
install_environment() {
  local folder=$1 requirements=$2 stamp=$1/requirements.sha256 wanted
  shift 2
  wanted=$(sha256sum <"$requirements")
  if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    say "The Python packages of $requirements are up to date ($folder)"
    return
  fi
  say "Installing the $(grep -c == "$requirements") Python packages of $requirements into $folder"
  rm -rf "$folder"
  /usr/bin/python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes "$@" \
    -r "$requirements" || return
  echo "$wanted" >"$stamp"
}

# The clients and oracles that tests use.
install_python() { install_environment .venv tests/requirements.txt; }

# Other projects' clients, of which what a test uses is compiled when it is imported.
install_clients() {
  install_environment .venv-clients tests/clients/requirements.txt --only-binary=:all: --no-compile || {
    rm -rf .venv-clients
    echo "  not to be had: the tests of LangChain, LiteLLM and LlamaIndex are skipped"
  }
}

# FlashInfer's headers, which the attention kernels are compiled with where nvcc is; pinned by hash.
install_flashinfer() {
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || return 0
  local folder=.cache/flashinfer-0.6.9
  if [ -d $folder/include/flashinfer ]; then
    say "FlashInfer's headers are up to date ($folder)"
    return
  fi
  say "Fetching FlashInfer's headers into $folder"
  rm -rf $folder && mkdir -p $folder
  echo "flashinfer-python==0.6.9 --hash=sha256:46d013119ecd039a5844c4847325b3571f99cdd8fd9e00839bf008c67b15811a" \
    >$folder/requirement.txt
  # Debian's python3 has no pip of its own; a virtual environment has.
  if ! { /usr/bin/python3 -m venv $folder/venv &&
    $folder/venv/bin/pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
      --only-binary=:all: -d $folder -r $folder/requirement.txt; }; then
    rm -rf $folder
    echo "  not to be had: attention is built without FlashInfer, prefill is slower"
    return
  fi
  python3 - $folder <<'EOF'
import glob, os, sys, zipfile
folder = sys.argv[1]
wheel = glob.glob(folder + "/*.whl")[0]
prefix = "flashinfer/data/include/"
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        if name.startswith(prefix) and not name.endswith("/"):
            target = os.path.join(folder, "unpacked", name[len(prefix):])
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(archive.read(name))
os.rename(folder + "/unpacked", folder + "/include")
os.remove(wheel)
EOF
  rm -rf $folder/venv
}

# XGrammar's sources, from which structured outputs are built; pinned by hash. pip builds whatever
# sdist it downloads, so the file is looked up in the index that pip is configured with, as pip does.
install_xgrammar() {
  local folder=.cache/xgrammar-0.1.28
  if [ -f $folder/include/xgrammar/xgrammar.h ]; then
    say "XGrammar's sources are up to date ($folder)"
    return
  fi
  say "Fetching XGrammar's sources into $folder"
  mkdir -p .cache
  python3 scripts/fetch_sdist.py xgrammar xgrammar-0.1.28.tar.gz \
    8e7edc1ff7a9030f6a16021fc3bed5f0c86ead28be5b9d30305993c6670132cd $folder ||
    echo "  not to be had: requests for structured outputs will be refused"
}

# configure PRESET; CAUSEWAY_LEAN=ON leaves out what only other lanes of scripts/test run.
configure() {
  local preset=$1 options=("-DCAUSEWAY_LEAN=${CAUSEWAY_LEAN:-OFF}") of
  for of in PYTHON=.venv CLIENTS_PYTHON=.venv-clients; do
    if [ -x "${of#*=}/bin/python" ]; then options+=("-DCAUSEWAY_${of%=*}=$PWD/${of#*=}/bin/python")
    else options+=("-UCAUSEWAY_${of%=*}")  # which was there when the folder was configured before
    fi
  done
  # A build folder made for another path (a moved checkout) cannot be reused.
  if [ -f "build/$preset/CMakeCache.txt" ] &&
    ! grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "build/$preset/CMakeCache.txt"; then
    rm -rf "build/$preset"
  fi
  mkdir -p "build/$preset"
  cmake --preset "$preset" "${options[@]}" >"build/$preset/configure.log" 2>&1 || {
    cat "build/$preset/configure.log" >&2
    die "configuring failed"
  }
  grep -hE 'CUDA parts|FlashInfer|XGrammar' "build/$preset/configure.log" || true
}

# How far ninja is, on its standard input, where no terminal shows it: one line every kProgressSeconds,
# and whatever else it says (warnings, errors) at once.
kProgressSeconds=15
progress_lines() {
  local line shown=$SECONDS
  while IFS= read -r line; do
    if [[ $line != "  ["*" s] "* ]]; then
      printf '%s\n' "$line"
    elif [ $((SECONDS - shown)) -ge $kProgressSeconds ]; then
      shown=$SECONDS
      printf '%s\n' "${line%%]*}]"
    fi
  done
}

# build PRESET [TARGET…]: shows steps done, steps of all and the time so far; with CI=true only what fails.
build() {
  local preset=$1
  shift
  say "Building preset '$preset' with $kBuildJobs jobs${*:+: $*}"
  configure "$preset"
  local command=(cmake --build "build/$preset" -j "$kBuildJobs" ${*:+--target "$@"})
  export NINJA_STATUS="  [%f of %t, %e s] "
  if [ "${CI:-}" = true ]; then "${command[@]}" -- --quiet
  elif [ -t 1 ]; then "${command[@]}"
  else "${command[@]}" | progress_lines
  fi
}
