# Shared by deploy/demo and deploy/test: makes the machine ready. To be sourced by sh with the repository as the current
# directory; needs Python 3.11 or newer. What is missing is installed by apt when the user is root, else named in one line.

venv=.venv
compiled=kafkalite/protocol/record_batches/_records
# Hundreds of Python processes are started: each would compile all that it imports.
unset PYTHONDONTWRITEBYTECODE

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "error: $*"
    exit 1
}

can_install() {
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1
}

# install_packages PACKAGE... : quietly, the output is shown only when something went wrong; another apt may be at work.
install_packages() {
    say "installing $*"
    install_log=$(mktemp)
    if ! { [ -n "${apt_updated:-}" ] || apt-get update; } >"$install_log" 2>&1 ||
        ! DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" \
            >>"$install_log" 2>&1; then
        cat "$install_log" >&2
        rm -f "$install_log"
        return 1
    fi
    export apt_updated=yes
    rm -f "$install_log"
}

# find_python : sets $python, which can make environments, to the user's choice ($PYTHON), else to the system's, which distributions
# build with optimisation and to which their packages fit, else to the first on the PATH.
find_python() {
    for candidate in ${PYTHON:-/usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11 python}; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null &&
            prepare_venv_module "$candidate"; then
            python=$candidate
            return
        fi
    done
    fail "${PYTHON:+PYTHON=$PYTHON: }Python 3.11 or newer with its venv module is needed; install it (Debian: python3-venv) and run this again"
}

# prepare_venv_module PYTHON : Debian keeps a part of it in a package of its own.
prepare_venv_module() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    can_install && install_packages "python$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
}

make_environment() {
    [ -x "$venv/bin/python" ] && "$venv/bin/python" -c 'import pip' 2>/dev/null && return
    find_python
    say "creating $venv"
    "$python" -m venv --clear "$venv"
}

# prepare_python PURPOSE : the project with what deploy/requirements/PURPOSE.txt names, extras and packages, in .venv; installed again only
# when its packaging has changed.
prepare_python() {
    make_environment
    stamp="$venv/.installed-$1"
    requirements="deploy/requirements/$1.txt"
    # With a compiler that was missing before, the module is compiled.
    wanted=$({ cat setup.cfg pyproject.toml deploy/requirements/*.txt kafkalite/build_backend.py "$compiled.pyx"; can_compile "$venv/bin/python" && echo cc; } | cksum)
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        tell_compiled
        return
    fi
    extras=$(sed -n 's/^# .*Extras of the package: \([a-z, ]*\).*/\1/p' "$requirements" | tr -d ' ')
    say "installing kafkalite[$extras] and $requirements into $venv"
    rm -f "$compiled.abi3.so" # or an older one would pass for that of this source
    # Bytecode is made of what is imported, when it is: most modules of what is installed never are.
    KAFKALITE_PURE_PYTHON='' "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-compile \
        --config-settings editable_mode=compat --editable ".[$extras]" --requirement "$requirements" ||
        fail "pip could not install kafkalite[$extras] and $requirements"
    printf '%s' "$wanted" >"$stamp"
    tell_compiled
}

# tell_compiled : one line if the compiled module is missing; nothing if the user has declined it.
tell_compiled() {
    [ -n "${KAFKALITE_PURE_PYTHON:-}" ] || [ -f "$compiled.abi3.so" ] ||
        say "note: without a C compiler and Python's headers, Python reads and writes records, more slowly; install them with: sudo apt-get install gcc python3-dev"
}

# Major version of the java that would be run, 0 without one.
java_version() {
    found=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    printf '%s' "${found:-0}"
}

java_remedy() {
    "${python:-$venv/bin/python}" -c 'from zk.servers.java_remedy import java_remedy; print(java_remedy())'
}

prepare_java() {
    [ "$(java_version)" -ge 17 ] && return
    can_install || fail "ZooKeeper needs Java 17 or newer; for this system: $(java_remedy)"
    install_packages openjdk-17-jre-headless || install_packages default-jre-headless ||
        fail "cannot install Java; install a Java 17 runtime by hand"
    unset JAVA_HOME
    [ "$(java_version)" -ge 17 ] || fail "the installed Java is older than 17; install a Java 17 runtime by hand"
}

# prepare_optional PROGRAM PACKAGE WHAT_IS_LOST : only some tests need it, so its absence is told and no error.
prepare_optional() {
    command -v "$1" >/dev/null 2>&1 && return
    if can_install && install_packages "$2"; then
        return
    fi
    say "note: $1 is missing, so $3; install it with: sudo apt-get install $2"
}

# can_compile PYTHON : there are a C compiler and the headers of that Python.
can_compile() {
    command -v cc >/dev/null 2>&1 &&
        "$1" -c "import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')))"
}

# prepare_compiler : what compiles the module for records for $python, which find_python has set. prepare_python tells if it is missing.
prepare_compiler() {
    can_compile "$python" || ! can_install || install_packages gcc libc6-dev python3-dev || true
}

# prepare_gssapi WHAT_IS_LOST : Python's package of Kerberos: Debian's, for Debian's Python, else compiled, which takes a minute.
prepare_gssapi() {
    "$venv/bin/python" -c 'import gssapi' 2>/dev/null && return
    package_root="$PWD/$venv/packages/python3-gssapi"
    path_file=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/debian-gssapi.pth
    if [ -d "$package_root/usr" ] || unpack python3-gssapi "$package_root"; then
        echo "$package_root/usr/lib/python3/dist-packages" >"$path_file"
        "$venv/bin/python" -m pip install -qq --disable-pip-version-check decorator
        "$venv/bin/python" -c 'import gssapi' 2>/dev/null && return
        rm "$path_file"
    fi
    if can_install && install_packages libkrb5-dev &&
        "$venv/bin/python" -m pip install -qq --disable-pip-version-check --editable ".[gssapi]"; then
        return
    fi
    say "note: Python's package gssapi is missing, so $1; it needs libkrb5-dev and a C compiler, or is in the Debian package python3-gssapi"
}

# prepare_unpacked PROGRAM PACKAGE WHAT_IS_LOST : the same for a program whose package would start a service when installed: it is
# only unpacked, below the environment.
prepare_unpacked() {
    command -v "$1" >/dev/null 2>&1 && return
    package_root="$PWD/$venv/packages/$2"
    if [ -x "$package_root/usr/bin/$1" ] || unpack "$2" "$package_root"; then
        ln -sf "$package_root/usr/bin/$1" "$venv/bin/$1"
        return
    fi
    say "note: $1 is missing, so $3; it is in the Debian package $2"
}

# unpack PACKAGE FOLDER
unpack() {
    command -v dpkg-deb >/dev/null 2>&1 || return 1
    say "unpacking $1"
    if can_install && [ -z "${apt_updated:-}" ]; then
        apt-get update >/dev/null 2>&1 && apt_updated=yes
    fi
    mkdir -p "$2"
    (cd "$2" && apt-get download "$1" >/dev/null 2>&1 && dpkg-deb -x "$1"_*.deb . && rm "$1"_*.deb)
}

docker_answers() {
    command -v docker >/dev/null 2>&1 && docker info >/dev/null 2>&1
}

# prepare_docker WHAT_IS_LOST : Docker's engine answers, or it is told why not, and the status is 1. An engine that is started
# here has to be stopped with stop_docker.
prepare_docker() {
    docker_answers && return
    if ! command -v dockerd >/dev/null 2>&1 || ! command -v docker >/dev/null 2>&1; then
        if ! can_install || ! install_packages docker.io; then
            say "note: Docker is missing, so $1; install it with: sudo apt-get install docker.io"
            return 1
        fi
        docker_answers && return
    fi
    if [ "$(id -u)" -ne 0 ]; then
        say "note: Docker's engine cannot be reached, so $1; start it with: sudo systemctl start docker"
        return 1
    fi
    say "starting Docker's engine"
    docker_log=$(mktemp)
    dockerd >"$docker_log" 2>&1 &
    docker_engine=$!
    for _ in $(seq 60); do
        docker_answers && return
        kill -0 "$docker_engine" 2>/dev/null || break
        sleep 0.5
    done
    tail -n 20 "$docker_log" >&2
    stop_docker
    say "note: Docker's engine does not start, so $1"
    return 1
}

stop_docker() {
    if [ -n "${docker_engine:-}" ]; then
        kill "$docker_engine" 2>/dev/null
        wait "$docker_engine" 2>/dev/null || true
        rm -f "$docker_log"
        docker_engine=
    fi
}
